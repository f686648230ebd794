"""Budgets of the house: lines and files per room, which may fall and not grow.

tools/budgets [--lower]

Prints each count beside its budget (`tools/budgets.toml`) and fails where a count stands more than 10 % above it, or
where something is there that must not be: an import cycle, an unused public name, a function that only forwards, a
registry of one or two records. `--lower` writes today's counts where they are lower. A commit that raises a budget by
hand says why.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections import Counter
from pathlib import Path

import structure
import unused

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "railyard"
BUDGETS = ROOT / "tools" / "budgets.toml"
ALLOWED = 1.10
"""Growth of a count, against its budget, that is still accepted."""
SHARED = ("src", "validation/src", "validation/tools", "tools", "benchmarks", "cpp")
"""Folders of one common budget: moving code from one to another saves nothing."""


def measured(trees: structure.Trees) -> dict[str, int]:
    """Every count that has a budget."""
    found: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0]
        for name, value in _of_file(path).items():
            found[f"{name} of src/railyard"] += value
            if room.isidentifier() and name in ("lines", "files"):
                found[f"{name} of {room}"] += value
    found["repeated class names"] = len(structure.repeated_class_names(trees))
    found["lines of code outside tests"] = sum(_lines(path) for path in _shared())
    found["lines of tests"] = sum(_lines(path) for path in [*_python("tests"), *_python("validation/tests")])
    found["lines of docs"] = sum(_lines(path) for path in (ROOT / "docs").rglob("*.md"))
    return dict(sorted(found.items()))


def _of_file(path: Path) -> dict[str, int]:
    text = path.read_text(encoding="utf-8")
    full = sum(1 for line in text.splitlines() if line.strip())
    nodes = sum(1 for _ in ast.walk(ast.parse(text)))
    return {"files": 1, "lines": text.count("\n"), "lines that are not blank": full, "syntax nodes": nodes}


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _python(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def _shared() -> list[Path]:
    core = [path for path in (ROOT / "cpp").rglob("*") if path.suffix in (".cpp", ".hpp")]
    return [*core, *(path for folder in SHARED for path in _python(folder))]


def forbidden(trees: structure.Trees) -> dict[str, list[str]]:
    """What must not be there, by kind."""
    used = unused.words(unused.users(ROOT))
    registered = [name for name, tree in trees.items() if "Registry(" in ast.unparse(tree)]
    exempt = set(tomllib.loads(BUDGETS.read_text("utf-8")).get("seams", []))
    return {
        "import cycle": [" -> ".join(one) for one in structure.cycles(structure.import_graph(trees))],
        "unused name": unused.unused_names(trees, used),
        "function that only forwards": unused.forwarders(trees, used),
        "registry of one or two records": [one for one in unused.small_registries(registered) if one not in exempt],
    }


def problems(found: dict[str, int], budget: dict[str, int], bad: dict[str, list[str]]) -> list[str]:
    """What fails, one sentence each."""
    over = [
        f"{name}: {value}, budget {budget.get(name, 0)}"
        for name, value in found.items()
        if value > ALLOWED * budget.get(name, 0)
    ]
    return [*over, *(f"{kind}: {one}" for kind, names in bad.items() for one in names)]


def lower(found: dict[str, int], budget: dict[str, int]) -> None:
    """Writes today's counts where they are lower than their budget, or where there is none."""
    text = BUDGETS.read_text("utf-8").split("[budgets]")[0]
    rows = [f'"{name}" = {min(value, budget.get(name, value))}' for name, value in found.items()]
    BUDGETS.write_text(text + "[budgets]\n" + "\n".join(rows) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lower", action="store_true", help="write today's counts where they are lower")
    args = parser.parse_args()
    trees = structure.modules(PACKAGE)
    found = measured(trees)
    budget: dict[str, int] = tomllib.loads(BUDGETS.read_text("utf-8")).get("budgets", {})
    if args.lower:
        lower(found, budget)
        return 0
    for name, value in found.items():
        print(f"{name:40} {value:8} of {budget.get(name, 0):8}")
    failed = problems(found, budget, forbidden(trees))
    print(*failed, sep="\n", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
