"""Which lines each test file runs, so that a fault meets only tests that come by it."""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
from itertools import groupby
from typing import TYPE_CHECKING, Any

from coverage import CoverageData

from mutation.choosing import test_files

if TYPE_CHECKING:
    from pathlib import Path

    from mutation.fault import Fault
    from mutation.scratch import Scratch

_SETTINGS = """[run]
parallel = true
include = {root}/src/*
data_file = {folder}/data
context = ${{TRACED_FILE-}}
"""


class Traces:
    """Lines within functions that each test file ran, kept in a file; test files that have changed run anew."""

    def __init__(self, scratch: Scratch, file: Path) -> None:
        self._scratch, self._file = scratch, file
        self._tests: dict[str, dict[str, Any]] = json.loads(file.read_text("utf-8")) if file.exists() else {}

    def refresh(self) -> None:
        """Runs the test files that are new or changed, without any fault, and notes what they run."""
        root = self._scratch.root
        digests = {str(file.relative_to(root)): _digest(file.read_bytes()) for file in test_files(root)}
        self._tests = {name: kept for name, kept in self._tests.items() if digests.get(name) == kept["digest"]}
        left = sorted(digests.keys() - self._tests.keys())
        for folder, some in groupby(left, key=lambda name: name.rpartition("/")[0]):
            print(f"tracing {folder}", flush=True)
            names = list(some)
            lines = self._traced(names)
            self._tests |= {name: {"digest": digests[name], "lines": lines.get(name, {})} for name in names}
            self._file.write_text(json.dumps(self._tests), encoding="utf-8")

    def _traced(self, tests: list[str]) -> dict[str, dict[str, tuple[str, list[int]]]]:
        """Of each test file and each source file: its digest and the lines that were run."""
        root, folder = self._scratch.root, self._scratch.home / "trace"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        settings = folder / "settings.ini"
        settings.write_text(_SETTINGS.format(root=root, folder=folder), encoding="utf-8")
        self._scratch.traced(tests, settings)
        lines: dict[str, dict[str, set[int]]] = {}
        for file in folder.glob("data.*"):
            data = CoverageData(str(file))
            data.read()
            for source in data.measured_files():
                name = source.removeprefix(f"{root}/")
                for line, contexts in data.contexts_by_lineno(source).items():
                    for test in contexts:
                        lines.setdefault(test, {}).setdefault(name, set()).add(line)
        return {
            test: {name: (_digest((root / name).read_bytes()), sorted(found)) for name, found in files.items()}
            for test, files in lines.items()
        }

    def seen(self, fault: Fault) -> set[str]:
        """Test files that run the statement at fault; those that ran anything of its file where that has changed."""
        text = (self._scratch.root / fault.path).read_bytes()
        wanted = _statement(text, fault)
        if wanted is None:
            return set(self._tests)
        digest, tests = _digest(text), set()
        for test, kept in self._tests.items():
            before, lines = kept["lines"].get(fault.path, ("", ()))
            if lines and (before != digest or any(line in wanted for line in lines)):
                tests.add(test)
        return tests


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:12]


def _statement(text: bytes, fault: Fault) -> range | None:
    """Lines of the innermost statement around a fault, of a compound one those before its body; None on import."""
    best, within = range(0), False
    for node in ast.walk(ast.parse(text)):  # from the outside in
        if not isinstance(node, ast.stmt) or not node.lineno <= fault.line <= (node.end_lineno or node.lineno):
            continue
        body = getattr(node, "body", None)
        inside = not body or fault.line >= body[0].lineno
        within |= isinstance(node, ast.FunctionDef) and inside
        best = range(node.lineno, body[0].lineno if body and not inside else (node.end_lineno or node.lineno) + 1)
    return best if within else None
