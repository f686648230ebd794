"""A diagnosis as the document that is kept: its verdict with its place on the drawing of the cluster's network."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.next_tests import after
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.kit.errors import InputError
from railyard.measure.picture import drawing_of
from railyard.measure.result.answers.diagnosis import DiagnosisAnswer, SuspectRow, TestStep
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.ask.observe.diagnosis.verdict import Diagnosis, Suspect
    from railyard.cluster import Cluster
    from railyard.measure.picture import Drawing
    from railyard.measure.result.answers.place import PicturePlace

_NIC = re.compile(r"server (\d+) nic (\d+)", re.IGNORECASE)
_HOST = re.compile(r"(?:server|host) (\d+)", re.IGNORECASE)
_RANK = re.compile(r"(?:rank|accelerator) (\d+)", re.IGNORECASE)


def answer_of(found: Diagnosis, name: str, cluster: Cluster | None) -> DiagnosisAnswer:
    """The document.

    Args:
        found: The diagnosis.
        name: Of what was looked at.
        cluster: Where it was; None: parts have no place.
    """
    drawing = None if cluster is None else drawing_of(cluster)
    return DiagnosisAnswer(
        format="railyard-diagnosis/1",
        name=name,
        version=version(),
        verdict=tuple(_row(suspect, cluster, drawing) for suspect in found.verdict),
        unknown=found.unknown,
        missing_ranks=tuple(found.missing_ranks),
        what_if=found.plain()["what_if"],
        notes=tuple(found.notes),
        steps=tuple(TestStep(**asdict(step)) for step in after(found, cluster)),
        picture=None if drawing is None else drawing.picture(np.zeros(drawing.ends.shape[1])),
    )


def _row(suspect: Suspect, cluster: Cluster | None, drawing: Drawing | None) -> SuspectRow:
    place = {} if cluster is None or drawing is None else {"place": _place(suspect.part, cluster, drawing)}
    return SuspectRow(
        part=suspect.part,
        kind=suspect.kind,
        confidence=float(suspect.confidence),
        pattern=suspect.pattern,
        slow_steps=suspect.slow_steps,
        evidence=suspect.evidence,
        usd_per_hour=None if suspect.usd_per_hour is None else float(suspect.usd_per_hour),
        **place,
    )


def _place(part: str, cluster: Cluster, drawing: Drawing) -> PicturePlace:
    network = cluster.back_end
    links = links_of(part, cluster) - network.link_offset
    links = links[(links >= 0) & (links < drawing.ends.shape[1])]
    ends = drawing.ends[:, links]
    # All cables of a part meet at it: at one node, or at the two ends of a cable.
    nodes, often = np.unique(ends, return_counts=True)
    there = nodes[often == often.max(initial=0)] if len(links) else nodes
    if len(there) > 2:
        there = there[drawing.row[there] == drawing.row[there].min()]
    return drawing.place(links, there)


def links_of(part: str, cluster: Cluster) -> NDArray[np.int64]:
    """Physical links of a part that a diagnosis names; none of what has no links in the cluster, as software."""
    places = ClusterPlaces.of(cluster)
    try:
        if (nic := _NIC.fullmatch(part)) is not None:
            return places.nic(int(nic[1]), int(nic[2]), None)
        if (host := _HOST.fullmatch(part)) is not None:
            return places.host(int(host[1]))
        if (rank := _RANK.fullmatch(part)) is not None:
            return places.host(int(rank[1]) // cluster.ranks_per_server)
        return places.cable(part, "all") if " - " in part else places.switch(part)
    except InputError:
        return np.empty(0, np.int64)
