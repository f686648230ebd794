"""Which tasks are told apart in the tree: a record whose labels also say collective and tier.

The decomposition charges by the label of a task. Here every task gets a label that says more (what kind of collective,
which tier of links bounds it), and the same decomposition then gives rows as fine as the tree wants them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.policy import kind_word
from railyard.engine.lowering import lower
from railyard.graph import CollectiveKind, Kind, Label, Stream
from railyard.measure.ledger import integer_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.policy import CollectivePolicy
    from railyard.engine.lowering import Lowered
    from railyard.graph import Record

LIBRARY = "the library's own rate"
_KEPT = ("data", "checkpoint")
"""Phases by which the decomposition finds its causes; they keep their plain names."""


@dataclass(frozen=True)
class Subject:
    """What a task is, as the tree tells tasks apart.

    Attributes:
        phase, op, group: Of its label.
        what: Kind of collective, `send`, or "" for computation.
        tier: Tier of links that bounds it, or `LIBRARY`; "" for computation.
        algorithm: As the collective library runs it, with its protocol; "" where there is none.
        count: Times that a rank does it in a step, mean over ranks.
        nominal_ps: Of computation on the compute stream: durations as planned, summed over ranks.
        slowed_ps: Of the same: how much longer it took because of communications beside it, summed over ranks.
    """

    phase: str
    op: str
    group: str
    what: str = ""
    tier: str = ""
    algorithm: str = ""
    count: float = 0.0
    nominal_ps: int = 0
    slowed_ps: int = 0


def distinguished(
    record: Record, cluster: Cluster, policy: CollectivePolicy | None
) -> tuple[Record, dict[str, Subject]]:
    """The same record under finer labels, and what each phase of them stands for.

    Args:
        record: Of a step.
        cluster: On which it ran.
        policy: What was fixed about collectives.
    """
    graph = record.graph
    lowered = lower(graph, cluster, policy)
    bound, tiers = _bounds(lowered, cluster)
    words = [f"{a} {p}".strip() for a, p in zip(lowered.algorithm.tolist(), lowered.protocol.tolist(), strict=True)]
    algorithm, algorithms = _coded([*words, ""])
    looks, look_of = _looks(graph.labels)
    place = np.where(lowered.entity >= 0, lowered.entity, len(bound))
    columns = (
        look_of[graph.label],
        graph.kind.astype(np.int64),
        np.where(graph.kind == Kind.COLLECTIVE, graph.collective, 0).astype(np.int64),
        np.append(bound, len(tiers))[place],
        algorithm[place],
    )
    key = np.zeros(len(graph), np.int64)
    for column in columns:
        key = key * (int(column.max(initial=0)) + 1) + column
    _, first, code = np.unique(key, return_index=True, return_inverse=True)
    count, nominal, slowed = _counts(record, code.ravel(), len(first))
    labels: list[Label] = []
    subjects: dict[str, Subject] = {}
    for number, task in enumerate(first.tolist()):
        phase, op, group = looks[columns[0][task]]
        subject = Subject(
            phase,
            op,
            group,
            _what(Kind(int(graph.kind[task])), int(columns[2][task])),
            [*tiers, ""][columns[3][task]],
            algorithms[columns[4][task]],
            float(count[number]) / max(graph.ranks, 1),
            int(nominal[number]),
            int(slowed[number]),
        )
        name = phase if phase in _KEPT else f"{number} {phase}"
        labels.append(Label(name, op, group))
        subjects.setdefault(name, subject)
    finer = dataclasses.replace(graph, label=code.ravel().astype(np.int32), labels=labels)
    return dataclasses.replace(record, what=finer.label, labels=labels, work=finer), subjects


def _what(kind: Kind, collective: int) -> str:
    if kind is Kind.COLLECTIVE:
        return kind_word(CollectiveKind(collective))
    words = {Kind.TRANSFER: "send", Kind.READ: "read", Kind.WRITE: "write", Kind.LOAD: "load", Kind.STORE: "store"}
    return words.get(kind, "")


def _looks(labels: list[Label]) -> tuple[list[tuple[str, str, str]], NDArray[np.int64]]:
    """Labels without layer and micro-batch."""
    index: dict[tuple[str, str, str], int] = {}
    of = np.array([index.setdefault((x.phase, x.op, x.group), len(index)) for x in labels], np.int64)
    return list(index), of


def _coded(words: list[str]) -> tuple[NDArray[np.int64], list[str]]:
    index: dict[str, int] = {}
    return np.array([index.setdefault(word, len(index)) for word in words], np.int64), list(index)


def _bounds(lowered: Lowered, cluster: Cluster) -> tuple[NDArray[np.int64], list[str]]:
    """For each entity the tier whose link takes the longest for it, or that of the library's own rate."""
    entities, links = lowered.entities, cluster.links
    tiers = [*links.tiers, LIBRARY]
    count = len(entities)
    owner = np.repeat(np.arange(count, dtype=np.int64), np.diff(entities.link_ptr))
    slow = entities.link_share / np.maximum(links.rate_bps[entities.link_idx], 1e-9)
    worst = np.zeros(count)
    np.maximum.at(worst, owner, slow)
    bound = np.full(count, len(tiers) - 1, np.int64)
    at = slow >= worst[owner] * (1 - 1e-12)
    bound[owner[at][::-1]] = links.tier[entities.link_idx[at][::-1]]
    capped = 1.0 / np.maximum(entities.rate_cap_bps, 1e-9) > worst * (1 + 1e-9)
    bound[capped] = len(tiers) - 1
    return bound, tiers


def _counts(
    record: Record, code: NDArray[np.int64], size: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Times over all ranks, planned durations of computation, and what communications beside it added."""
    graph = record.graph
    shared = graph.kind == Kind.COLLECTIVE
    members = np.ones(len(graph))
    if shared.any():
        sizes = np.diff(graph.communicators.ptr)
        members[shared] = sizes[graph.rank[shared]]
    count = np.bincount(code, members * graph.count, minlength=size).astype(np.float64)
    computes = (graph.kind == Kind.COMPUTE) & (graph.stream == Stream.COMPUTE)
    nominal = integer_sums(code[computes], graph.duration_ps[computes], size)
    if not record.has("slowed_ps"):
        return count, nominal, np.zeros(size, np.int64)
    return count, nominal, integer_sums(code[computes], record.column("slowed_ps")[computes], size)
