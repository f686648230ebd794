"""Counts that show how the package is built.

tools/structure [SRC] [--json]

Lines by room, import cycles, public class names that stand in several modules, duplicate blocks, `type: ignore`, public
functions with `dict[str, Any]`. Imports under `TYPE_CHECKING` and inside functions count: to a reader a cycle is one.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Trees = dict[str, ast.Module]
Graph = dict[str, set[str]]

PACKAGE = Path(__file__).parents[1] / "src" / "railyard"
LEAST_LINES = 12
"""Lines of code, without blank lines, comments and imports, from which an identical run counts as a duplicate block."""


def modules(src: Path) -> Trees:
    """Every module of a package with its syntax tree."""
    return {_name(src, path): ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in src.rglob("*.py")}


def _name(src: Path, path: Path) -> str:
    parts = [src.name, *path.relative_to(src).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(trees: Trees) -> Graph:
    """The package's modules that each of them imports."""
    return {name: {one for one in _imported(tree, trees) if one in trees} - {name} for name, tree in trees.items()}


def _imported(tree: ast.Module, trees: Trees) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            below = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (one if one in trees else node.module for one in below)


def cycles(graph: Graph) -> list[list[str]]:
    """Groups of modules that import one another, directly or through others of the group."""
    rest = _without_ends(graph)
    above = {name: _reached(rest, name) for name in rest}
    groups = {frozenset(other for other in above[name] if name in above[other]) for name in rest if name in above[name]}
    return sorted(sorted(group) for group in groups)


def _without_ends(graph: Graph) -> Graph:
    """The modules that are left when those that import none of the rest are taken away until there are none."""
    rest = dict(graph)
    while ends := [name for name, below in rest.items() if not below & rest.keys()]:
        for name in ends:
            del rest[name]
    return {name: below & rest.keys() for name, below in rest.items()}


def _reached(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    todo = list(graph[start])
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += graph[name]
    return found


def repeated_class_names(trees: Trees) -> dict[str, list[str]]:
    """Public classes that stand in more than one module under one name, with the modules."""
    where: dict[str, list[str]] = defaultdict(list)
    for module, tree in sorted(trees.items()):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(module)
    return {name: places for name, places in sorted(where.items()) if len(places) > 1}


def loose_functions(trees: Trees) -> int:
    """Public functions and methods with `dict[str, Any]` in their signature."""
    nodes = (node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return sum(_is_loose(node) for node in nodes if not node.name.startswith("_"))


def _is_loose(node: ast.FunctionDef) -> bool:
    types = [arg.annotation for arg in (*node.args.args, *node.args.kwonlyargs)] + [node.returns]
    return any("dict[str, Any]" in ast.unparse(one) for one in types if one is not None)


def duplicate_blocks(texts: dict[Path, str]) -> int:
    """Longest identical runs of at least `LEAST_LINES` lines of code that stand in two places."""
    places: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for path, text in sorted(texts.items()):
        code = _code(text)
        for start in range(len(code) - LEAST_LINES + 1):
            places[tuple(code[start : start + LEAST_LINES])].append((path, start))
    pairs = [pair for found in places.values() for pair in pairwise(found)]
    return len({(first[0], second[0], second[1] - first[1]) for first, second in pairs})


def _code(text: str) -> list[str]:
    imports = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom))
    named = {line for node in imports for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines = (line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in named)
    return [line for line in lines if line and not line.startswith(("#", '"""', ")", "]", "}"))]


def counts(src: Path) -> dict[str, Any]:
    """All counts of a package."""
    trees = modules(src)
    texts = {path: path.read_text(encoding="utf-8") for path in src.rglob("*.py")}
    lines: Counter[str] = Counter()
    for path, text in texts.items():
        lines[path.relative_to(src).parts[0]] += text.count("\n")
    return {
        "lines": lines.total(),
        "lines_by_room": dict(sorted(lines.items())),
        "import_cycles": cycles(import_graph(trees)),
        "class_names_repeated": repeated_class_names(trees),
        "duplicate_blocks": duplicate_blocks(texts),
        "type_ignores": sum(text.count("type: ignore") for text in texts.values()),
        "loose_public_functions": loose_functions(trees),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src", nargs="?", type=Path, default=PACKAGE, help="folder of the package")
    parser.add_argument("--json", action="store_true", help="JSON, with every name, in place of the table")
    args = parser.parse_args()
    found = counts(args.src.resolve())
    if args.json:
        print(json.dumps(found, indent=2))
        return
    for room, lines in found.pop("lines_by_room").items():
        print(f"{'lines of ' + room:32} {lines:6}")
    for name, value in found.items():
        print(f"{name.replace('_', ' '):32} {value if isinstance(value, int) else len(value):6}")


if __name__ == "__main__":
    main()
