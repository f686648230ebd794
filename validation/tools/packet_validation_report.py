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
    from collections.abc import Iterable

    from railyard_validation.packet.htsim import HtsimReport, Row

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "validation" / "packets.md"
OTHERS = 10
HEAD = """# Packets against htsim

Written by `python validation/tools/packet_validation_report.py FOLDER`, which runs `railyard validate htsim
--folder FOLDER`: the commands that htsim was recorded with, said in Railyard's words, run by the packet engine, and
compared figure by figure.

- *recorded*: runs of uet-htsim (commit 40ccb05; `uec`) and csg-htsim (commit 841d9e7; `csg`: EQDS, NDP, RoCE, HPCC),
  400 Gb/s, their default three-tier fat tree, links of 1 us, `-mtu 4150`.
- *uec_validate*: htsim's own validation suite at 100 Gb/s: the last and the first flow to finish.
- *ns3*: the RDMA of ASTRA-sim's ns-3 on the same matrices (`validation/src/railyard_validation/data`); of
  permutations only the order of the controls is judged to a tolerance.

Times are in microseconds. htsim ran each case with one seed, and so do we, except where every flow keeps to one path:
there the outcome hangs on the hash, so {seeds} seeds are run, means are compared over all of them, and a single
completion of htsim's need only lie in our range. Tolerances: mean completion 2 %, tails and single completions 5 %,
the last finish at a single bottleneck 2 %, slowed links 8 %, means over the hash 10 %. What misses its tolerance
counts as agreeing if htsim gives it, too, under another seed than the recorded one; where that was tried, what its
seeds give stands in place of the tolerance.

{date}, commit {commit}: **{ok} figures agree, {off} do not; {skipped} runs are left out** (reasons at the end).
"""


def main(arguments: list[str]) -> int:
    seeds = int(arguments[1]) if len(arguments) > 1 else 20
    report = validate_htsim(Path(arguments[0]), seeds=seeds, progress=lambda name, share: print(f"{share:4.0%} {name}"))
    off = list(dict.fromkeys(row.name.split(": ", 1)[-1] for row in report.rows if row.status == "off"))
    again = [validate_htsim(Path(arguments[0]), only=name, seeds=seeds, others=OTHERS) for name in off]
    PAGE.write_text(page(report, seeds, again), encoding="utf-8")
    print(PAGE)
    return 0


def page(report: HtsimReport, seeds: int, again: Iterable[HtsimReport]) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    today = datetime.datetime.now(tz=datetime.UTC).date()
    parts = [HEAD.format(seeds=seeds, date=today, commit=commit.stdout.strip(), **report.counts())]
    off = [row for row in report.rows if row.status == "off"]
    if off:
        known = {(row.name, row.figure) for row in off}
        more = {(row.name, row.figure): row for other in again for row in other.rows}
        parts += ["## What does not agree\n", *table(off)]
        parts += [
            f"\nThe same with {OTHERS} seeds, judged by their mean:\n",
            *table(more[key] for key in more if key in known),
        ]
    for name in ("recorded", "uec_validate", "ns3"):
        parts += [f"\n## {name}\n", *table(row for row in report.rows if row.table == name and row.status != "skipped")]
    parts += ["\n## Not run\n", "| run | why |", "|---|---|"]
    parts += [f"| {row.name} | {row.reason} |" for row in report.rows if row.status == "skipped"]
    return "\n".join(parts) + "\n"


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
