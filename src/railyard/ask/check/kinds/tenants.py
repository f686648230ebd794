"""`tenants isolated`: by the files of switches no tenant's packets reach another's, whatever one part is lost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

from railyard.ask.check.assertion import AssertionOutcome, assertions
from railyard.ask.check.isolation.judged import PARTITIONS, judge, rendered
from railyard.ask.deploy.cabling import as_set, is_infiniband, plan_of
from railyard.ask.deploy.emit.intent import switches
from railyard.ask.deploy.system import system_names, systems
from railyard.cluster.network_table import dialect
from railyard.kit.errors import InputError
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.ask.check.assertion import CheckSubject
    from railyard.ask.check.isolation.judged import Judgement
    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.ask.deploy.emit.intent import SwitchIntent


SHOWN_WRONG = 7
_HOLD = re.compile(r"configurations in (\S.*?) hold", re.IGNORECASE)


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
        found = _HOLD.fullmatch(text)
        if found is None:
            raise InputError(f"`{text}` lacks the folder", found=text, allowed=f"`{cls.forms[0]}`")
        return cls(found[1])

    def check(self, subject: CheckSubject) -> None:
        """See `Assertion`."""
        folder = self._folder(subject)
        if not folder.is_dir():
            raise InputError("there is no such folder", found=folder)
        system_of(folder)

    def judge(self, subject: CheckSubject) -> AssertionOutcome:
        """See `Assertion`."""
        folder = self._folder(subject)
        system, ending = system_of(folder)
        intents = list(_intents(plan_of(as_set(subject.cluster, subject.draft)), system))
        wrong = [(intent.name, words) for intent in intents for words in _wrong(intent, system, folder, ending)]
        what = f"{len(intents):,} switches" if len(intents) != 1 else "1 switch"
        if not wrong:
            return AssertionOutcome(f"the files of {what} match the plan", holds=True)
        first, *others = (f"{name}: {words}" for name, words in wrong)
        many = len({name for name, _ in wrong})
        more = [f"{len(others) - SHOWN_WRONG:,} more differences"] if len(others) > SHOWN_WRONG else []
        return AssertionOutcome(
            f"{many:,} of {what} differ{'s' if many == 1 else ''} from the plan, first {first}",
            holds=False,
            remark="; ".join(others[:SHOWN_WRONG] + more),
        )

    def _folder(self, subject: CheckSubject) -> Path:
        return subject.draft.folder / self.folder


def system_of(folder: Path) -> tuple[str, str]:
    """The operating system whose files lie in a folder, and how they end.

    Raises:
        InputError: There are files of none, or of several.
    """
    there = {name: ending for name, ending in _endings().items() if any(folder.glob(f"*.{ending}"))}
    if "sonic" in there:
        there.pop("frr", None)  # its VRFs are routed by a file of FRR
    if len(there) != 1:
        allowed = [f"*.{ending}" for ending in _endings().values()]
        raise InputError(
            "the folder holds files of one operating system", found=sorted(there) or folder, allowed=allowed
        )
    return next(iter(there.items()))


def _endings() -> dict[str, str]:
    return {name: systems.get(name).ending for name in system_names()}


def _intents(plan: CablingPlan, system: str) -> Iterator[SwitchIntent]:
    for number in range(len(plan.networks)):
        if not is_infiniband(plan, number):
            yield from switches(plan, number, dialect(system))


def _wrong(intent: SwitchIntent, system: str, folder: Path, ending: str) -> list[str]:
    file = folder / f"{intent.name}.{ending}"
    if not file.is_file():
        return ["there is no file"]
    try:
        text = read_text(file)
        read = systems.get(system)
        second = folder / f"{intent.name}.{read.second}"
        if read.needs_second is None or not read.needs_second(text):
            return read.differences(intent, text)
        if not second.is_file():
            return [f"there is no file {second.name}"]
        return read.differences(intent, text, read_text(second))
    except (KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
        return [f"the file cannot be read: {type(error).__name__} {error}"]


assertions.add("configurations", ConfigurationsHold)


SHOWN = 8
_FORM = re.compile(r"tenants isolated(?: in (\S.*))?", re.IGNORECASE)


@dataclass(frozen=True)
class TenantsIsolated:
    """No tenant reaches another.

    Attributes:
        folder: Where files of switches (or `partitions.conf`) lie, relative to the scenario; empty: those that
            `railyard deploy` would write, of every operating system.
    """

    forms: ClassVar[tuple[str, ...]] = ("tenants isolated", "tenants isolated in plan/switches")

    folder: str = ""

    @classmethod
    def read(cls, text: str) -> Self:
        """See `Assertion`."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise InputError(f"`{text}` is not an assertion about tenants", found=text, allowed=list(cls.forms))
        return cls(found[1] or "")

    def check(self, subject: CheckSubject) -> None:
        """See `Assertion`."""
        if subject.cluster.plans["back_end"].tenancy is None:
            raise InputError("the cluster has no tenants", found="no `cluster.tenancy`", allowed="tenants")
        if self.folder:
            folder = subject.draft.folder / self.folder
            if not folder.is_dir():
                raise InputError("there is no such folder", found=folder)
            if not (folder / PARTITIONS).is_file():
                system_of(folder)

    def judge(self, subject: CheckSubject) -> AssertionOutcome:
        """See `Assertion`."""
        plan = plan_of(subject.cluster)
        judged = partial(judge, progress=subject.progress)
        if self.folder:
            system, texts = _files(subject.draft.folder / self.folder)
            return _outcome([judged(plan, system, texts)], "")
        systems = _systems(plan)
        found = [judged(plan, system, rendered(plan, system)) for system in systems]
        return _outcome(found, f" as {', '.join(systems)}" if len(systems) > 1 else "")


def _systems(plan: CablingPlan) -> list[str]:
    """Operating systems whose files can isolate these tenants; only one if subnet managers do."""
    back_end = plan.cluster.plans["back_end"]
    tenancy = back_end.tenancy
    by = "" if tenancy is None else tenancy.mechanism.name
    if by == "pkey":
        return ["frr"]
    return [name for name in system_names() if by != "acl" or systems.get(name).filters]


def _files(folder: Path) -> tuple[str, dict[str, str]]:
    """The operating system of the files in a folder, and those by name."""
    if (folder / PARTITIONS).is_file():
        return "frr", {PARTITIONS: read_text(folder / PARTITIONS)}
    system, _ = system_of(folder)
    endings = (systems.get(system).ending, systems.get(system).second or systems.get(system).ending)
    paths = [path for path in sorted(folder.iterdir()) if path.name.endswith(endings)]
    return system, {path.name: read_text(path) for path in paths}


def _outcome(found: list[Judgement], where: str) -> AssertionOutcome:
    findings = [words for one in found for words in one.findings]
    remark = "; ".join(dict.fromkeys(words for one in found for words in one.remarks))
    files = sum(one.files for one in found)
    if not findings:
        pairs = f"{found[0].pairs:,} ordered pairs of tenants"
        return AssertionOutcome(
            f"none of {pairs} reach each other by {files:,} files{where}", holds=True, remark=remark
        )
    more = f"; and {len(findings) - SHOWN:,} more" if len(findings) > SHOWN else ""
    count = f"{len(findings):,} ways" if len(findings) > 1 else "1 way"
    return AssertionOutcome(
        f"{count} from tenant to tenant: {'; '.join(findings[:SHOWN])}{more}", holds=False, remark=remark
    )


assertions.add("tenants", TenantsIsolated)
