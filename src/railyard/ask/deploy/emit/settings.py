"""Files of switches and servers as a scenario sets them, in several dialects, and what each says when read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.ask.deploy.cabling import as_set, is_infiniband, plan_of
from railyard.ask.deploy.emit import configurations
from railyard.ask.deploy.emit.collectives import collectives_of, tuner_rows, variables
from railyard.ask.deploy.emit.intent import switches
from railyard.ask.deploy.system import system_named
from railyard.cluster.asbuilt.discovery import dialect
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from railyard.ask.deploy.cabling import Plan
    from railyard.ask.deploy.emit.collectives import CollectivesIntent
    from railyard.work.scenario.load import Draft

SYSTEMS = ("sonic", "eos", "junos")
"""Whose files say how queues are."""

MARK = "settings.json"
"""Every folder of the kind has it: what was meant, and what each file says."""

SERVERS, LEFT = "servers", "left to its operator"


@dataclass
class Reading:
    """One thing that is set.

    Attributes:
        found: By operating system, or `servers`: what the files say, as their readers have it.
    """

    what: str
    meant: Any
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Whether all files that can say it say it."""
        values = [value for value in self.found.values() if value != LEFT]
        return bool(values) and all(value == self.meant for value in values)


@dataclass
class Rendered:
    """Files of a cluster as a scenario sets it."""

    files: dict[str, str] = field(default_factory=dict)
    readings: list[Reading] = field(default_factory=list)
    left_out: tuple[str, ...] = ()


def rendered(draft: Draft, progress: Callable[[str, float], None], systems: Sequence[str] = SYSTEMS) -> Rendered:
    """All files, each compared with what was meant as it is made, and what they say of queues, interfaces and library.

    Raises:
        InputError: The scenario is wrong, or asks for what switches cannot be told.
        SimulationError: A file says otherwise than meant: a fault of Railyard's.
    """
    plan = plan_of(as_set(compose.cluster_of(draft, compose.catalog_of(draft)), draft))
    library = collectives_of(draft, plan.cluster, progress)
    out = Rendered(left_out=library.left_out)
    for number, system in enumerate(systems):
        progress(f"files of {system}", number / len(systems))
        for name, text in configurations.files(plan, system, library):
            if name.startswith("switches/"):
                out.files[f"{system}/{name.removeprefix('switches/')}"] = text
            elif not name.endswith(".interfaces"):
                out.files[name] = text
    out.readings = [
        *_queues(plan, systems, out.files),
        *_interfaces(plan, out.files),
        *_library(plan, library, out.files),
    ]
    return out


def _queues(plan: Plan, systems: Sequence[str], files: Mapping[str, str]) -> Iterator[Reading]:
    """Marks and shares of the buffer of the back-end's switches: one value where all of them agree."""
    if is_infiniband(plan, 0):
        return
    marks = Reading("marks: first and last bytes, percent", None)
    share = Reading("share of the free buffer that pauses", None)
    for system in systems:
        intents = list(switches(plan, 0, dialect(system)))
        read = system_named(system)
        facts = [read.facts(files[f"{system}/{intent.name}.{read.ending}"]) for intent in intents]
        if intents[0].marks:
            marks.meant = intents[0].red
            marks.found[system] = _common([one["red"] for one in facts]) if "red" in facts[0] else LEFT
        if intents[0].pauses:
            share.meant = intents[0].alpha
            found = _common([one["alpha"] for one in facts])
            share.found[system] = LEFT if found is None and share.meant == 1.0 else found
    yield from (one for one in (marks, share) if one.found)


def _common(sets: Sequence[set[Any]]) -> Any:
    """The one value of all switches; None where there is none, all of them where there are several."""
    values = set().union(*sets)
    return next(iter(values)) if len(values) == 1 and all(sets) else sorted(values) or None


def _interfaces(plan: Plan, files: Mapping[str, str]) -> Iterator[Reading]:
    meant = configurations.meant(plan.cluster.fabric)
    found = configurations.read(files.get(f"servers/{configurations.FILE}", ""))
    for name, value in meant.items():
        yield Reading(f"interfaces: {name}", value, {SERVERS: found.get(name)})


def _library(plan: Plan, library: CollectivesIntent, files: Mapping[str, str]) -> Iterator[Reading]:
    written, fixed = variables(files.get("servers/nccl.conf", "")), library.fixed
    qps = int(plan.cluster.fabric.qps)
    names = [*([("NCCL_IB_QPS_PER_CONNECTION", str(qps))] if qps > 1 else []), *fixed.variables()]
    for name, value in names:
        yield Reading(name, value, {SERVERS: written.get(name)})
    rows = tuner_rows(files.get("servers/nccl-tuner.csv", ""))
    for line in fixed.tuner_rows():
        kind, _, _, algorithm, protocol, channels, *_ = line.split(",")
        yield Reading(
            f"tuner: {kind}", (algorithm.replace("_", ""), protocol, int(channels)), {SERVERS: rows.get(kind)}
        )
