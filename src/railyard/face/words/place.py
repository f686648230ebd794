"""`railyard place`: which nodes jobs get, by a scheduler's rule; `railyard topology`: a cluster in its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.face.terminal import Table, emit
from railyard.work.operate.kueue.play import state_of, why_not
from railyard.work.operate.place_input import broken_promises
from railyard.work.operate.placed import Advised, PlacedTable
from railyard.work.operate.topology_file import compress_hostlist

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.work.operate.advice import Advice, Question
    from railyard.work.operate.kueue.play import PlayedWorkloads
    from railyard.work.operate.kueue.queues import Share, Workload
    from railyard.work.operate.place_input import PlacedJob
    from railyard.work.operate.tree import NodeTree
    from railyard.work.serving.summary import Lengths, Summary


def _admitted(played: PlayedWorkloads) -> None:
    """Prints which waiting workloads Kueue admits, and where."""
    table = Table(["workload", "queue", "state", "pod set", "pods", "flavors", "where"], right=[4])
    for key, one in played.workloads.items():
        if one.admission is None:
            table.add(key, one.queue, state_of(played, one), "", "", "", why_not(played, key))
            continue
        for place, share in enumerate(one.admission.shares):
            first = (key, one.queue, state_of(played, one)) if not place else ("", "", "")
            flavors = ", ".join(dict.fromkeys(share.flavors.values()))
            table.add(*first, share.name, str(share.count), flavors, _where(share))
    table.print()


def _where(share: Share) -> str:
    if share.place is None:
        return "once nodes are provisioned" if share.delayed == "Pending" else ""
    counts: dict[int, list[str]] = {}
    for values, pods in share.place.domains:
        counts.setdefault(pods, []).append("/".join(values))
    return "; ".join(f"{pods} on {compress_hostlist(names)}" for pods, names in sorted(counts.items(), reverse=True))


def _admit_values(played: PlayedWorkloads, one: Workload) -> dict[str, object]:
    shares = one.admission.shares if one.admission else ()
    return {
        "queue": one.queue,
        "state": state_of(played, one),
        "for": played.gone.get(one.key) or None,
        "why": played.why.get(one.key) if one.admission is None else None,
        "podSets": {
            share.name: {
                "count": share.count,
                "flavors": share.flavors,
                "levels": list(share.place.levels) if share.place else [],
                "domains": [[list(values), pods] for values, pods in share.place.domains] if share.place else [],
            }
            for share in shares
        },
    }


def show_trace(summary: Summary) -> None:
    """Prints rate, lengths, burstiness and shared prefixes of a trace."""
    table = Table(["figure", "value", "meaning"], right=[1])
    for row in [*_rate(summary), *_prefixes(summary), *_classes(summary)]:
        table.add(*row)
    table.print()
    emit("")
    lengths = Table(["tokens", "mean", "p50", "p90", "p99", "largest"], right=[1, 2, 3, 4, 5])
    for what, lengths_of in (("input", summary.input_tokens), ("output", summary.output_tokens)):
        if lengths_of is not None:
            lengths.add(what, *_cells(lengths_of))
    lengths.print()


def trace_sentence(summary: Summary) -> str:
    """Requests, their rate and lengths."""
    said = (
        f"{summary.source}: {summary.requests:,} requests in {_span(summary.duration_s)}, {summary.rate_per_s:.3g} a"
        f" second, at most {summary.peak_rate_per_s:.3g}"
    )
    if summary.input_tokens is not None and summary.output_tokens is not None:
        said += f"; median {summary.input_tokens.p50:,.0f} tokens in, {summary.output_tokens.p50:,.0f} out"
    return f"{said}."


def _rate(summary: Summary) -> list[tuple[str, str, str]]:
    rows = [
        ("rate", f"{summary.rate_per_s:.3g} /s", "mean arrivals"),
        ("peak", f"{summary.peak_rate_per_s:.3g} /s", "the busiest 10 s"),
    ]
    if summary.gap_cv is not None:
        rows.append(("variation of gaps", f"{summary.gap_cv:.2f}", "1: Poisson; more: bursts"))
    for window, index in summary.dispersion.items():
        lag = summary.autocorrelation[window]
        rows.append(
            (f"dispersion in {window:g} s", f"{index:.2f}", f"1: Poisson; correlation of the next window {lag:.2f}")
        )
    return rows


def _prefixes(summary: Summary) -> list[tuple[str, str, str]]:
    rows = [("conversations", f"{summary.sessions:,}", "with an id")] if summary.sessions else []
    if summary.prefix_hit_rate is None or summary.cached_token_share is None:
        return [*rows, ("prefix hits", "unknown", "the trace has no prefixes")]
    blocks = f"of blocks of {summary.block_tokens} tokens, with a cache that never forgets"
    return [
        *rows,
        ("prefix hits", f"{summary.prefix_hit_rate:.1%}", blocks),
        ("cached tokens", f"{summary.cached_token_share:.1%}", "of all input tokens, with the same cache"),
    ]


def _classes(summary: Summary) -> list[tuple[str, str, str]]:
    if len(summary.kinds) < 2:
        return []
    return [(f"class {name}", f"{share:.1%}", "of requests") for name, share in summary.kinds.items()]


def _cells(lengths_of: Lengths) -> list[str]:
    return [
        f"{value:,.0f}" for value in (lengths_of.mean, lengths_of.p50, lengths_of.p90, lengths_of.p99, lengths_of.most)
    ]


def _span(seconds: float) -> str:
    for unit, length in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def plain(found: PlacedTable | Advised | PlayedWorkloads) -> Any:
    """The output of `--json`: for a table, a list of node names for each job in order, empty where it waits."""
    if isinstance(found, PlacedTable):
        names = found.tree.names
        return [[] if one.nodes is None else [names[node] for node in one.nodes] for one in found.jobs]
    if isinstance(found, Advised):
        return [_values(found.asked, one) for one in found.advice]
    return {key: _admit_values(found, one) for key, one in found.workloads.items()}


def kueue_sentence(found: PlacedTable | Advised | PlayedWorkloads) -> str:
    """What Kueue does, in one sentence; empty for jobs that an answer describes by itself."""
    if isinstance(found, PlacedTable | Advised):
        return ""
    waiting = sum(one.admission is None for one in found.workloads.values())
    return f"Kueue admits or moves {len(found.news)} workloads and preempts {len(found.gone)}; {waiting} wait."


def show(found: PlacedTable | Advised | PlayedWorkloads) -> None:
    """Prints the nodes of every job of a table; of a scenario's job also what every policy would cost."""
    if isinstance(found, Advised):
        first, *others = found.advice
        print_advice(found.asked, first, others)
    elif isinstance(found, PlacedTable):
        _print(found.tree, found.jobs)
    else:
        _admitted(found)


