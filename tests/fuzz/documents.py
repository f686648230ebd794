"""Documents that users write: what reads each, what it may hold, and right ones to begin with."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fuzz.drawn import Place, Spot, places, spots
from tests.fuzz.readers import ROOT, TARGETS

from railyard.catalog.store import KINDS
from railyard.engine.packet import CONSTANTS
from railyard.kit.schema import yaml
from railyard.kit.schema.field import records
from railyard.kit.schema.quantity import Bounds
from railyard.work.scenario.cluster import ClusterSection
from railyard.work.scenario.model import Scenario, WorkloadSection
from railyard.work.scenario.packet.settings import KEYS
from railyard.work.scenario.problems import known
from railyard.work.scenario.section import Section
from railyard.work.traffic.faults import FaultFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic import BaseModel
    from tests.fuzz.drawn import Path_, Step

_HERE = Path(__file__).parent / "bases"
EXAMPLES = ROOT / "examples"


def _plain(path: Path) -> dict[str, Any]:
    plain: dict[str, Any] = yaml.read(path).plain()
    return plain


BASES = {path.stem: _plain(path) for path in sorted(_HERE.glob("*.yaml"))}
"""Small scenarios of every kind of work, by name; each runs in a second or so."""


WORK = frozenset(WorkloadSection.model_fields)
"""Kinds of work."""


@cache
def examples() -> dict[str, dict[str, Any]]:
    """The scenarios of the examples, by path."""
    found = {}
    for path in sorted(set(EXAMPLES.rglob("*.yaml")) - set((EXAMPLES / "plugin").iterdir())):  # needs its plugin
        text = path.read_text("utf-8")
        if re.search("^workload:", text, re.MULTILINE):
            found[str(path.relative_to(EXAMPLES))] = yaml.parse_mapping(text, path.name).plain()
    return found


@cache
def texts() -> Mapping[str, Sequence[str]]:
    """Texts that scenarios have, by key."""
    found: dict[str, set[str]] = {}
    for root in (*BASES.values(), *examples().values()):
        _note(root, "", found)
    return {key: sorted(words) for key, words in found.items()}


def _note(value: Any, key: str, found: dict[str, set[str]]) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            _note(item, name, found)
    elif isinstance(value, list):
        for item in value:
            _note(item, key, found)
    elif isinstance(value, str):
        found.setdefault(key, set()).add(value)


def kind_of(root: Any) -> str:
    """Which kind of work a scenario is."""
    workload = root.get("workload") if isinstance(root, dict) else None
    return next((key for key in workload if key in WORK), "none") if isinstance(workload, dict) else "none"


@dataclass(frozen=True)
class Document:
    """A kind of file.

    Attributes:
        name: What it is.
        read: Reads one; raises an `InputError` for what is wrong.
        bases: Right ones, by name.
        places: Its numbers with ranges.
        spots: Its keys.
        model: Its schema; None where it is made of records.
        free: Which step of a path is a name of the user's own.
    """

    name: str
    read: Callable[[Path], Any]
    bases: Mapping[str, Any]
    places: tuple[Place, ...]
    spots: tuple[Spot, ...]
    model: type[BaseModel] | None = None
    free: int | None = None

    def knows(self, key: str) -> bool:
        """Whether an error may name a key."""
        path = tuple(re.sub(r"\[\d+\]", "", key).split(".")) if self.free is not None else tuple(key.split("."))
        if self.model is not None:
            return any(known(path, model) == path for model in (self.model, ClusterSection))
        paths = [path]
        if self.free is not None:  # a name of a user's may have dots
            dots = range(2, len(path) - self.free + 1)
            paths += [(*path[: self.free], ".".join(path[self.free :][:n]), *path[self.free + n :]) for n in dots]
        return any(self._alike(one, spot.path) for one in paths for spot in self.spots)

    def _alike(self, path: tuple[str, ...], schema: Path_) -> bool:
        """Whether a path leads to a key of the schema, or to a section around it, or to a part of its value."""
        pairs = zip(path, map(str, schema), strict=False)
        return all(name == step or number == self.free for number, (name, step) in enumerate(pairs))


def _of_model(name: str, read: Any, model: type[BaseModel], bases: Mapping[str, Any]) -> Document:
    return Document(name, read, bases, places(model), spots(model), model)


def _reader(name: str) -> Callable[[Path], Any]:
    return next(one.read for one in TARGETS if one.name == name)


class ClusterFile(Section):
    """Of what `observe --cluster` reads, the part that it reads."""

    cluster: ClusterSection


def _cluster_file(path: Path) -> Any:
    from railyard.ask.observe.answer import cluster_of

    return cluster_of(path)


def _catalog() -> Document:
    """A file of the user's own entries: some keys of entries of the catalogue."""
    from railyard import catalog

    store = catalog.load()
    numbers, keys, bases = [], [], {}
    for kind, record in KINDS.items():
        name = store.names(kind)[0]
        bases[kind] = {kind: {name: {}}}
        for field in records(record).values():
            path = (kind, name, field.key)
            keys.append(Spot(path, (), str))
            if field.bounds is not None and field.shape == "value":
                numbers.append(Place(path, (), field.bounds, False, field.bounds.quantity))
    return Document("catalog", _reader("catalog"), bases, tuple(numbers), tuple(keys), free=1)


