"""Builds the time tree of a step: the decomposition of its record, and the operators within computation."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from railyard.graph import HOST as LAUNCHING
from railyard.measure.decompose import decompose
from railyard.work.training.explain_leaf import Laws, TimeNode, TimeTree, shared_out
from railyard.work.training.explain_work import BACKWARD, FORWARD, RECOMPUTE, WEIGHT, TracedWork, distinguished, work_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.cluster import Cluster
    from railyard.collective.policy import CollectivePolicy
    from railyard.graph import Record
    from railyard.measure.decompose import TimeRow
    from railyard.work.training.explain_work import Subject
    from railyard.work.training.spec import Training

COMPUTATION = "computation"
HOST = "waiting for the host"
BESIDE = "slowed by communication"
SPREAD = "jitter and slow accelerators"
OPTIMIZER = "optimizer"
FIXED = "fixed part of the step"
COMMUNICATION = "exposed communication"
BUBBLE = "pipeline bubble"
STRAGGLERS = "stragglers"
STALL = "checkpoint stall"
MEETINGS = "meetings of workers"
VARIATION = "data that comes late now and then"

_WAITS = {
    "data": "waiting for data",
    "checkpoint": "checkpoint",
    "fault": "injected delays",
    "dependency": "other waits",
}
_NETWORK = ("bandwidth", "latency", "contention")
_PASSES = {"forward": (FORWARD,), "backward": (BACKWARD, WEIGHT), "weight": (WEIGHT,), "recompute": (RECOMPUTE,)}
_GROUPS = {
    "tp": "tensor parallel",
    "dp": "data parallel",
    "pp": "pipeline",
    "ep": "expert parallel",
    "cp": "context parallel",
    "edp": "replicas of experts",
    "world": "all ranks",
    "embedding": "shared embedding",
}


def tree_of(
    record: Record,
    cluster: Cluster,
    training: Training,
    policy: CollectivePolicy | None = None,
    *,
    variant: str = "",
    added_ps: Mapping[str, int] | None = None,
) -> TimeTree:
    """The time tree of a step.

    Args:
        record: Record of the step.
        cluster: The cluster.
        training: The job.
        policy: Fixed settings of collectives.
        variant: Name of the variant.
        added_ps: Parts of the mean step beyond the record, by name: checkpoints, meetings, varying data.

    Raises:
        InputError: The record does not belong to the job.
    """
    finer, subjects = distinguished(record, cluster, policy)
    found = decompose(finer)
    laws = Laws(training, cluster, str(record.meta.get("engine", "")))
    rows = _by_cause(found.rows)
    compute, rest = _computation(rows.pop("compute", []), subjects, work_of(training, cluster.accelerator), laws)
    nodes = [compute, *rest]
    nodes.append(_communication({cause: rows.pop(cause, []) for cause in _NETWORK}, subjects, laws))
    nodes.append(_waits(BUBBLE, rows.pop("bubble", []), subjects, laws, by_group=False))
    nodes.append(_waits(STRAGGLERS, rows.pop("straggler", []), subjects, laws, by_group=True))
    launches = [row for row in rows.get("dependency", []) if subjects[row.phase].phase == LAUNCHING]
    rows["dependency"] = [row for row in rows.get("dependency", []) if subjects[row.phase].phase != LAUNCHING]
    nodes.append(_waits(HOST, launches, subjects, laws, by_group=False))
    nodes += [_waits(_WAITS[cause], rest, subjects, laws, by_group=False) for cause, rest in rows.items()]
    added = {name: amount for name, amount in (added_ps or {}).items() if amount}
    nodes += [TimeNode(name, amount * found.ranks, by=laws.added(name)) for name, amount in added.items()]
    step_ps = found.step_ps + sum(added.values())
    tree = TimeTree(variant, step_ps, found.ranks, TimeNode.of("step", nodes), laws.notes())
    tree.check()
    return tree


def _by_cause(rows: Sequence[TimeRow]) -> dict[str, list[TimeRow]]:
    found: dict[str, list[TimeRow]] = defaultdict(list)
    for row in rows:
        found[row.cause].append(row)
    return dict(found)


def _computation(
    rows: Sequence[TimeRow], subjects: Mapping[str, Subject], work: Sequence[TracedWork], laws: Laws
) -> tuple[TimeNode, list[TimeNode]]:
    """Computation by part of the model, and separately the host, the optimizer, the fixed part and slowdowns."""
    leaves: dict[tuple[str, str, str], list[TimeNode]] = defaultdict(list)
    nodes_of: dict[str, list[TimeNode]] = defaultdict(list)
    weight_apart = any(subjects[row.phase].phase == "weight" for row in rows)
    pools: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        subject = subjects[row.phase]
        name = f"{subject.phase} {subject.op}"
        spread = row.rank_ps - subject.nominal_ps - subject.slowed_ps
        # The engine rounds what a kernel loses to integer picoseconds, once or twice a kernel.
        rounded = spread if subject.slowed_ps and abs(spread) <= 2 * round(subject.count * laws.ranks) else 0
        nodes_of[BESIDE].append(TimeNode(name, subject.slowed_ps + rounded, by=laws.contention()))
        nodes_of[SPREAD].append(TimeNode(name, spread - rounded, by=laws.spread()))
        if subject.phase in _PASSES:
            pools[subject.phase][0] += subject.nominal_ps
        elif subject.phase == "optimizer":
            place, law = (FIXED, laws.fixed()) if subject.op == "host" else (OPTIMIZER, laws.optimizer())
            nodes_of[place].append(TimeNode(subject.op, subject.nominal_ps, subject.count, law))
        else:
            nodes_of["other computation"].append(
                TimeNode(f"{subject.phase} {subject.op}", subject.nominal_ps, subject.count)
            )
    ranks = laws.ranks
    for phase, (nominal, _) in pools.items():
        wanted = tuple(p for p in _PASSES[phase] if not (phase == "backward" and weight_apart and p == WEIGHT))
        mine = [one for one in work if one.phase in wanted]
        amounts, host = _placed(nominal, mine)
        if host:
            nodes_of[HOST].append(TimeNode(phase, host, by=laws.host()))
        for one, amount in zip(mine, amounts, strict=True):
            law = laws.work(one)
            leaves[one.part, one.kind, one.phase].append(TimeNode(one.operator, amount, one.kernels / ranks, law))
    return TimeNode.of(COMPUTATION, _nested(leaves)), [TimeNode.of(name, nodes) for name, nodes in nodes_of.items()]


def _placed(nominal_ps: int, work: Sequence[TracedWork]) -> tuple[list[int], int]:
    """Amounts of operators, and the rest for the host; in proportion if durations were given from outside."""
    planned = sum(one.seconds for one in work)
    device = round(planned * 1e12)
    slack = max(abs(device) * 1e-6, 1e6)  # each duration of the graph is rounded to a picosecond
    total = nominal_ps if not work or device > nominal_ps - slack else device
    if not work:
        return [], nominal_ps
    return shared_out(total, [one.seconds for one in work]), nominal_ps - total


def _nested(leaves: Mapping[tuple[str, str, str], list[TimeNode]]) -> list[TimeNode]:
    parts: dict[str, dict[str, list[TimeNode]]] = defaultdict(lambda: defaultdict(list))
    for (part, kind, phase), nodes in leaves.items():
        parts[part][kind].append(TimeNode.of(phase, nodes))
    return [
        TimeNode.of(part, [TimeNode.of(kind, inner) for kind, inner in kinds.items()]) for part, kinds in parts.items()
    ]


def _communication(rows: Mapping[str, Sequence[TimeRow]], subjects: Mapping[str, Subject], laws: Laws) -> TimeNode:
    """Communication by group, collective and cause; the leaf is the tier of the network."""
    groups: dict[str, dict[str, dict[str, list[TimeNode]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for cause, mine in rows.items():
        merged: dict[tuple[str, str, str], list[TimeRow]] = defaultdict(list)
        for row in mine:
            subject = subjects[row.phase]
            what = f"{subject.phase} {subject.what or subject.op}"
            merged[subject.group, what, subject.tier].append(row)
        for (group, what, tier), same in merged.items():
            used = [subjects[row.phase] for row in same]
            law = laws.communication(cause, tier, sorted({one.algorithm for one in used if one.algorithm}))
            times = sum({id(one): one.count for one in used}.values())
            node = TimeNode(tier or "all tiers", sum(row.rank_ps for row in same), times, law)
            groups[group][what][cause].append(node)
    return TimeNode.of(
        COMMUNICATION,
        [
            TimeNode.of(
                group_word(group),
                [
                    TimeNode.of(what, [TimeNode.of(cause, inner) for cause, inner in causes.items()])
                    for what, causes in whats.items()
                ],
            )
            for group, whats in groups.items()
        ],
    )


def group_word(group: str) -> str:
    """A class of communicators in words."""
    return f"{_GROUPS[group]} ({group})" if group in _GROUPS else group or "no group"


def _waits(
    name: str, rows: Sequence[TimeRow], subjects: Mapping[str, Subject], laws: Laws, *, by_group: bool
) -> TimeNode:
    """Waits by what was waited for; stragglers first by the group in which they were waited for."""
    groups: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        subject = subjects[row.phase]
        where = group_word(row.group) if by_group and row.group else ""
        groups[where][f"{subject.phase} {subject.op}".strip()] += row.rank_ps
    nodes = []
    for where, amounts in groups.items():
        inner = [TimeNode(f"for {what}", amount, by=laws.waiting(name)) for what, amount in amounts.items()]
        nodes += [TimeNode.of(where, inner)] if where else inner
    return TimeNode.of(name, nodes)
