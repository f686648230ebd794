"""`railyard observe` and `railyard diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railyard.face.terminal import Cluster, Table, emit, say, wrapped
from railyard.face.verb import FormField, Page, Reply, Request, verb
from railyard.measure import numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.measure.result.answers import DiagnosisAnswer, TestStep

SHOWN, _NOTES = 20, 2
LITTLE = 0.0005
"""Shares that round to 0.0 %."""


@verb(
    "observe",
    "Measure utilization and exposed communication in traces.",
    example="railyard observe examples/traces/resnet-ddp.json.gz",
    group="observe",
    json=True,
    details=True,
    order=30,
)
def observe(
    request: Request,
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="Traces (files, a folder, an archive), or the folder of a run.")
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.parquet", help="Write the record, for `railyard export`.")
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option("--cluster", metavar="FILE", help="A scenario: compare with its cluster."),
    ] = None,
) -> Reply:
    """Print where the time of a cluster went, from its traces or logs, in the figures of a simulated run."""
    from railyard.ask.observe.summary import observed
    from railyard.graph.parquet import write_record
    from railyard.kit.errors import InputError

    record, figures = observed(path, cluster)
    if out is not None:
        if record is None:
            raise InputError("logs of collectives hold no timeline to write", key="--out", found=out)
        write_record(record, out)
        say(f"wrote {out}")
    return Reply(
        figures,
        lambda: _show(figures, details=request.details),
        lambda: figures,
        _headline(figures, clustered=cluster is not None),
    )


TOO_FAST = 0.8
"""Measured over expected time of the slowest collective below which the cluster is hardly the one that was measured."""


def _headline(figures: dict[str, Any], *, clustered: bool) -> str:
    """Where the time went; of logs without a timeline, what they hold."""
    if "utilization" in figures:
        shares = [numbers.percent(figures[key]) for key in ("utilization", "exposed", "idle")]
        most = max(figures["communicators"], key=lambda one: one["exposed"], default=None)
        where = f", most of it on communicator {most['name']}" if most is not None and most["exposed"] > 0 else ""
        return (
            f"GPUs compute {shares[0]} of the time; {shares[1]} is exposed communication{where}; {shares[2]} is idle."
        )
    if timings := figures.get("timings"):
        return _of_timings(timings, clustered=clustered)
    if edges := figures.get("edges"):
        return f"NCCL made {len(edges):,} connections on {len({one['channel'] for one in edges}):,} channels."
    counts = figures.get("counts")
    return _of_counts(counts) if counts else ""


def _of_timings(timings: list[dict[str, Any]], *, clustered: bool) -> str:
    known = [one for one in timings if one["expected_s"] is not None]
    if not known:
        more = "their rows name no collective or no ranks, so none has an expected time"
        more = more if clustered else "--cluster FILE adds the expected times"
        return f"Collectives of {numbers.counted(len(timings), 'size')} were timed; {more}."
    worst = max(known, key=lambda one: one["measured_over_expected"])
    what = f"{worst['kind']} of {worst['size_bytes']:,} bytes on {worst['ranks']} ranks"
    slow = worst["measured_over_expected"]
    if slow < TOO_FAST:
        return (
            f"Collectives are faster than --cluster allows: even the slowest, {what}, takes {slow:.2f} times its"
            " expected time; check that it is this machine, and the unit of time."
        )
    first = "Every collective is as fast as expected; the worst" if slow <= 1 else "The slowest collective"
    return f"{first}, {what}, takes {slow:.2f} times its expected time."


def _of_counts(counts: list[dict[str, Any]]) -> str:
    moved, most = sum(one["value"] != 0 for one in counts), counts[0]
    if not moved:
        return f"All {len(counts):,} counters are zero."
    verb = "is" if moved == 1 else "are"
    return f"{moved:,} of {len(counts):,} counters {verb} not zero; the largest is {most['name']} at {most['part']}."


def _show(figures: dict[str, Any], *, details: bool) -> None:
    there = [key for key in _SECTIONS if figures.get(key)]
    for number, key in enumerate(there if details else there[:1]):
        if number:
            emit("")
        _SECTIONS[key](figures)
    warnings = figures["warnings"]
    for words in warnings if details else warnings[:_NOTES]:
        say(words)
    if not details and (more := there[1:] + ["more remarks"] * (len(warnings) > _NOTES)):
        say(f"--details shows {', '.join(more)}")


def _ranks(figures: dict[str, Any]) -> None:
    heads = ("rank", "utilization", "exposed communication", "idle", "clock ahead", "clock error")
    table = Table(heads, range(1, len(heads)), turn=True)
    for one in figures["ranks"][:SHOWN]:
        clock = figures["clocks"].get(str(one["rank"]), {"ahead_ns": 0, "error_ns": -1})
        known = clock["error_ns"] >= 0
        table.add(
            str(one["rank"]),
            *(numbers.percent(one[key]) for key in ("utilization", "exposed", "idle")),
            numbers.seconds(clock["ahead_ns"] * 1e-9) if known else "",
            numbers.seconds(clock["error_ns"] * 1e-9) if known else "",
        )
    table.print()
    if len(figures["ranks"]) > SHOWN:
        emit(f"and {len(figures['ranks']) - SHOWN} more ranks")


def _communicators(figures: dict[str, Any]) -> None:
    table = Table(("communicator", "members", "exposed", "causes"), (1, 2))
    for one in figures["communicators"]:
        causes = ", ".join(f"{cause} {numbers.percent(share)}" for cause, share in one.get("causes", {}).items())
        table.add(one["name"], str(len(one.get("ranks", ())) or ""), numbers.percent(one["exposed"]), causes)
    table.print()


def _collectives(figures: dict[str, Any]) -> None:
    heads = ("collective", "communicator", "members", "bytes", "count", "median", "busbw GB/s")
    table = Table(heads, (2, 3, 4, 5, 6), turn=True)
    for one in figures["collectives"][:SHOWN]:
        busbw = one["busbw_bps"]
        table.add(
            one["kind"],
            one["communicator"],
            str(one["members"]),
            f"{one['size_bytes']:,}" if one["size_bytes"] else "unknown",
            f"{one['count']:,}",
            numbers.seconds(one["median_s"]),
            "" if busbw is None else f"{busbw / 8e9:.3g}",
        )
    table.print()


def _stragglers(figures: dict[str, Any]) -> None:
    table = Table(("late rank", "collectives", "total wait of others"), (0, 1, 2))
    for one in figures["stragglers"][:SHOWN]:
        table.add(str(one["rank"]), str(one["collectives"]), numbers.seconds(one["late_s"]))
    table.print()


def _timings(figures: dict[str, Any]) -> None:
    heads: tuple[str, ...] = (
        "collective",
        "ranks",
        "bytes",
        "count",
        "median",
        "busbw GB/s",
        "expected",
        "expected busbw",
        "measured/expected",
    )
    if all(one["expected_s"] is None for one in figures["timings"]):
        heads = heads[:-3]
    table = Table(heads, range(1, len(heads)), turn=True)

    def rate(bps: float | None) -> str:
        return "" if bps is None else f"{bps / 8e9:.4g}"

    for one in figures["timings"]:
        known = one["expected_s"] is not None
        cells = [
            one["kind"],
            str(one["ranks"] or "unknown"),
            f"{one['size_bytes']:,}",
            str(one["count"]),
            numbers.seconds(one["median_s"]),
            rate(one["busbw_bps"]),
            numbers.seconds(one["expected_s"]) if known else "",
            rate(one["expected_busbw_bps"]),
            f"{one['measured_over_expected']:.2f}" if known else "",
        ]
        table.add(*cells[: len(heads)])
    table.print()


def _hours(figures: dict[str, Any]) -> None:
    import time

    table = Table(("hour (UTC)", "collectives", "error of the model", "with learned constants"), (1, 2, 3))
    for one in figures["hours"]:
        begins = time.strftime("%Y-%m-%d %H:%M", time.gmtime(one["start_s"]))
        shares = (numbers.percent(one[key]) for key in ("mape_model", "mape"))
        table.add(begins, f"{one['collectives']:,}", *shares)
    table.print()


def _constants(figures: dict[str, Any]) -> None:
    table = Table(("class", "collectives", "extra", "factor", "spread of one"), (1, 2, 3, 4))
    for one in figures["constants"]:
        words = (numbers.seconds(one["extra_s"]), f"{one['factor']:.3f}", numbers.percent(one["noise"]))
        table.add(one["class"], f"{one['collectives']:,}", *words)
    table.print()


def _edges(figures: dict[str, Any]) -> None:
    table = Table(("communicator", "channel", "from", "to", "via", "pattern"), (1, 2, 3))
    for one in figures["edges"][:SHOWN]:
        words = (one["communicator"], one["channel"], one["source"], one["target"], one["via"], one["pattern"])
        table.add(*map(str, words))
    table.print()
    if len(figures["edges"]) > SHOWN:
        emit(f"and {len(figures['edges']) - SHOWN} more connections")


def _counts(figures: dict[str, Any]) -> None:
    table = Table(("counter", "part", "value"), (2,))
    for one in figures["counts"][:SHOWN]:
        table.add(one["name"], one["part"], f"{one['value']:,.0f}")
    table.print()
    if len(figures["counts"]) > SHOWN:
        emit(f"and {len(figures['counts']) - SHOWN} smaller counters")


_SECTIONS = {
    "ranks": _ranks,
    "communicators": _communicators,
    "collectives": _collectives,
    "stragglers": _stragglers,
    "timings": _timings,
    "hours": _hours,
    "constants": _constants,
    "edges": _edges,
    "counts": _counts,
}


@verb(
    "diagnose",
    "Find the part of a cluster that slows it.",
    example="railyard diagnose runs/slow-nic-* --cluster examples/slow-nic.yaml",
    group="observe",
    first=5,
    json=True,
    out="keep",
    order=32,
    page=Page(
        "Diagnose",
        "Names the link, NIC, accelerator, host or rank that makes a cluster slow or hang, and tests to confirm it.",
        order=4,
    ),
)
def diagnose(
    request: Request,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="The folder of a run, a record, operations, flight recorder dumps."),
        FormField(
            "What was measured",
            takes="either",
            needed=True,
            about="Traces, logs, counters or flight recorder dumps; a record; the folder of a run.",
        ),
    ] = None,
    *,
    cluster: Annotated[Cluster, FormField("The cluster")] = None,
    symptom: Annotated[
        str | None,
        typer.Option(
            "--symptom", metavar="NAME", help="slow, flapping or hang: print the tests to run, without a path."
        ),
    ] = None,
) -> Reply:
    """Name the link, NIC, accelerator, host or rank that makes a cluster slow or hang, if the evidence is clear.

    Below it are the tests that confirm it, in order, each with the result that the model expects.
    """
    from railyard.ask.observe import answer as answers
    from railyard.ask.observe.diagnose import diagnose as diagnosed
    from railyard.ask.observe.next_tests import of_symptom
    from railyard.kit.errors import InputError

    if (symptom is None) == (path is None):
        raise InputError("give either a path or a symptom", key="PATH", allowed="a path, or --symptom alone")
    if path is None:
        steps = of_symptom(str(symptom), None if cluster is None else answers.cluster_of(cluster))
        headline = f"Run these {len(steps)} tests in order, and stop at the first whose result is not the expected one."
        return Reply(steps, lambda: _steps(steps), lambda: {"steps": [step.plain() for step in steps]}, headline)
    request.progress("reading what was measured", 0.0)
    found = diagnosed(path, cluster)
    request.progress("choosing the tests that confirm it", 0.9)
    known = None if cluster is None else answers.cluster_of(cluster)
    answer = answers.answer_of(found, path.resolve().name, known)
    notes = answer.notes if answer.verdict else answer.notes[1:]  # the sentence says the first one
    return Reply(answer, lambda: _diagnosis(answer), keep=answer, cluster=cluster, notes=notes)


def _diagnosis(answer: DiagnosisAnswer) -> None:
    if answer.verdict and answer.unknown:
        emit("More may be wrong: see the notes.")
    _slower(answer.what_if)
    if len(answer.verdict) > 1:
        _suspects(answer)
    _steps(answer.steps)


_CAUSES = {"S_communication": "communication", "S_computation": "computation"}


def _slower(what_if: Mapping[str, Any]) -> None:
    """How much longer than on healthy parts, and by what."""
    if "S" not in what_if:
        return
    if what_if["S"] - 1 < LITTLE:
        emit("The work takes as long as on healthy parts.")
        return
    more = {words: what_if[key] - 1 for key, words in _CAUSES.items() if what_if.get(key, 1) - 1 >= LITTLE}
    by = [f"{words} adds {numbers.percent(share)}" for words, share in more.items()]
    takes = f"The work takes {numbers.percent(what_if['S'] - 1)} longer than on healthy parts"
    emit(f"{takes}: {', '.join(by)}." if by else f"{takes}.")


def _suspects(answer: DiagnosisAnswer) -> None:
    table = Table(("part", "kind", "confidence", "$/h", "evidence"), (2, 3), prose=True)
    for suspect in answer.verdict:
        usd = "" if suspect.usd_per_hour is None else f"{suspect.usd_per_hour:,.0f}"
        table.add(suspect.part, suspect.kind, f"{100 * suspect.confidence:.0f} %", usd, suspect.evidence)
    table.print()


def _steps(steps: Sequence[TestStep]) -> None:
    for number, step in enumerate(steps, 1):
        emit(wrapped(f"test {number}: {step.run}"))
        emit(wrapped(f"  expected: {step.expected}"))
        emit(wrapped(f"  else: {step.otherwise}"))
