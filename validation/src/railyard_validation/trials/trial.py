"""What a trial is, and how its variants are run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Output:
    """How one command ended.

    Attributes:
        code: Its exit code; 124 where it ran past the limit.
        text: What it wrote to stdout.
        words: What it wrote to stderr.
    """

    code: int
    text: str
    words: str

    @property
    def data(self) -> Any:
        """Its stdout as JSON."""
        return json.loads(self.text)


@dataclass(frozen=True)
class Case:
    """One drawn variant of a trial.

    Attributes:
        words: What was drawn, in a sentence.
        commands: Arguments of `railyard`, run one after another in the folder of the case; one with a `*` stands for
            the files there that it fits when its command runs.
        judge: Every problem with what the commands printed, a sentence each; none where all is right.
    """

    words: str
    commands: Sequence[Sequence[str]]
    judge: Callable[[Sequence[Output]], Iterable[str]]


@dataclass(frozen=True)
class Trial:
    """A question that users asked, and what its answer must be.

    Attributes:
        name: As `--only` takes it.
        expected: What must come out, in a sentence.
        draw: Writes the files of a random variant into a folder.
        limit_s: Seconds that one command may take.
    """

    name: str
    expected: str
    draw: Callable[[np.random.Generator, Path], Case]
    limit_s: float = 600.0


@dataclass(frozen=True)
class Judged:
    """One variant and what was wrong with it."""

    trial: str
    number: int
    words: str
    problems: tuple[str, ...]


trials: Registry[Trial] = Registry("trial", package="railyard_validation.trials")


def run(trial: Trial, *, variants: int, seed: int, folder: Path) -> Iterator[Judged]:
    """Draws, runs and judges variants of a trial.

    Args:
        trial: Which.
        variants: How many.
        seed: Variant `n` of a trial depends on the seed, the trial's name and `n` alone.
        folder: Where the files of each variant go.
    """
    for number in range(variants):
        place = folder / f"{trial.name}-{number}"
        place.mkdir(parents=True, exist_ok=True)
        case = trial.draw(np.random.default_rng([seed, number, *trial.name.encode()]), place)
        outputs = [_ran(arguments, place, trial.limit_s) for arguments in case.commands]
        yield Judged(trial.name, number, case.words, _problems(case, outputs))


def _problems(case: Case, outputs: Sequence[Output]) -> tuple[str, ...]:
    try:
        return tuple(case.judge(outputs))
    except (KeyError, IndexError, TypeError, ValueError) as error:  # the answer lacks what the question asks for
        ends = "; ".join(f"exit {one.code}: {one.words.strip()[:200]}" for one in outputs)
        return (f"the answer cannot be read: {type(error).__name__}: {error} ({ends})",)


def _files(argument: str, folder: Path) -> list[str]:
    """The argument, or the files of the folder that it fits, as a shell would give them."""
    return sorted(str(file.relative_to(folder)) for file in folder.glob(argument)) if "*" in argument else [argument]


def _ran(arguments: Sequence[str], folder: Path, limit_s: float) -> Output:
    given = [file for argument in arguments for file in _files(argument, folder)]
    command = [sys.executable, "-m", "railyard", *given]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Output(124, "", f"more than {limit_s:g} s")
    return Output(done.returncode, done.stdout, done.stderr)
