"""A diagnosis as the document that is kept: its verdict with its place on the drawing of the cluster's network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import railyard.catalog as catalogs
import railyard.cluster as clusters
from railyard.ask.observe.next_tests import after
from railyard.cluster.bill import bill_of
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.measure.cost.assumptions import Assumptions
from railyard.measure.cost.capital import parts_of_rows
from railyard.measure.cost.cost import hourly
from railyard.measure.cost.power import EqualShares
from railyard.measure.decompose import Cause, TimeRow, decompose
from railyard.measure.picture import drawing_of
from railyard.measure.result.answers import DiagnosisAnswer, SuspectRow
from railyard.work.scenario import load, problems
from railyard.work.scenario.cluster import ClusterSection
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.ask.observe.diagnosis.verdict import Diagnosis
    from railyard.cluster import Cluster
    from railyard.graph import Record
    from railyard.measure.cost.power import StepShares
    from railyard.measure.picture import Drawing
    from railyard.measure.result.network import PicturePlace


def cluster_of(path: Path) -> Cluster:
    """Builds it. Nothing else in the file is read: not its workload, and not its faults.

    Raises:
        InputError: The file describes no cluster, or one that cannot be built.
    """
    tree = yaml.read(path, if_empty="it has a section `cluster`, as a scenario")
    section, above = (tree.value["cluster"], "cluster") if "cluster" in tree.value else (tree, None)
    try:
        written = load.check(section, ClusterSection)
        return _built(written, section, _catalog(path, tree))
    except InputError as error:
        raise error.located(key=above) from None


def _built(written: ClusterSection, section: yaml.Node, catalog: catalogs.Catalog) -> Cluster:
    try:
        return clusters.build(written.spec(), catalog, written.arrangement())
    except InputError as error:
        raise problems.place(error, section, (), ClusterSection) from None


def cluster_for(record: Record, path: Path) -> Cluster:
    """The cluster of a record.

    Raises:
        InputError: As of `cluster_of`; or it is not the cluster that the record was made on.
    """
    cluster = cluster_of(path)
    if cluster.ranks < record.graph.ranks:
        raise InputError(
            "the cluster has fewer accelerators than the record has ranks",
            file=path,
            found=cluster.ranks,
            allowed=f"at least {record.graph.ranks}",
        )
    if "links" in record.tables:
        counted, known = len(record.tables["links"]["bytes"]), cluster.links.physical
        if counted not in {known, len(cluster.links)}:
            raise InputError(
                "the record was made on another cluster",
                file=path,
                found=f"{known:,} links",
                allowed=f"the {counted:,} that the record counted",
            )
    return cluster


def seed_of(path: Path) -> int:
    """The seed that a scenario gives its run, by which switches hash; 0 where the file says none."""
    said = yaml.read(path, if_empty="it has a section `cluster`, as a scenario").value.get("seed")
    return said.value if said is not None and isinstance(said.value, int) else 0


def _catalog(path: Path, tree: yaml.Node) -> catalogs.Catalog:
    extra = tree.value.get("catalog")
    return catalogs.load() if extra is None else catalogs.load(path.parent / str(extra.value))


@dataclass(frozen=True)
class PriceOfParts:
    """What the capacity behind a part costs: it is idle while the part is slow, or is taken out."""

    usd_per_hour: float
    ranks: int
    per_host: int

    def of(self, kind: str) -> float | None:
        """Price of the accelerator, or of the whole host behind a NIC; None for a cable between switches."""
        behind = {"accelerator": 1, "nic": self.per_host, "host": self.per_host}.get(kind)
        return None if behind is None else self.usd_per_hour * behind / self.ranks


def price_of_parts(cluster: Cluster) -> PriceOfParts:
    """Prices of the parts of a cluster that computes half of its time: energy is a small part of them."""
    return PriceOfParts(traced_usd_per_hour(cluster, 1.0, 0.5), cluster.ranks, cluster.ranks_per_server)


def traced_usd_per_hour(cluster: Cluster, span_s: float, utilization: float) -> float:
    """All of the cluster, at typical prices of the catalogue, while a trace was taken."""
    busy = min(max(utilization, 0.0), 1.0)
    rows = tuple(
        TimeRow(cause.name.lower(), "", "", span_s * share, share)
        for cause, share in ((Cause.COMPUTE, busy), (Cause.BANDWIDTH, 1 - busy))
    )
    return _hourly(cluster, EqualShares(cluster.ranks, span_s, rows))


def usd_per_hour(record: Record, cluster: Cluster) -> float:
    """Price of the whole cluster, at typical prices of the catalogue.

    Raises:
        InputError: The record says too little of where its time went.
    """
    return _hourly(cluster, decompose(record))


def _hourly(cluster: Cluster, spent: StepShares) -> float:
    parts = parts_of_rows(bill_of(cluster))
    cost = hourly(spent, cluster.accelerator, parts, Assumptions.from_catalog(cluster.catalog))
    return cost.section().usd_per_h.typical


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
        verdict=tuple(_placed(suspect, cluster, drawing) for suspect in found.verdict),
        unknown=found.unknown,
        missing_ranks=tuple(found.missing_ranks),
        what_if=found.plain()["what_if"],
        notes=tuple(found.notes),
        steps=tuple(after(found, cluster)),
        picture=None if drawing is None else drawing.picture(np.zeros(drawing.ends.shape[1])),
    )


def _placed(suspect: SuspectRow, cluster: Cluster | None, drawing: Drawing | None) -> SuspectRow:
    if cluster is None or drawing is None:
        return suspect
    return suspect.model_copy(update={"place": _place(suspect.part, cluster, drawing)})


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
