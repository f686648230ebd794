"""Tables of cases: `.cases` files whose lines are what goes in and what has to come out.

    # The reason for the cases below it, up to the next empty line: one test.
    >>> rate("400 Gb/s")  #=> 400000000000.0
    >>> rate("400 Gbs")
    UnitError: unknown unit `Gbs`; did you mean `Gbps`

    # A command runs in an empty folder; lines that begin with `|` are written into a file first.
    mine.yaml
    | accelerators: {x: {extends: h1000}}
    $ railyard run mine.yaml
    exit 2
    error: no accelerator `h1000`

What comes out is compared whole: of an expression its value, of an error its class and message, one line for each
problem of an `InputError`, of a command its exit code, stdout and stderr. `...` in an expected line stands for any
letters; `tmp_path` is the folder of the case. The names that Python cases use are those of `x.py` beside `x.cases`.

`python -m tests.tables FILE[:LINE]...` writes what comes out today into the blocks at those lines, or all of a file:
review the difference before it is committed.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import io
import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from railyard.kit.errors import InputError

ROOT = Path(__file__).parents[1]
RESULT = "  #=> "
"""Between a case and its result on one line."""
LONGEST = 120
SHOWN = 64
"""Letters of a result that follow its case on the same line, if there are more."""


@dataclass
class Step:
    """One input and the lines that it has to give."""

    source: list[str]
    expected: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        return "\n".join(line[4:] for line in self.source)

    def text(self) -> list[str]:
        room = LONGEST - len(self.source[-1]) - len(RESULT)
        if len(self.expected) == 1 and (len(self.expected[0]) <= room or room >= SHOWN):
            return [*self.source[:-1], self.source[-1] + RESULT + cut(self.expected[0], room)]
        return [*self.source, *(cut(line, LONGEST) for line in self.expected)]


def cut(line: str, room: int) -> str:
    """A line that is not longer than that; `...` stands for the rest."""
    return line if len(line) <= room else line[: room - 3].rstrip(". ") + "..."


@dataclass
class Block:
    """A reason, the files of its cases, and the cases; `line` is where it begins."""

    line: int
    reason: list[str] = field(default_factory=list)
    files: dict[str, list[str]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def text(self) -> list[str]:
        files = [line for name, lines in self.files.items() for line in (name, *(f"| {one}".rstrip() for one in lines))]
        return [*self.reason, *files, *(line for step in self.steps for line in step.text())]


def parse(text: str) -> list[Block]:
    """The blocks of a table."""
    line, blocks = 1, []
    for part in text.strip("\n").split("\n\n"):
        lines = part.split("\n")
        blocks.append(_block(lines, line))
        line += len(lines) + 1
    return blocks


def _block(lines: list[str], line: int) -> Block:
    block = Block(line)
    for number, one in enumerate(lines):
        source, result, expected = one.partition(RESULT)
        if one.startswith((">>> ", "$ ")):
            block.steps.append(Step([source], [expected] if result else []))
        elif one.startswith("... "):
            block.steps[-1].source.append(source)
            block.steps[-1].expected += [expected] if result else []
        elif block.steps:
            block.steps[-1].expected.append(one)
        elif one.startswith("#"):
            block.reason.append(one)
        elif one.startswith("|"):
            list(block.files.values())[-1].append(one[2:])
        elif lines[number + 1].startswith("|"):
            block.files[one] = []
        else:
            raise ValueError(f"line {line + number} is no reason, file, case or result: {one}")
    return block


def drawn_seeds(few: int, all_: int) -> list[Any]:
    """Seeds of a test on drawn cases: so many of them every time, the others among the slow tests."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(few, all_))]


def file(text: str, name: str = "x.yaml") -> Path:
    """A file of that text in the folder of the case."""
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def told(error: Exception) -> str:
    """An error as a table has it: one line for each problem, with all that it says."""
    name = type(error).__name__
    if not isinstance(error, InputError):
        return f"{name}: {error}"
    lines = []
    for one in error.problems:
        numbers = "".join(f":{number}" for number in (one.line, one.column) if number is not None)
        place = f" {one.file or ''}{numbers}" if (one.file and " " not in one.file) or numbers else ""
        found = f" (found: {one.found})" if one.found is not None and one.found not in one.message else ""
        allowed = f" (allowed: {one.allowed})" if one.allowed else ""
        lines.append(f"{name}{place}: {one.headline()}{found}{allowed}")
    return "\n".join(lines)


