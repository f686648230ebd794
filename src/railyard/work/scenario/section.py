"""The base of every section of a scenario, and sections made from the records of other rooms.

A topology, a fabric, a layout is a frozen dataclass in its own room. Its fields, units and documentation are read from
there, so that a record added in one file appears in the scenario, in the JSON schema and in the error messages by
itself. Where a field carries a `FieldRecord`, that says how it is written; else the unit suffix of its name does
(`_bps`, `_bytes`, `_ps`, ...): `link_rate_bps` is the key `link_rate` with a value such as `400 Gb/s`.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import operator
import re
import textwrap
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from railyard.cluster.fabric import fabrics
from railyard.cluster.fabric.fabric import Fabric
from railyard.cluster.fault.fault import Fault, faults
from railyard.cluster.topology import topologies
from railyard.kit import quantities
from railyard.kit.registry import Registry
from railyard.kit.schema.field import FieldRecord, records
from railyard.kit.schema.quantity import METADATA_KEY, Bounds, fraction, integer
from railyard.work.scenario import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Section(BaseModel):
    """A frozen part of a scenario; keys that it does not know are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def files_in(self, folder: Path) -> dict[str, Path]:
        """The files that it names, by their name in it; `folder` is that of the scenario."""
        del folder
        return {}

    def own_hardware(self) -> list[str]:
        """Keys of hardware that it has next to the cluster's, or in its place."""
        return []


@dataclasses.dataclass(frozen=True)
class WorkKey:
    """A key below `workload` that says what runs; its name is that of the kind of work.

    Attributes:
        type: Annotation of its value: a `Section`, or a tuple of them.
        brings_machines: Whether the scenario has no `cluster`, since the work says itself what it runs on.
    """

    type: Any
    about: str
    order: int = 100
    brings_machines: bool = False


works: Registry[WorkKey] = Registry("kind of work", package="railyard.work", part="section")


ModelName = Annotated[
    quantity.Text,
    Field(
        description="A model of the catalogue, or the path of a Hugging Face config.json, relative to the scenario;"
        " `FILE as llama` reads one by the names of a known family.",
        examples=["llama-3-70b", "./config.json"],
    ),
]

LIKE = re.compile(r"\s+as\s+(?=[\w.-]+$)")
"""Suffix of a configuration's path: the family whose names it uses, if its type is unknown."""


def model_file(folder: Path, name: str) -> Path | None:
    """The file that describes a model, unless it is in the catalog."""
    name = LIKE.split(name)[0]
    path = folder / name
    if name.endswith(".json") or "/" in name:
        return path / "config.json" if path.is_dir() else path
    return None


def files_of_model(folder: Path, name: str) -> dict[str, Path]:
    """The same by the name in the scenario."""
    path = model_file(folder, name)
    return {} if path is None else {name: path}


SUFFIXES: Mapping[str, Any] = {
    "_bps": quantity.Rate,
    "_bytes": quantity.Size,
    "_ps": quantity.Time,
    "_s": quantity.Span,
    "_w": quantity.Power,
    "_flops": quantity.Flops,
    "_m": quantity.Length,
    "_usd": quantity.Money,
    "_usd_per_h": quantity.MoneyRate,
    "_usd_per_kwh": quantity.EnergyPrice,
    "_years": quantity.Years,
}

_PLAIN: Mapping[Any, Any] = {
    int: quantity.Natural,
    float: quantity.Ratio,
    bool: quantity.Flag,
    str: quantity.Text,
}

_READERS: Mapping[Any, Any] = {
    quantities.rate: quantity.Rate,
    quantities.size: quantity.Size,
    quantities.time: quantity.Time,
    quantities.seconds: quantity.Span,
    quantities.power: quantity.Power,
    quantities.flops: quantity.Flops,
    quantities.length: quantity.Length,
    quantities.loss: quantity.Loss,
    quantities.frequency: quantity.Frequency,
    quantities.ratio: quantity.Ratio,
    quantities.count: quantity.Count,
    quantities.money: quantity.Money,
    integer: quantity.Natural,
    fraction: quantity.Ratio,
}


