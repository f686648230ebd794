"""Writes `docs/validation/fabrics.md`: published figures of fabrics and ours, with date and commit.

python validation/tools/fabric_validation_report.py [RESULT.json ...]

Results are what `railyard validate fabric --figure NAME --json` printed; without them every figure is run.
"""

from __future__ import annotations

import datetime
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from railyard_validation.fabric import FIGURES, validate_fabric
from railyard_validation.fabric.figure import MODULES, FabricReport, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
LEAST_PAIRS = 8
PAGE = ROOT / "docs" / "validation" / "fabrics.md"
HEAD = """# Fabrics against published figures

Written by `python validation/tools/fabric_validation_report.py`, which runs `railyard validate fabric`: what others
have published about fabrics, or what follows from a closed form, run again by the engine that suits it. Where a
claim gives a range or a vendor gives no details, the tolerance is wide and the note says what was assumed. Rows
without an expected value are for comparison.

{date}, commit {commit}: **{ok} rows agree, {off} do not, {shown} are for comparison, {missing} cannot be run.**
"""


def main() -> int:
    files = sys.argv[1:]
    report = read(files) if files else validate_fabric(progress=lambda name, share: print(f"{share:4.0%} {name}"))
    PAGE.write_text(page(report), encoding="utf-8")
    print(PAGE)
    return 0


def read(files: Sequence[str]) -> FabricReport:
    for module in MODULES:
        importlib.import_module(f"railyard_validation.fabric.{module}")
    rows = [Row(**row) for file in files for row in json.loads(Path(file).read_text(encoding="utf-8"))["rows"]]
    return FabricReport(tuple(sorted(rows, key=lambda row: int(row.figure[1:]))))


def page(report: FabricReport) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    today = datetime.datetime.now(tz=datetime.UTC).date()
    counts = report.counts()
    parts = [HEAD.format(date=today, commit=commit.stdout.strip(), missing=counts["not built"], **counts)]
    parts.append("\n| figure | published by | agree | do not | why |\n|---|---|---|---|---|\n")
    parts += [_summary(name, report) for name in dict.fromkeys(row.figure for row in report.rows)]
    for name in dict.fromkeys(row.figure for row in report.rows):
        what = FIGURES[name]
        parts.append(f"\n## {name}: {what.claim}\n\n*Run*: {what.scenario}. *Published by*: {what.source}.\n\n")
        rows = [row for row in report.rows if row.figure == name]
        if any(row.status != "shown" for row in rows):
            parts.append("| case | expected | found | tolerance | engine | verdict |\n|---|---|---|---|---|---|\n")
        notes = list(dict.fromkeys(row.note for row in rows if row.note))
        parts += [_line(row, notes) for row in rows if row.status != "shown"]
        parts += _shown([row for row in rows if row.status == "shown"], notes)
        parts += ["\n" if notes else "", *(f"{number}. {text}.\n" for number, text in enumerate(notes, start=1))]
    return "".join(parts)


def _summary(name: str, report: FabricReport) -> str:
    rows = [row for row in report.rows if row.figure == name]
    off = [row for row in rows if row.status == "off"]
    why = "; ".join(dict.fromkeys(f"{row.case}: {row.note.split('. ')[0]}" for row in off))
    agree = sum(row.status == "ok" for row in rows)
    return f"| {name} | {FIGURES[name].source} | {agree} | {len(off)} | {why} |\n"


def _shown(rows: Sequence[Row], notes: list[str]) -> list[str]:
    """Rows without an expected value: a table where cases are pairs, such as `ring: uec`, else a sentence."""
    said = []
    for engine in dict.fromkeys(row.engine for row in rows):
        mine = [row for row in rows if row.engine == engine]
        marks = sorted({notes.index(row.note) + 1 for row in mine if row.note})
        mark = f" ({', '.join(map(str, marks))})" if marks else ""
        said.append(f"\nFor comparison, by `{engine}`{mark}: {_pairs(mine) or _sentence(mine)}")
    return said


def _sentence(rows: Sequence[Row]) -> str:
    return "; ".join(f"{row.case} {row.found:,.1f} {row.unit}" for row in rows) + ".\n"


def _pairs(rows: Sequence[Row]) -> str:
    for separator in (": ", ", "):
        found = {tuple(row.case.rpartition(separator)[::2]): f"{row.found:,.1f} {row.unit}" for row in rows}
        lines, columns = ({pair[side]: None for pair in found} for side in (0, 1))
        if (
            len(found) >= LEAST_PAIRS
            and 2 * len(found) > len(lines) * len(columns)
            and min(len(columns), len(lines)) > 1
        ):
            head = f"\n\n| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}\n"
            cells = {line: " | ".join(found.get((line, column), "") for column in columns) for line in lines}
            return head + "".join(f"| {line or 'as it is'} | {row} |\n" for line, row in cells.items())
    return ""


def _line(row: Row, notes: list[str]) -> str:
    found = "" if row.found is None else f"{row.found:,.1f} {row.unit}"
    mark = f" ({notes.index(row.note) + 1})" if row.note else ""
    expected = f"{row.expected} {row.unit}" if row.expected[-1:].isdigit() else row.expected
    verdict = "**off**" if row.status == "off" else row.status
    return f"| {row.case}{mark} | {expected} | {found} | {row.tolerance} | {row.engine} | {verdict} |\n"


if __name__ == "__main__":
    raise SystemExit(main())
