"""Operators within the computation of a step, from the formulas of its durations.

The task graph has one duration per stage and pass. It is the sum of operators (`workload.training.blocks`), so each
operator's part is computed by the same functions again; gaps between kernels and casts are the difference to a device
without gaps or software without casts. The rest of a duration is waiting for the host.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.policy import kind_word
from railyard.engine.lowering import lower
from railyard.graph import CollectiveKind, Kind, Label, Stream
from railyard.measure.decompose import integer_sums
from railyard.work.training import blocks
from railyard.work.training.columns import Columns
from railyard.work.training.stages import virtual_stages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from railyard.catalog import Accelerator
    from railyard.cluster import Cluster
    from railyard.collective.policy import CollectivePolicy
    from railyard.engine.lowering import LoweredGraph
    from railyard.graph import Record
    from railyard.work.training.operators import Operator
    from railyard.work.training.spec import Training
    from railyard.work.training.stages import VirtualStage

    Block = Callable[[Columns], list[Operator]]


LIBRARY = "the library's own rate"
_KEPT = ("data", "checkpoint")
"""Phases that the decomposition identifies by name; they keep their plain names."""


@dataclass(frozen=True)
class Subject:
    """Identity of a task in the tree.

    Attributes:
        phase, op, group: From its label.
        what: Kind of collective, `send`, or "" for computation.
        tier: Tier of the links that limit it, or `LIBRARY`; "" for computation.
        algorithm: Algorithm and protocol of the collective library; "" if there is none.
        count: Executions per rank and step, mean over ranks.
        nominal_ps: Planned durations of computation on the compute stream, summed over ranks.
        slowed_ps: Extra time of the same because of overlapping communications, summed over ranks.
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
    """The same record with finer labels, and the meaning of each of their phases."""
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


def _bounds(lowered: LoweredGraph, cluster: Cluster) -> tuple[NDArray[np.int64], list[str]]:
    """For each entity the tier with its slowest link, or that of the library's own rate."""
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
    """Executions over all ranks, planned durations of computation, extra time from overlapping communications."""
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


GEMM, GROUPED, CORE, PASS, CAST, GAP = (
    "GEMM",
    "grouped GEMM",
    "attention core",
    "passes over memory",
    "casts",
    "launch gaps",
)
FORWARD, BACKWARD, WEIGHT, RECOMPUTE = "forward", "backward", "weight gradient", "recompute"

# Field of an operator that holds the device time of a phase, and the one that counts its kernels.
_FIELDS = {FORWARD: "forward", BACKWARD: "backward_input", WEIGHT: "backward_weight", RECOMPUTE: "forward"}
_BLOCKS: dict[str, Block] = {
    "attention": blocks.attention_block,
    "MLP": blocks.mlp_block,
    "experts": blocks.moe_block,
    "embedding": blocks.embedding,
    "head": blocks.head,
}


@dataclass(frozen=True)
class TracedWork:
    """Device time of one kind of work in one phase, as the formulas give it.

    Attributes:
        operator: Its name; for gaps and casts, the operator that they belong to.
        seconds: Seconds per step, summed over ranks.
        kernels: Launches per step, summed over ranks.
    """

    part: str
    kind: str
    phase: str
    operator: str
    seconds: float
    kernels: float


def work_of(training: Training, accelerator: Accelerator) -> list[TracedWork]:
    """Every operator of a step, over all ranks; those without time are dropped."""
    times = _times(training, accelerator)
    total: dict[tuple[str, str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    replicas = training.layout.ranks // training.layout.pp * training.layout.micro_batches
    for stage in virtual_stages(training.model, training.layout):
        for part, block, count in _passes(training, stage):
            for kind, phase, name, seconds, kernels in times[block]:
                often = count * replicas * _again(training, block, phase, name)
                entry = total[part, kind, phase, name]
                entry[0] += often * seconds
                entry[1] += often * kernels
    return [TracedWork(*key, seconds, kernels) for key, (seconds, kernels) in total.items() if seconds > 0]


def _passes(training: Training, stage: VirtualStage) -> Iterator[tuple[str, str, float]]:
    """Parts of the model on a stage: name, block, and count."""
    dense = stage.layers - stage.moe_layers
    counts = {
        "attention": stage.layers,
        "MLP": dense,
        "experts": stage.moe_layers,
        "embedding": int(stage.embedding),
        "head": int(stage.head),
    }
    yield from ((part, part, float(count)) for part, count in counts.items() if count)
    ahead = training.model.mtp_layers * int(stage.head)
    if ahead:
        last = "experts" if training.model.experts else "MLP"
        yield from (("token prediction", block, float(ahead)) for block in ("attention", last, "joint", "head"))


def _again(training: Training, block: str, phase: str, name: str) -> float:
    """How often a phase runs per forward pass: once, unless the layout recomputes it."""
    if phase != RECOMPUTE:
        return 1.0
    layout = training.layout
    if layout.recompute == "full" and block in ("attention", "MLP", "experts"):
        return layout.recompute_share
    return float(layout.recompute == "selective" and name == "attention")


def _times(training: Training, accelerator: Accelerator) -> dict[str, list[tuple[str, str, str, float, float]]]:
    """For each block rows of (kind, phase, operator, seconds, kernels) of one micro-batch on one rank."""
    columns = Columns.of([training], [accelerator])
    zero = np.zeros(1)
    pace = _first(columns.job.pace)  # own runs say that kernels take so many times as long
    smooth = dataclasses.replace(columns, device=columns.device.replace(gap_s=zero))
    plain = dataclasses.replace(columns, software=columns.software.replace(cast_bytes=zero))
    found = {}
    for name, block in {**_BLOCKS, "joint": blocks.prediction_joint}.items():
        found[name] = [
            (kind, phase, one, pace * seconds, kernels)
            for operator, without_gap, without_cast in zip(block(columns), block(smooth), block(plain), strict=True)
            for kind, phase, one, seconds, kernels in _operator(operator, without_gap, without_cast)
        ]
    return found


def _operator(
    operator: Operator, without_gap: Operator, without_cast: Operator
) -> Iterator[tuple[str, str, str, float, float]]:
    kind = _kind(operator)
    for phase, name in _FIELDS.items():
        seconds = _first(getattr(operator, name))
        if seconds <= 0:
            continue
        gap = max(seconds - _first(getattr(without_gap, name)), 0.0)
        cast = max(seconds - _first(getattr(without_cast, name)), 0.0)
        kernels = _first(operator.launches if phase in (FORWARD, RECOMPUTE) else operator.launches_backward)
        if phase == WEIGHT:
            kernels = 1.0
        elif phase == BACKWARD and _first(operator.backward_weight) > 0:
            kernels = max(kernels - 1.0, 1.0)
        yield kind, phase, operator.name, max(seconds - gap - cast, 0.0), kernels
        yield GAP, phase, operator.name, gap, kernels
        yield CAST, phase, operator.name, cast, 1.0


def _kind(operator: Operator) -> str:
    if operator.core:
        return CORE
    if _first(operator.flops) <= 0:
        return PASS
    return GROUPED if operator.name.startswith("experts ") else GEMM


def _first(column: object) -> float:
    return float(np.asarray(column, np.float64).reshape(-1)[0])
