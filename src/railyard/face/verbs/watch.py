"""`railyard watch`: a cluster while it runs, by its Prometheus."""

from __future__ import annotations

import time
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railyard.face.terminal import Json, Table, emit, say, wrapped
from railyard.face.verb import verb

if TYPE_CHECKING:
    from railyard.ask.observe.live import MetricsServer

SHOWN = 20
MOST_PORT = 65535


def _rehearse(run: Path, *, cluster: Path | None, out: Path | None) -> None:
    """Writes an hour of telemetry, ten minutes of it with the fault of a run, and says how to load it.

    Raises:
        InputError: The run cannot be read, or a file is missing.
    """
    from railyard.ask.observe.answer import cluster_for, seed_of
    from railyard.ask.observe.live import openmetrics, undisturbed
    from railyard.ask.observe.summary import record_file
    from railyard.graph.parquet import read_record
    from railyard.kit.errors import InputError
    from railyard.kit.files import write_text

    file = record_file(run)
    if file is None or cluster is None or out is None:
        raise InputError("a rehearsal needs the folder of a run, --cluster and --out", key="--rehearse", found=run)
    faulty, now = read_record(file), time.time()
    machine = cluster_for(faulty, cluster)
    healthy = undisturbed(faulty, machine, seed_of(cluster))
    out.mkdir(parents=True, exist_ok=True)
    lines = openmetrics(healthy, faulty, machine, start_s=now - 3600, fault_s=now - 600, end_s=now, every_s=15)
    write_text(out / "railyard-rehearsal.om", "\n".join(lines) + "\n")
    say(f"wrote {out / 'railyard-rehearsal.om'}; promtool tsdb create-blocks-from openmetrics loads it")


@verb(
    "watch",
    "Watch a cluster by Prometheus; alert where it is slow.",
    example="railyard watch --rehearse runs/slow-nic-* --cluster examples/slow-nic.yaml --out rules",
    group="observe",
    order=31,
)
def watch(
    *,
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="Such as http://localhost:9090.")
    ] = None,
    rehearse: Annotated[
        Path | None,
        typer.Option("--rehearse", metavar="RUN", help="A run with a fault: write its telemetry for promtool and end."),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option("--cluster", metavar="FILE", help="A scenario: compare with its cluster."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Write rules, alerts, a Grafana dashboard and expected values."),
    ] = None,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=1.0, help="Seconds between queries.")] = 30,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="PORT", help="Serve expected values to Prometheus; ADDRESS:PORT for others."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Query once and end.")] = False,
    json: Json = False,
) -> None:
    """Compare the bandwidth of collectives in a Prometheus with what the model expects, and show its alerts."""
    from railyard.ask.observe.answer import cluster_of
    from railyard.ask.observe.expected import Drift
    from railyard.ask.observe.live import Prometheus, page
    from railyard.ask.observe.watch import Expected, calibrated, expectations, exposition, files, learn, look
    from railyard.kit.errors import InputError
    from railyard.kit.files import write_text

    if rehearse is not None:
        _rehearse(rehearse, cluster=cluster, out=out)
        return
    if prometheus is None:
        raise InputError(
            "the address of Prometheus is missing", key="--prometheus", allowed="http://HOST:9090, or --rehearse"
        )
    server = Prometheus(prometheus)
    machine = None if cluster is None else cluster_of(cluster)
    expected: Expected = {}
    drift = Drift()
    exporter = None if export is None else _exporter(export, cluster)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for path, text in files(out).items():
            write_text(path, text)
            say(f"wrote {path}")
    while True:
        if machine is not None:
            expected = expectations(server, machine, expected)
        if out is not None:
            write_text(out / "railyard-expected.prom", exposition(expected))
        seen = look(server, expected)
        learn(drift, seen["collectives"], time.time())
        if exporter is not None:
            exporter.show(page(expected, calibrated(expected, drift), drift))
        _show(seen, as_json=json)
        if once:
            return
        time.sleep(every)


def _exporter(where: str, cluster: Path | None) -> MetricsServer:
    """An exporter at PORT of this machine, or at ADDRESS:PORT.

    Raises:
        InputError: There is nothing to export, or nothing can listen there.
    """
    from railyard.ask.observe.live import LOOPBACK, MetricsServer
    from railyard.ask.observe.reader import is_count
    from railyard.kit.errors import InputError

    address, _, port = where.rpartition(":")
    if not is_count(port) or int(port) > MOST_PORT:
        raise InputError("expected a port", key="--export", found=where, allowed=f"0 to {MOST_PORT}, or ADDRESS:PORT")
    if cluster is None:
        raise InputError("expected values need the cluster", key="--export", hint="name it with --cluster")
    exporter = MetricsServer(int(port), address or LOOPBACK)
    say(f"expected values: {exporter.url}")
    return exporter


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        emit(dumps(found, ensure_ascii=False, allow_nan=False))
        return
    emit(f"{_headline(found)}\n")
    table = Table(
        ("collective", "bytes", "ranks", "communicator", "busbw GB/s", "expected", "measured/expected"), (2, 4, 5, 6)
    )
    for one in found["collectives"][:SHOWN]:
        known = one["expected_gbs"] is not None
        table.add(
            *(one[key] for key in ("collective", "message_size", "nranks", "communicator")),
            f"{one['busbw_gbs']:.4g}",
            f"{one['expected_gbs']:.4g}" if known else "",
            f"{one['ratio']:.2f}" if known else "",
        )
    if found["collectives"]:
        table.print()
    for one in found["alerts"]:
        emit(wrapped(f"{one['state']}: {one['alert']}: {one['summary']}; {one['action']}"))


def _headline(found: dict[str, Any]) -> str:
    """Alerts, and the slowest collective against what is expected of it."""
    count = len(found["alerts"])
    alerts = f"{count} alert{'s are' if count > 1 else ' is'} active" if count else "No alert is active"
    if not found["collectives"]:
        return f"{alerts}; Prometheus has no collectives of NCCL inspector."
    first = found["collectives"][0]
    if first["ratio"] is None:
        return f"{alerts}; {len(found['collectives'])} collectives are measured."
    return f"{alerts}; the slowest collective reaches {100 * first['ratio']:.0f} % of its expected bandwidth."
