"""The record of a verb: what it is given, and what it makes of that in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from railyard.face.web.documents import Outcome
    from railyard.work.scenario.load import Draft
    from railyard.work.study.tasks import Workers

RUNS = "runs"
"""Where folders of runs and of answers are put, as the command line does."""

Takes = Literal["file", "folder", "either"]
Part = Literal["scenario", "engine", "vary"]


@dataclass(frozen=True)
class Input:
    """Files that a verb reads besides a scenario.

    Attributes:
        name: As an option of the command line.
        title: On the page.
        about: What it is, in a sentence.
        takes: Whether it is a file or a folder.
        needed: Whether there is nothing to do without it.
        several: Whether there may be more than one.
    """

    name: str
    title: str
    about: str
    takes: Takes = "file"
    needed: bool = False
    several: bool = False


@dataclass(frozen=True)
class Option:
    """A choice.

    Attributes:
        name: As an option of the command line.
        title: On the page.
        about: What it decides, in a sentence.
        default: Where nothing is said.
        allowed: The choices there are.
    """

    name: str
    title: str
    about: str
    default: str
    allowed: Callable[[], Sequence[str]]


@dataclass(frozen=True)
class VerbRequest:
    """A request for a verb, in the process that runs it.

    Attributes:
        folder: Of the person who asks.
        draft: Reads the scenario; files that it names lie in the folder.
        engine: In place of the scenario's.
        vary: Each `key=a,b,c`.
        files: What was given for each input, inside of the folder.
        options: What was chosen, defaults included.
        tell: Takes what is being done, and its share from 0 to 1.
        pool: Makes processes that may touch no more than this one; who asks closes them.
        cluster: The same where the server was given a Ray cluster; None where it was not.
    """

    folder: Path
    draft: Callable[[], Draft]
    engine: str | None
    vary: Sequence[str]
    files: Mapping[str, Sequence[Path]]
    options: Mapping[str, str]
    tell: Callable[[str, float], None]
    pool: Callable[[], Workers]
    cluster: Callable[[], Workers] | None = None

    @property
    def runs(self) -> Path:
        """Where folders of runs and of answers are put."""
        return self.folder / RUNS

    def file(self, name: str) -> Path | None:
        """What was given for an input that takes one thing."""
        return next(iter(self.files.get(name, ())), None)


@dataclass(frozen=True)
class Verb:
    """Something that a server does for somebody.

    Attributes:
        name: As a command of the command line.
        title: On buttons.
        about: What it answers, in a sentence.
        order: On the page.
        work: Carries it out; imports what it needs when it is called, for the server only lists verbs.
        takes: Of a scenario, an engine and what varies.
        inputs: Files that it reads besides.
        options: Choices.
    """

    name: str
    title: str
    about: str
    order: int
    work: Callable[[VerbRequest], Outcome]
    takes: frozenset[Part] = frozenset()
    inputs: tuple[Input, ...] = ()
    options: tuple[Option, ...] = field(default=())


verbs: Registry[Verb] = Registry("verb", package="railyard.face.web.verbs")


def listed() -> list[Verb]:
    """All verbs, in the order of the page."""
    return sorted((verb for _, verb in verbs.shipped()), key=lambda verb: verb.order)
