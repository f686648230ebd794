"""Which test files see a module: those that import it first, then those that reach it through others."""

from __future__ import annotations

import ast
import re
from collections import Counter, deque
from functools import cache
from math import inf, log2
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE = "railyard"
# Commands find what they run by its name: whoever calls them may reach any module.
_COMMANDS = ("railyard.face.cli", "railyard.face.api")


def test_files(root: Path) -> list[Path]:
    """Tests in Python and tables of cases; what a table imports stands in the Python file beside it."""
    return [*root.glob("tests/**/test_*.py"), *root.glob("tests/**/*.cases")]


def files_for(root: Path, path: str, seconds: Mapping[str, float] | None = None) -> list[str]:
    """Test files that may notice a fault in a file, the likeliest and quickest first.

    Words that a test's name shares with the file's bring it forward, the rarer the more; minutes push it back.

    Args:
        root: Of the tree.
        path: Of the file, from the root; a file of the core is seen through the extension.
        seconds: That test files take, as far as they are known.
    """
    module = _name(Path(path)) if path.endswith(".py") else f"{_PACKAGE}._core"
    files = {str(file.relative_to(root)): file for file in test_files(root)}
    often = Counter(word for name in files for word in _words(name))
    ranked: list[tuple[float, str]] = []
    while module and not ranked:  # what is imported by its name at run time is seen by those who see its neighbours
        for name, file in files.items():
            distance = _distance(_distances(root, file.with_suffix(".py")), module)
            shared = sum(2.0 / often[word] ** 0.5 for word in _words(name) & _words(path))
            ranked.append((distance - shared + 0.4 * log2(1.0 + (seconds or {}).get(name, 1.0)), name))
        ranked = [one for one in ranked if one[0] < inf]
        module = module.rpartition(".")[0]
    near = [name for _, name in sorted(ranked)]
    return near + sorted(name for name, file in files.items() if name not in near and _by_name(root, file))


def _by_name(root: Path, file: Path) -> bool:
    return any(name.startswith(_COMMANDS) for name in _distances(root, file))


def _distance(distances: Mapping[str, int], module: str) -> float:
    """To a module, or to the nearest one of a package."""
    return min((far for name, far in distances.items() if f"{name}.".startswith(f"{module}.")), default=inf)


def _words(name: str) -> frozenset[str]:
    return frozenset(re.split(r"\W|_", name)) - {"py", "test", "tests", ""}


@cache
def _distances(root: Path, file: Path) -> dict[str, int]:
    """Steps of import from a test file to every module that it reaches."""
    known = _modules(root)
    found: dict[str, int] = {}
    queue = deque((name, 0) for name in _helpers(root, file))
    while queue:
        name, distance = queue.popleft()
        if name not in found:
            found[name] = distance
            queue.extend((other, distance + 1) for other in _imports(root, known[name]) if other in known)
    return found


def _helpers(root: Path, file: Path) -> list[str]:
    """What the file imports, with what the helpers of its folder do."""
    files = [file, *(one for one in file.parent.glob("*.py") if not one.name.startswith("test_"))]
    return sorted({name for one in files for name in _imports(root, one)})


@cache
def _modules(root: Path) -> dict[str, Path]:
    files = {_name(file.relative_to(root)): file for file in (root / "src").glob("**/*.py")}
    return {**files, f"{_PACKAGE}._core": root / "src" / _PACKAGE / "_core.pyi"}


@cache
def _registering(root: Path) -> dict[str, Path]:
    """Packages whose files a registry imports: whoever imports one of these imports all."""
    files = _modules(root)
    texts = (file.read_text("utf-8") for file in files.values() if file.is_file())
    named = {name for text in texts for name in re.findall(r'package="([\w.]+)"', text)}
    return {name: files[name] for name in named & set(files)}


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _imports(root: Path, file: Path) -> tuple[str, ...]:
    """Modules that a file imports to run, also within functions; names of a package are looked up in it."""
    if not file.exists():
        return ()
    found: list[str] = []
    for node in _run(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(_PACKAGE):
            found += [_home(root, node.module, alias.name) for alias in node.names]
    if file in _registering(root).values():
        found += [_name(one.relative_to(root)) for one in file.parent.glob("*.py") if one != file]
    found += [package for package in _registering(root) for name in found if f"{name}.".startswith(f"{package}.")]
    return tuple(dict.fromkeys(name for name in found if name in _modules(root)))


def _run(tree: ast.AST) -> list[ast.AST]:
    """Nodes that are not there for types alone."""
    nodes, queue = [], [tree]
    while queue:
        node = queue.pop()
        nodes.append(node)
        typed = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        queue += node.orelse if typed else list(ast.iter_child_nodes(node))
    return nodes


def _home(root: Path, module: str, name: str) -> str:
    """The module that a name of another one comes from."""
    inner = f"{module}.{name}"
    if inner in _modules(root):
        return inner
    file = _modules(root).get(module)
    if file is None or file.name != "__init__.py":
        return module
    for node in _run(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module and any(name == one.name for one in node.names):
            return node.module if node.module != module else inner
    return module