@dataclasses.dataclass(frozen=True)
class Key:
    """One key of a section: its name in the file, its type, its default, what it means and how it may look."""

    name: str
    annotation: Any
    words: str | None
    default: Any = dataclasses.MISSING
    example: str = ""

    def field(self, *, optional: bool) -> tuple[Any, Any]:
        """The pydantic field."""
        settings: dict[str, Any] = {"description": self.words, "examples": [self.example] if self.example else None}
        default = None if optional else self.default
        if default is dataclasses.MISSING:
            return self.annotation, Field(**settings)
        annotation = self.annotation if default is not None else self.annotation | None
        # A record of the same union, such as the topology of a plane, is written as its name and read like the user's.
        named = dataclasses.is_dataclass(default) and not isinstance(default, type)
        settings["default"] = {"kind": getattr(default, "kind", "")} if named else default
        return annotation, Field(**settings, validate_default=named)


def section_of(
    record: type,
    title: str,
    *,
    tag: tuple[str, str] | None = None,
    skip: frozenset[str] = frozenset(),
    optional: bool = False,
    inner: Any = None,
) -> type[Section]:
    """A section with the fields of a dataclass.

    Args:
        record: The dataclass.
        title: Name of the section's class.
        tag: Key and value that tell this section from others of a union, such as `("kind", "torus")`.
        skip: Fields that are no keys of the scenario.
        optional: Every key may be left out, also where the record has no default; what is left out is None.
        inner: Type of fields that hold another record of the same union.
    """
    fields: dict[str, Any] = {}
    if tag is not None:
        fields[tag[0]] = (Literal[tag[1]], Field(description=_summary(record)))
    for name, key in keys_of(record, inner).items():
        if name not in skip and (tag is None or key.name != tag[0]):
            fields[key.name] = key.field(optional=optional)
    return create_model(title, __base__=Section, __doc__=_summary(record), **fields)


def keys_of(record: type, inner: Any = None) -> dict[str, Key]:
    """The keys of a dataclass by the names of its fields; with any `FieldRecord`, only those are keys."""
    recorded = records(record)
    hints = {} if recorded else typing.get_type_hints(record)
    words = {} if recorded else field_words(record)
    keys: dict[str, Key] = {}
    for item in dataclasses.fields(record):
        default = item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
        if item.name in recorded:
            known = recorded[item.name]
            keys[item.name] = Key(known.key, _recorded_annotation(known, inner), known.help, default, known.unit)
        elif not recorded and item.init:
            annotation = _annotation(hints[item.name], item.name, item.metadata.get(METADATA_KEY))
            keys[item.name] = Key(_key_of(item.name), annotation, words.get(item.name), default)
    return keys


def build(section: Section, record: type[Any], **given: Any) -> Any:
    """The record that a section from `section_of` describes; keys left out (None) take the record's defaults.

    Raises:
        InputError: The record refuses the values.
    """
    return record(**{**fields_given(section, record), **given})


def fields_given(section: Section, record: type) -> dict[str, Any]:
    """The section's values under the names of the record's fields, without those left out."""
    values = {name: getattr(section, key, None) for name, key in _key_names(record).items()}
    return {name: value for name, value in values.items() if value is not None}


@functools.cache
def _key_names(record: type) -> dict[str, str]:
    """The key of each field."""
    return {name: key.name for name, key in keys_of(record).items()}


@functools.cache
def field_words(record: type) -> dict[str, str]:
    """Description of each field: the string below it, or the `Attributes:` block of the record's docstring."""
    block = (inspect.getdoc(record) or "").partition("Attributes:")[2]
    found = re.findall(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {6,}.*)*)", block, flags=re.MULTILINE)
    words = {name: " ".join(text.split()) for names, text in found for name in names.split(", ")}
    return words or _words_below(record)


def _words_below(record: type) -> dict[str, str]:
    words: dict[str, str] = {}
    body = typing.cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(record))).body[0]).body
    for field, below in itertools.pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                words[name] = " ".join(text.split())
    return words


def _summary(record: type) -> str:
    return (inspect.getdoc(record) or record.__name__).partition("\n\n")[0].replace("\n", " ")


def _recorded_annotation(record: FieldRecord, inner: Any) -> Any:
    """The type that a field record asks for; None where a scenario holds no such value (ranges, tables, lists)."""
    plain = {
        "flag": quantity.Flag,
        "how_many": quantity.Positive | Literal["all"],
        "text": quantity.Text,
        "topology": inner,
    }
    if record.shape in plain:
        return plain[record.shape]
    if record.shape == "choice":
        return Literal[record.allowed]
    number: Any = _READERS.get(record.read)
    if number is None or record.shape not in {"value", "numbers"}:
        return None
    if record.bounds is not None:
        number = Annotated[quantity.Whole if number is quantity.Natural else number, record.bounds]
    return tuple.__class_getitem__((number, ...)) if record.shape == "numbers" else number


