"""Code that nobody needs: names that nothing uses, functions that only forward, registries of one or two records.

A name is used where it stands as a word anywhere in the sources of the product, its validation, tools, benchmarks,
examples or documentation; a test alone does not count. A record that registers itself (`X = registry.add(...)`, or a
decorator) is used by its registry.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FEWEST_RECORDS = 3
"""Records from which a registry pays; one with fewer is a name list that somebody made too general."""
WORD = re.compile(r"\w+")


def users(root: Path) -> list[Path]:
    """Every file in which a name counts as used: sources, scripts and pages, no tests."""
    folders = ("src", "validation/src", "validation/tools", "tools", "benchmarks", "examples", "docs")
    kept = (".py", ".pyi", ".md", ".yaml", ".toml", "")
    below = [path for folder in folders for path in (root / folder).rglob("*") if path.suffix in kept]
    files = [*below, root / "pyproject.toml", root / "Makefile", root / "README.md", root / "CONTRIBUTING.md"]
    return [path for path in files if path.is_file()]


def words(paths: Iterable[Path]) -> Counter[str]:
    """How often each word stands in the files."""
    found: Counter[str] = Counter()
    for path in paths:
        found.update(WORD.findall(path.read_text(encoding="utf-8", errors="replace")))
    return found


def unused_names(trees: dict[str, ast.Module], used: Counter[str]) -> list[str]:
    """Functions, classes, methods and constants whose name stands nowhere but at its definition."""
    named = ((module, name) for module, tree in sorted(trees.items()) for name in _defined(tree))
    return [f"{module}.{name}" for module, name in named if used[name.rsplit(".", 1)[-1]] <= 1]


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and not isinstance(node.value, ast.Call):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list:
            yield from () if node.name.startswith("__") else (node.name,)
            yield from _methods(node) if isinstance(node, ast.ClassDef) else ()
    yield from (
        f"{node.name}.{method}"
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.decorator_list
        for method in (one.rsplit(".", 1)[-1] for one in _methods(node))
    )


def _methods(node: ast.ClassDef) -> Iterator[str]:
    """Methods of a class that overrides none of another package; those called by a decorator's owner are used by it."""
    if any(isinstance(base, ast.Attribute) for base in node.bases):
        return
    for one in node.body:
        plain = isinstance(one, ast.FunctionDef) and not one.name.startswith("__")
        if plain and all(isinstance(by, ast.Name) for by in one.decorator_list):
            yield f"{node.name}.{one.name}"


def forwarders(trees: dict[str, ast.Module], used: Counter[str]) -> list[str]:
    """Functions of one caller that only hand their own parameters, all and in their order, to another function."""
    nodes = ((module, node) for module, tree in sorted(trees.items()) for node in tree.body)
    functions = ((module, node) for module, node in nodes if isinstance(node, ast.FunctionDef) and used[node.name] <= 2)
    return [f"{module}.{node.name}" for module, node in functions if _only_forwards(node)]


def _only_forwards(node: ast.FunctionDef) -> bool:
    body = node.body[1:] if ast.get_docstring(node) else node.body
    call = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    if node.decorator_list or not isinstance(call, ast.Call):
        return False
    handed = [*call.args, *(keyword.value for keyword in call.keywords)]
    names = [one.id for one in handed if isinstance(one, ast.Name)]
    taken = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return bool(taken) and len(names) == len(handed) and names == taken


def small_registries(modules: Iterable[str]) -> list[str]:
    """Registries of the package with fewer than `FEWEST_RECORDS` records, as `module.name`; imports what they name."""
    found: dict[int, str] = {}
    records: dict[int, int] = {}
    for module in sorted(modules):
        for name, value in list(vars(import_module(module)).items()):
            if isinstance(value, Registry):
                found.setdefault(id(value), f"{module}.{name}")
                records[id(value)] = len(value.shipped())
    return sorted(name for key, name in found.items() if records[key] < FEWEST_RECORDS)
