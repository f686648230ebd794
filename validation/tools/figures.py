"""Draws the figures of `docs/validation/packet-figures.md`: each shows one thing that only packets show.

python validation/tools/figures.py [NAME ...]        all of them without a name; the page is written anew each time
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import figures_of_paths  # noqa: F401 - for its figures
import figures_of_switches  # noqa: F401
from figure import FIGURES

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "figures"
PAGE = ROOT / "docs" / "validation" / "packet-figures.md"


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        print(f"no figure {unknown[0]}; there are {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    for name in names or FIGURES:
        found = FIGURES[name].run()
        (FOLDER / f"{name}.svg").write_text(found.plot.svg(), encoding="utf-8")
        said = {"date": _today(), "commit": _commit(), "head": found.head, "rows": found.rows}
        (FOLDER / f"{name}.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
        print(FOLDER / f"{name}.svg")
    PAGE.write_text("".join(_page()), encoding="utf-8")
    return 0


def _today() -> str:
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _page() -> Iterable[str]:
    yield (
        "# What only packets show\n\nEach figure is drawn by `python validation/tools/figures.py NAME`, which writes "
        "picture, numbers and this page.\n"
    )
    for name, each in FIGURES.items():
        file = FOLDER / f"{name}.json"
        if not file.exists():
            continue
        said = json.loads(file.read_text(encoding="utf-8"))
        yield f"\n## {each.title}\n\n![{each.title}](../figures/{name}.svg)\n\n{each.shows} "
        yield f"`python validation/tools/figures.py {name}`, {said['date']}, commit {said['commit']}:\n\n"
        yield "| " + " | ".join(said["head"]) + " |\n" + "|---" * len(said["head"]) + "|\n"
        for row in said["rows"]:
            yield "| " + " | ".join(row) + " |\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
