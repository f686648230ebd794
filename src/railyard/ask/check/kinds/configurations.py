"""`configurations in FOLDER hold`: files of switches in a folder say what the plan of the scenario means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from railyard.ask.check.assertion import Outcome, assertions
from railyard.ask.check.isolation.read import second
from railyard.ask.deploy.emit.configurations import WRITERS
from railyard.ask.deploy.emit.intent import switches
from railyard.ask.deploy.emit.read_back import differences
from railyard.ask.deploy.plan.cabling import as_set, plan_of
from railyard.ask.deploy.plan.drawn import is_infiniband
from railyard.cluster.asbuilt.discovery import dialect
from railyard.kit.errors import InputError
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.ask.check.assertion import Subject
    from railyard.ask.deploy.emit.intent import SwitchIntent
    from railyard.ask.deploy.plan.cabling import Plan

SHOWN = 3
_FORM = re.compile(r"configurations in (\S.*?) hold", re.IGNORECASE)


@dataclass(frozen=True)
class ConfigurationsHold:
    """Files of switches against what is meant.

    Attributes:
        folder: Where they lie, relative to the scenario: a folder that `railyard deploy` wrote, or what became of it.
    """

    forms: ClassVar[tuple[str, ...]] = ("configurations in plan/switches hold",)

    folder: str

    @classmethod
    def read(cls, text: str) -> Self:
        """See `Assertion`."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise InputError(f"`{text}` does not say where they lie", found=text, allowed=f"`{cls.forms[0]}`")
        return cls(found[1])

    def check(self, subject: Subject) -> None:
        """See `Assertion`."""
        folder = self._folder(subject)
        if not folder.is_dir():
            raise InputError("there is no such folder", found=folder)
        system_of(folder)

    def judge(self, subject: Subject) -> Outcome:
        """See `Assertion`."""
        folder = self._folder(subject)
        system, ending = system_of(folder)
        intents = list(_intents(plan_of(as_set(subject.cluster, subject.draft)), system))
        wrong = [(intent.name, words) for intent in intents for words in _wrong(intent, system, folder, ending)]
        what = f"{len(intents):,} switches" if len(intents) != 1 else "1 switch"
        if not wrong:
            return Outcome(f"the files of {what} say what is meant", holds=True)
        shown = "; ".join(f"{name}: {words}" for name, words in wrong[:SHOWN])
        many = len({name for name, _ in wrong})
        return Outcome(f"{many:,} of {what} are not as meant: {shown}", holds=False)

    def _folder(self, subject: Subject) -> Path:
        return subject.draft.folder / self.folder


def system_of(folder: Path) -> tuple[str, str]:
    """The operating system whose files lie in a folder, and how they end.

    Raises:
        InputError: There are files of none, or of several.
    """
    there = {name: ending for name, (_, ending) in WRITERS.items() if any(folder.glob(f"*.{ending}"))}
    if "sonic" in there:
        there.pop("frr", None)  # its VRFs are routed by a file of FRR
    if len(there) != 1:
        allowed = [f"*.{ending}" for _, ending in WRITERS.values()]
        raise InputError(
            "the folder holds files of one operating system", found=sorted(there) or folder, allowed=allowed
        )
    return next(iter(there.items()))


def _intents(plan: Plan, system: str) -> Iterator[SwitchIntent]:
    for number in range(len(plan.networks)):
        if not is_infiniband(plan, number):
            yield from switches(plan, number, dialect(system))


def _wrong(intent: SwitchIntent, system: str, folder: Path, ending: str) -> list[str]:
    """What a switch's file says otherwise, in words."""
    file = folder / f"{intent.name}.{ending}"
    if not file.is_file():
        return ["there is no file"]
    try:
        text = read_text(file)
        more = second(system, text)
        routing = folder / f"{intent.name}.{more}"
        if more and not routing.is_file():
            return [f"there is no file {routing.name}"]
        return differences(intent, system, text, read_text(routing) if more else "")
    except (KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
        return [f"the file cannot be read: {type(error).__name__} {error}"]


assertions.add("configurations", ConfigurationsHold)