def warnings(found: PlacedTable | Advised | PlayedWorkloads) -> list[str]:
    """Promises to jobs that were broken."""
    if not isinstance(found, PlacedTable):
        return []
    return [f"{one.job}: {words}" for one in found.jobs for words in broken_promises(one, found.tree)]


def _print(tree: NodeTree, jobs: Sequence[PlacedJob]) -> None:
    table = Table(
        ["job", "wanted", *(f"{level}s" for level in tree.levels), "nodes"], right=range(1, 2 + len(tree.levels))
    )
    for one in jobs:
        if one.nodes is None:
            table.add(one.job, str(one.request.nodes), *["-"] * len(tree.levels), "waits")
            continue
        spread = [str(len(np.unique(group[one.nodes]))) for group in tree.group]
        table.add(one.job, str(one.request.nodes), *spread, compress_hostlist(tree.names[node] for node in one.nodes))
    table.print()


def _values(asked: Question, one: Advice) -> dict[str, object]:
    names = [] if one.nodes is None else [asked.tree.names[node] for node in one.nodes]
    waits = one.nodes is None
    return {
        "policy": one.policy,
        "nodes": names,
        "groups": {
            level: {"touched": touched, "least": least}
            for level, (touched, least) in zip(asked.tree.levels, one.groups, strict=False)
        },
        "step_s": None if waits else one.step_s,
        "usd_per_1000_steps": None if waits else one.usd,
    }


def print_advice(asked: Question, first: Advice, others: list[Advice]) -> None:
    """The placement, the reason, and the cost of the alternatives."""
    from railyard.work.operate.advice import ordered

    if first.nodes is None:
        emit(f"{first.policy}: the job waits; it needs {asked.nodes} nodes, and {asked.free.idle} are free")
    else:
        emit(f"{first.policy}: {compress_hostlist(asked.tree.names[node] for node in first.nodes)}")
        for level, (touched, least) in zip(asked.tree.levels, first.groups, strict=True):
            as_few = "the fewest possible" if touched == least else f"{least} would be enough"
            emit(f"  {level}s: {touched} ({as_few})")
        emit(f"  step: {1e3 * first.step_s:.1f} ms, ${first.usd:.2f} for 1,000 steps")
    table = Table(["policy", *(f"{level}s" for level in asked.tree.levels), "step ms", "difference", "$/1000 steps"])
    table.right = frozenset(range(1, 4 + len(asked.tree.levels)))
    for one in ordered([first, *others]):
        if one.nodes is None:
            table.add(one.policy, *["-"] * len(asked.tree.levels), "waits", "-", "-")
            continue
        against = f"{one.step_s / first.step_s - 1:+.1%}" if first.nodes is not None else "-"
        table.add(
            one.policy,
            *(str(touched) for touched, _ in one.groups),
            f"{1e3 * one.step_s:.1f}",
            against,
            f"{one.usd:.2f}",
        )
    emit("")
    table.print()


def show_topology(tree: NodeTree) -> None:
    """Prints the size of a cluster, and its levels."""
    groups = [
        f"{len(size):,} {level}{'s' * (len(size) > 1)}" for level, size in zip(tree.levels, tree.size, strict=True)
    ]
    within = f" in {' and '.join(groups)}" if groups else ""
    emit(f"{tree.nodes:,} nodes with {tree.total:,} accelerators{within}.\n")
    table = Table(["level", "groups", "nodes in each", "first"], right=[1])
    for level, size in zip(tree.levels, tree.size, strict=True):
        spread = f"{size.min()}" if size.min() == size.max() else f"{size.min()} to {size.max()}"
        table.add(level, str(len(size)), spread, tree.group_names[tree.levels.index(level)][0])
    table.add("node", str(tree.nodes), f"{tree.total} accelerators in all", tree.names[0])
    table.print()
