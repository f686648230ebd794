"""What a trial is, and how its variants are run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable, Mapping, Sequence


@dataclass(frozen=True)
class Output:
    """How one command ended.

    Attributes:
        code: Its exit code; 124 where it ran past the limit.
        text: What it wrote to stdout.
        words: What it wrote to stderr.
        ending_s: From the signal that stopped it until it ended; 0 where none was sent.
    """

    code: int
    text: str
    words: str
    ending_s: float = 0.0

    @property
    def data(self) -> Any:
        """Its stdout as JSON."""
        return json.loads(self.text)


@dataclass(frozen=True)
class Stop:
    """A signal to a command that runs.

    Attributes:
        signal: Which.
        after_s: Seconds from the start of the process.
    """

    signal: signal.Signals
    after_s: float


@dataclass(frozen=True)
class Case:
    """One drawn variant of a trial.

    Attributes:
        words: What was drawn, in a sentence.
        commands: Arguments of `railyard`, run one after another in the folder of the case; one with a `*` stands for
            the files there that it fits when its command runs.
        judge: Every problem with what the commands printed, a sentence each; none where all is right.
        stops: The signal that each command gets, by its place; most get none.
        then: Further commands, from what the first ones printed; their outputs follow in the judge's list.
    """

    words: str
    commands: Sequence[Sequence[str]]
    judge: Callable[[Sequence[Output]], Iterable[str]]
    stops: Mapping[int, Stop] = field(default_factory=dict)
    then: Callable[[Sequence[Output]], Sequence[Sequence[str]]] | None = None


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


NAMED = f"{__name__}:named"


def named(task: Mapping[str, Any]) -> Judged:
    """A variant of a trial by its name; see `run`."""
    return run(trials.get(task["trial"]), task["number"], seed=task["seed"], folder=Path(task["folder"]))


def run(trial: Trial, number: int, *, seed: int, folder: Path) -> Judged:
    """Draws, runs and judges a variant of a trial.

    Args:
        trial: Which.
        number: Of the variant, from 0.
        seed: Variant `n` of a trial depends on the seed, the trial's name and `n` alone.
        folder: Where the files of each variant go.
    """
    place = folder / f"{trial.name}-{number}"
    place.mkdir(parents=True, exist_ok=True)
    case = trial.draw(np.random.default_rng([seed, number, *trial.name.encode()]), place)
    outputs = [_ran(arguments, place, trial.limit_s, case.stops.get(at)) for at, arguments in enumerate(case.commands)]
    return Judged(trial.name, number, case.words, _problems(case, outputs, place, trial.limit_s))


def _problems(case: Case, outputs: Sequence[Output], folder: Path, limit_s: float) -> tuple[str, ...]:
    try:
        more = [] if case.then is None else [_ran(each, folder, limit_s, None) for each in case.then(outputs)]
        return tuple(case.judge([*outputs, *more]))
    except (KeyError, IndexError, TypeError, ValueError) as error:  # the answer lacks what the question asks for
        ends = "; ".join(f"exit {one.code}: {one.words.strip()[:200]}" for one in outputs)
        return (f"the answer cannot be read: {type(error).__name__}: {error} ({ends})",)


def _files(argument: str, folder: Path) -> list[str]:
    """The argument, or the files of the folder that it fits, as a shell would give them."""
    return sorted(str(file.relative_to(folder)) for file in folder.glob(argument)) if "*" in argument else [argument]


def _ran(arguments: Sequence[str], folder: Path, limit_s: float, stop: Stop | None) -> Output:
    given = [file for argument in arguments for file in _files(argument, folder)]
    command = [sys.executable, "-m", "railyard", *given]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            return _ended(process, limit_s, stop)
        except subprocess.TimeoutExpired:
            process.kill()
            return Output(124, "", f"more than {limit_s:g} s")


def _ended(process: subprocess.Popen[str], limit_s: float, stop: Stop | None) -> Output:
    """The end of a command, which is sent its signal where it still runs by then."""
    wait_s = limit_s if stop is None else stop.after_s
    try:
        text, words = process.communicate(timeout=wait_s)
    except subprocess.TimeoutExpired:
        if stop is None:
            raise
        begin = time.monotonic()
        process.send_signal(stop.signal)
        text, words = process.communicate(timeout=limit_s)
        return Output(process.returncode, text, words, time.monotonic() - begin)
    return Output(process.returncode, text, words)
