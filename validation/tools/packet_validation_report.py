"""Writes `docs/validation/packets.md`: what htsim recorded against what Railyard finds, with date and commit.

python validation/tools/packet_validation_report.py FOLDER [seeds]
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from railyard_validation.packet.htsim import validate_htsim

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railyard_validation.packet.htsim import HtsimReport, Row

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "validation" / "packets.md"
SHOWN = 0.02
FIGURES = ("mean FCT", "p99 FCT", "max FCT", "last finish", "first finish")
"""Columns; every run also ends with as many flows as recorded, but where the head says otherwise."""
HEAD = """# Packets against htsim

Written by `python validation/tools/packet_validation_report.py FOLDER`, which runs `railyard validate htsim
--folder FOLDER`: the commands that htsim was recorded with, said in Railyard's words, run by the packet engine, and
compared figure by figure.

- *recorded*: runs of uet-htsim (commit 40ccb05; `uec`) and csg-htsim (commit 841d9e7; `csg`: EQDS, NDP, RoCE, HPCC),
  400 Gb/s, their default three-tier fat tree, links of 1 us, `-mtu 4150`.
- *uec_validate*: htsim's own validation suite at 100 Gb/s: the last and the first flow to finish.
- *ns3*: the RDMA of ASTRA-sim's ns-3 on the same matrices (`validation/src/railyard_validation/data`); of
  permutations only the order of the controls is judged to a tolerance.

Times are in microseconds: what was recorded, and in brackets the error of what was found; bold does not agree. As many
flows finish as recorded, but for the three runs of ten messages on one connection, which are one flow here. htsim ran
each case with one seed, and so do we, except where every flow keeps to one path: the result then depends on the hash,
so {seeds} seeds are run, means are compared over all of them, and a single completion of htsim's need only lie in our
range. Tolerances: mean completion 2 %, tails and single completions 5 %, the last finish at a single bottleneck 2 %,
slowed links 8 %, means over the hash 10 %. A figure also agrees where htsim gives it under another seed than the
recorded one. Each of the two orders of load balancers, and that of ns-3's controls, is as recorded.

{date}, commit {commit}: **{ok} figures agree, {off} do not; {skipped} runs are left out** (reasons at the end).
"""


def main(arguments: list[str]) -> int:
    seeds = int(arguments[1]) if len(arguments) > 1 else 20
    report = validate_htsim(Path(arguments[0]), seeds=seeds, progress=lambda name, share: print(f"{share:4.0%} {name}"))
    PAGE.write_text(page(report, seeds), encoding="utf-8")
    print(PAGE)
    return 0


def page(report: HtsimReport, seeds: int) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    today = datetime.datetime.now(tz=datetime.UTC).date()
    parts = [HEAD.format(seeds=seeds, date=today, commit=commit.stdout.strip(), **report.counts())]
    off = [row for row in report.rows if row.status == "off"]
    if off:
        parts += ["## What does not agree\n", *table(off)]
    run = [row for row in report.rows if row.status != "skipped"]
    for name in ("recorded", "ns3"):
        parts += [f"\n## {name}\n", *by_run([row for row in run if row.table == name])]
    suite = [row for row in run if row.table == "uec_validate"]
    runs = {row.name for row in suite}
    far = {row.name for row in suite if row.figure in FIGURES and abs(row.error) >= SHOWN}
    near = f"Of {len(runs)} runs {len(runs) - len(far)} are within {SHOWN:.0%} in every figure. The others:"
    parts.append(f"\n## uec_validate\n\n{near}\n")
    parts += by_run([row for row in suite if row.name in far])
    parts += ["\n## Not run\n", "| run | why |", "|---|---|"]
    parts += [f"| {row.name} | {row.reason} |" for row in report.rows if row.status == "skipped"]
    return "\n".join(parts) + "\n"


def by_run(rows: Sequence[Row]) -> list[str]:
    """A line a run: expected time, and the error of what was found."""
    figures = [name for name in FIGURES if any(row.figure == name for row in rows)]
    head = [f"| run | {' | '.join(figures)} |", "|---|" + "---|" * len(figures)]
    found = {(row.name, row.figure): cell(row) for row in rows}
    runs = [name for name in dict.fromkeys(row.name for row in rows) if any((name, one) in found for one in figures)]
    return head + [f"| {name} | {' | '.join(found.get((name, one), '') for one in figures)} |" for name in runs]


def cell(row: Row) -> str:
    """One figure of one run; bold where it does not agree."""
    mark = "**" if row.status == "off" else ""
    return f"{mark}{row.expected:,.2f} ({row.error:+.1%}){mark}"


def table(rows: Iterable[Row]) -> list[str]:
    head = [
        "| run | figure | expected | found | range over seeds | error | tolerance | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return head + [line(row) for row in rows]


def line(row: Row) -> str:
    expected, found, low, high = (
        "" if value is None else f"{value:.2f}" for value in (row.expected, row.found, row.low, row.high)
    )
    spread = f"{low} to {high}" if row.seeds > 1 else ""
    allowed = row.reason or (f"{row.tolerance:.0%}" if row.tolerance is not None else "in range")
    error = "" if row.error is None else f"{row.error:+.1%}"
    return "| " + " | ".join([row.name, row.figure, expected, found, spread, error, allowed, row.status]) + " |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