def _mix() -> Document:
    """A fabric of packets: a base, and constants of it."""
    numbers = []
    for one in CONSTANTS.values():
        if one.key in KEYS and one.kind in {"integer", "number"} and one.high > one.low:
            limits = Bounds(
                low=None if one.low_open else one.low,
                above=one.low if one.low_open else None,
                high=None if one.high_open else one.high,
                below=one.high if one.high_open else None,
            )
            numbers.append(Place((one.key,), (), limits, one.kind == "integer", None))
    bases = {base: {"base": base} for base in ("roce", "infiniband", "uec", "scheduled")}
    keys = [Spot((key,), (), str) for key in ("name", "summary", "base", *KEYS)]
    unitless = tuple(one for one in numbers if CONSTANTS[_constant(one.path[0])].unit == "")
    return Document("fabric", _reader("mix"), bases, unitless, tuple(keys))


def _constant(key: Step) -> str:
    return next(name for name, one in CONSTANTS.items() if one.key == key)


@cache
def documents() -> tuple[Document, ...]:
    """All kinds of files that are drawn."""
    scenario = _reader("scenario")
    faults = {"one": {"faults": [{"kind": "link-down", "cable": "h0 - leaf0", "at": "20 us"}]}}
    cluster = {name: {"cluster": root["cluster"]} for name, root in BASES.items() if "cluster" in root}
    return (
        _of_model("scenario", scenario, Scenario, BASES | examples()),
        _of_model("cluster", _cluster_file, ClusterFile, cluster),
        _of_model("faults", _reader("fault-file"), FaultFile, faults),
        _catalog(),
        _mix(),
    )


_SAFE = re.compile(r"[A-Za-z][\w./ -]*[\w./]")


def text_of(value: Any) -> str:
    """A document as YAML, a key a line; ten times faster than PyYAML writes it."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterable[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _entry(f"{indent}{_scalar(key)}:", item, indent + "  ")
    elif isinstance(value, list) and value:
        for item in value:
            yield from _entry(f"{indent}-", item, indent + "  ")
    else:
        yield f"{indent}{_scalar(value)}"


def _entry(head: str, item: Any, indent: str) -> Iterable[str]:
    if isinstance(item, dict | list) and item:
        yield head
        yield from _lines(item, indent)
    else:
        yield f"{head} {_scalar(item)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value if _SAFE.fullmatch(value) and isinstance(yaml.resolve(value), str) else json.dumps(value)
    if isinstance(value, float) and math.isnan(value):
        return ".nan"
    return json.dumps(value)
