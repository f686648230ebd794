"""Runs the cells of notebooks in order and compares what they print with what they show.

Cells run in one namespace in the root of the clone, as in Jupyter; they print what they show. Numbers may differ as in
`tools/transcripts`.

    python tools/notebook.py examples/python/first-study.ipynb            # which cells fail, what differs
    python tools/notebook.py --write examples/python/first-study.ipynb    # write what is printed today
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from transcripts import ROOT, same


def printed(cells: list[dict[str, Any]]) -> list[str]:
    """What each cell of code prints; raises what a cell raises."""
    space: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for cell in cells:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("".join(cell["source"]), "<cell>", "exec"), space)
        found.append(out.getvalue())
    return found


def run(file: Path, *, write: bool = False) -> list[str]:
    """The cells that print something else than they show, as text; none after `write`."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    wrong = []
    with contextlib.chdir(ROOT):
        for number, (cell, text) in enumerate(zip(cells, printed(cells), strict=True), 1):
            shown = "".join("".join(output["text"]) for output in cell["outputs"])
            if not same(shown, text):
                wrong.append(f"{file.name}, cell {number}: shows\n{shown}prints\n{text}")
            if write:
                lines = text.splitlines(keepends=True)
                cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if text else []
                cell["execution_count"] = number
    if write:
        file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return []
    return wrong


def main() -> int:
    """Checks or writes the notebooks of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="write what cells print today")
    asked = parser.parse_args()
    os.environ["POLARS_FMT_MAX_COLS"] = "8"
    wrong = [text for file in asked.notebooks for text in run(file.resolve(), write=asked.write)]
    sys.stdout.write("".join(f"{text}\n" for text in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
