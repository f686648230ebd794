"""The base of every section of a scenario, and sections made from the records of other rooms.

A topology, a fabric, a layout is a frozen dataclass in its own room. Its fields, units and documentation are read from there,
so that a record added in one file appears in the scenario, in the JSON schema and in the error messages by itself. The unit
suffix of a field's name (`_bps`, `_bytes`, `_ps`, ...) says how it is written: `link_rate_bps` is the key `link_rate` with
a value such as `400 Gb/s`.
"""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from railyard.scenario import quantity


class Section(BaseModel):
    """A frozen part of a scenario; keys that it does not know are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


def key_of(name: str) -> str:
    """The key of a record's field: its name without the unit suffix."""
    suffix = _suffix(name)
    return name.removesuffix(suffix) if suffix else name


def section_of(
    record: type, title: str, *, tag: tuple[str, str] | None = None, skip: frozenset[str] = frozenset(), optional: bool = False
) -> type[Section]:
    """A section with the fields of a dataclass.

    Args:
        record: The dataclass.
        title: Name of the section's class.
        tag: Key and value that tell this section from others of a union, such as `("kind", "torus")`.
        skip: Fields that are no keys of the scenario.
        optional: Every key may be left out, also where the record has no default; what is left out is None.
    """
    hints = typing.get_type_hints(record)
    words = field_words(record)
    fields: dict[str, Any] = {}
    if tag is not None:
        fields[tag[0]] = (Literal[tag[1]], Field(description=_summary(record)))
    for item in dataclasses.fields(record):
        if item.name in skip or not item.init or (tag is not None and item.name == tag[0]):
            continue
        annotation = _annotation(hints[item.name], item.name)
        details = {"description": words.get(item.name)}
        if optional:
            fields[key_of(item.name)] = (annotation | None, Field(None, **details))
        elif item.default is not dataclasses.MISSING:
            fields[key_of(item.name)] = (annotation, Field(item.default, **details))
        elif item.default_factory is not dataclasses.MISSING:
            fields[key_of(item.name)] = (annotation, Field(default_factory=item.default_factory, **details))
        else:
            fields[key_of(item.name)] = (annotation, Field(**details))
    return create_model(title, __base__=Section, __doc__=_summary(record), **fields)


def build(section: Section, record: type[Any], **given: Any) -> Any:
    """The record that a section from `section_of` describes; keys left out (None) take the record's defaults.

    Raises:
        InputError: The record refuses the values.
    """
    return record(**{**fields_given(section, record), **given})


def fields_given(section: Section, record: type[Any]) -> dict[str, Any]:
    """The section's values under the names of the record's fields, without those left out."""
    values: dict[str, Any] = {}
    for item in dataclasses.fields(record):
        value = getattr(section, key_of(item.name), None)
        if item.init and value is not None:
            values[item.name] = value
    return values


def field_words(record: type) -> dict[str, str]:
    """Description of each field, from the `Attributes:` block of the record's docstring."""
    words: dict[str, str] = {}
    doc = inspect.getdoc(record) or ""
    block = doc.partition("Attributes:")[2]
    for name, text in re.findall(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {6,}.*)*)", block, flags=re.MULTILINE):
        for one in name.split(", "):
            words[one] = " ".join(text.split())
    return words


def _summary(record: type) -> str:
    return (inspect.getdoc(record) or record.__name__).partition("\n\n")[0].replace("\n", " ")


def _suffix(name: str) -> str | None:
    found = [suffix for suffix in SUFFIXES if name.endswith(suffix) and name != suffix]
    return max(found, key=len, default=None)


def _annotation(hint: Any, name: str) -> Any:
    """The field type of a record's annotation: numbers become quantities, the rest keeps its shape."""
    suffix = _suffix(name)
    if hint in (int, float) and suffix is not None:
        return SUFFIXES[suffix]
    if hint in _PLAIN:
        return _PLAIN[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return section_of(hint, hint.__name__)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return hint
    parts = tuple(part if part in (..., type(None)) else _annotation(part, name) for part in arguments)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[parts]  # noqa: UP007 - the members are only known here
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[parts]  # type: ignore[valid-type]
    if origin is not None:
        return origin[parts]
    return hint