def evaluate(code: str, names: dict[str, Any]) -> str:
    """What Python gives: a value's text, nothing for a statement, or the error."""
    tree = ast.parse(code)
    value = None
    if isinstance(last := tree.body[-1], ast.Expr):
        tree.body.pop()
    try:
        exec(compile(tree, "case", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "case", "eval"), names)
    except Exception as error:  # whatever it is, it is compared
        return told(error)
    return "" if value is None else value if isinstance(value, str) else repr(value)


def command(line: str) -> str:
    """What a command of railyard prints."""
    from railyard.face.cli import guard

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = guard.run(shlex.split(line)[1:])
    return (f"exit {code}\n" if code else "") + out.getvalue() + err.getvalue()


def names_of(table: Path) -> dict[str, Any]:
    """What Python cases of a table may name."""
    sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]
    beside = table.resolve().with_suffix(".py")
    return vars(import_module(".".join(beside.relative_to(ROOT).with_suffix("").parts))) if beside.is_file() else {}


def results(block: Block, table: Path) -> list[list[str]]:
    """The lines that every case of a block gives, in a folder of its own."""
    before, known = Path.cwd(), names_of(table)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for name, lines in block.files.items():
                Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            names = {**known, "tmp_path": Path(folder)}
            given = [
                command(one.source[0][2:]) if one.source[0].startswith("$") else evaluate(one.code, names)
                for one in block.steps
            ]
        finally:
            os.chdir(before)
    plain = (one.replace(f"{folder}/", "").replace(f"{ROOT}/", "") for one in given)
    return [[line.rstrip() or "." for line in one.splitlines()] for one in plain]  # an empty line would end the block


def agrees(found: list[str], expected: list[str]) -> bool:
    pattern = r"\n".join(re.escape(line).replace(r"\.\.\.", ".*") for line in expected)
    return re.fullmatch(pattern, "\n".join(found)) is not None


class Mismatch(Exception):
    """Cases that gave something else."""


class Case(pytest.Item):
    """One block of a table."""

    def __init__(self, *, block: Block, **rest: Any) -> None:
        super().__init__(**rest)
        self.block = block

    def runtest(self) -> None:
        wrong = []
        for step, found in zip(self.block.steps, results(self.block, self.path), strict=True):
            if not agrees(found, step.expected):
                wrong += [*step.source, *list(difflib.unified_diff(step.expected, found, lineterm="", n=9))[3:]]
        if wrong:
            raise Mismatch("\n".join(wrong))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if not isinstance(excinfo.value, Mismatch):
            return super().repr_failure(excinfo, style)
        place = f"{self.path.relative_to(ROOT)}:{self.block.line}"
        words = [*self.block.reason, str(excinfo.value), f"if that is meant: python -m tests.tables {place}"]
        return "\n".join(words)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.block.line - 1, self.name


class Table(pytest.File):
    """A file of cases."""

    def collect(self) -> list[Case]:
        return [
            Case.from_parent(self, name=f"line {block.line}: {' '.join(block.reason)[2:70]}", block=block)
            for block in parse(self.path.read_text(encoding="utf-8"))
        ]


def rewrite(place: str) -> None:
    """Writes what comes out into the block of a line, or into all blocks of a file."""
    name, _, line = place.partition(":")
    blocks = parse(Path(name).read_text(encoding="utf-8"))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if not line or (block.line <= int(line) and (following is None or int(line) < following.line)):
            for step, found in zip(block.steps, results(block, Path(name)), strict=True):
                step.expected = step.expected if agrees(found, step.expected) else found
    Path(name).write_text("\n\n".join("\n".join(one.text()) for one in blocks) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for given in sys.argv[1:]:
        rewrite(given)