def _key_of(name: str) -> str:
    suffix = _suffix(name)
    return name.removesuffix(suffix) if suffix else name


def _suffix(name: str) -> str | None:
    found = [suffix for suffix in SUFFIXES if name.endswith(suffix) and name != suffix]
    return max(found, key=len, default=None)


def _annotation(hint: Any, name: str, limits: Bounds | None) -> Any:
    """The field type of a record's annotation: numbers become quantities within their limits, the rest keeps its shape.

    An integer's limits take the place of the usual ones.
    """
    suffix = _suffix(name)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = (part if part is type(None) else _annotation(part, name, limits) for part in typing.get_args(hint))
        return functools.reduce(operator.or_, members)
    if hint is int and suffix is None and limits is not None:
        return Annotated[quantity.Whole, limits]
    if hint is float and suffix is None and limits is not None and limits.quantity is not None:
        return Annotated[quantity.field_type(limits.quantity, float), limits]
    found = SUFFIXES[suffix] if hint in (int, float) and suffix is not None else _PLAIN.get(hint, hint)
    return Annotated[found, limits] if limits is not None and hint in (int, float) else found


def tagged(key: str) -> BeforeValidator:
    """Reads `roce` as `{name: roce}`."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


def kinds_of(registry: Any, part: str, skip: Mapping[str, frozenset[str]] | None = None) -> Any:
    """One of a registry's records: its name alone, or its name with keys.

    Args:
        registry: Of dataclasses.
        part: What they are, the last word of their sections' titles.
        skip: By kind, fields that are no keys; under `""` those of all other kinds.
    """
    skipped = {"": frozenset[str](), **(skip or {})}
    sections = [
        section_of(record, _class(f"{kind}-{part}"), tag=("kind", kind), skip=skipped.get(kind, skipped[""]))
        for kind, record in registry.items()
    ]
    return _union(sections)


def _class(kind: str) -> str:
    return "".join(part.capitalize() for part in kind.replace("_", "-").split("-"))


def _title(kind: str) -> str:
    return _class(kind) + "Topology"


def _union(sections: list[type[Section]]) -> Any:
    return Annotated[functools.reduce(operator.or_, sections), Field(discriminator="kind"), tagged("kind")]


def _nesting(spec: type[Any]) -> bool:
    return any(field.shape == "topology" for field in records(spec).values())


_FLAT = {
    kind: section_of(spec, _title(kind), tag=("kind", kind)) for kind, spec in topologies.items() if not _nesting(spec)
}
_NESTED = {
    kind: section_of(spec, _title(kind), tag=("kind", kind), inner=_union(list(_FLAT.values())))
    for kind, spec in topologies.items()
    if _nesting(spec)
}

#: One of the topology families, told apart by `kind`; a family without further keys may be written as its name alone.
if TYPE_CHECKING:
    TopologySection = Any
else:
    TopologySection = _union([*_FLAT.values(), *_NESTED.values()])


def topology_spec(section: Any) -> Any:
    """The record of a topology section.

    Raises:
        InputError: The record refuses the values.
    """
    record = topologies.get(section.kind)
    values = fields_given(section, record).items()
    return record(**{name: topology_spec(one) if isinstance(one, Section) else one for name, one in values})


_FAULTS = [section_of(record, _class(kind) + "Fault", tag=("kind", kind)) for kind, record in faults.items()]

#: One of the kinds of faults, told apart by `kind`.
FaultSection: Any = Annotated[functools.reduce(operator.or_, _FAULTS), Field(discriminator="kind")]


def fault_of(section: Any) -> Fault:
    """The record of a fault's section.

    Raises:
        InputError: The record refuses the values.
    """
    fault: Fault = build(section, faults.get(section.kind))
    return fault


class _FabricName(Section):
    name: Literal[tuple(fabrics.names())] = Field(description="The fabric.")  # type: ignore[valid-type]


if TYPE_CHECKING:
    FabricKeys = _FabricName
else:
    FabricKeys = create_model(
        "FabricSection",
        __base__=_FabricName,
        __doc__="A fabric by name; every further key replaces a constant of it.",
        **{key.name: key.field(optional=True) for key in keys_of(Fabric).values()},
    )

FabricSection = Annotated[FabricKeys, tagged("name")]
