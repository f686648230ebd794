"""Parses a node into an entry: every field through its record, every number with its origin, all problems at once."""

from __future__ import annotations

import math
import re
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from railyard.catalog.checks import check
from railyard.catalog.model import Model
from railyard.catalog.types import CONFIDENCES, Entry, Price, Range
from railyard.kit.errors import InputError, Problem, did_you_mean
from railyard.kit.schema.field import PRICE_READERS, FieldRecord, records
from railyard.kit.schema.quantity import Provenance
from railyard.kit.schema.yaml import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from railyard.kit.schema.yaml import Mark, Node

T = TypeVar("T", bound=Entry)

HEADER_KEYS = ("sources", "from", "extends")
ORIGIN_KEYS = ("source", "year", "confidence", "from")
RANGE_KEYS = ("low", "typical", "high")
FIRST_YEAR, LAST_YEAR = 1980, 2100
_LONG_EXPONENT = re.compile(r"[eE][+-]?\d{3,}")
_LARGEST = 1e30
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class Origin:
    """A source that values of a file may refer to."""

    source: str
    year: int
    confidence: str

    def of(self, text: str) -> Provenance:
        """The provenance of a value that this source gives."""
        return Provenance(text, self.source, self.year, self.confidence)


class Parser:
    """Reads the fields of one entry and collects what is wrong with them.

    Args:
        node: The entry's mapping.
        base: The entry that this one extends; it gives what the node does not.
        user: Whether the file is the user's own, where a value needs no source.
    """

    def __init__(self, node: Node, *, base: Entry | None = None, user: bool = False) -> None:
        self.node = node
        self.base = base
        self.user = user
        self.problems: list[Problem] = []
        self.keys: dict[str, str] = {}
        self.provenance: dict[str, Provenance] = {}
        pairs = node.mapping or {}
        self.origins = self._origins(pairs.get("sources"))
        self.default = self._named_origin(pairs.get("from"))
        self.price_reader = PRICE_READERS.get(base.quantity) if isinstance(base, Price) else None

    def entry(self, kind: type[T], name: str) -> T:
        """The entry.

        Raises:
            InputError: With every problem of the file.
        """
        known = records(kind)
        config = ("config",) if issubclass(kind, Model) else ()
        self._check_keys(self.node, [*HEADER_KEYS, *config, *(record.key for record in known.values())])
        values = self._values(kind, self.node, known, prefix="")
        entry = self._joined(kind, name, values) if not self.problems else None
        if entry is not None:
            found = check(entry)
            self.problems += [self.node.problem(message, key=key) for key, message in found]
        if entry is None or self.problems:
            raise InputError.many(self.problems)
        return entry

    def _joined(self, kind: type[T], name: str, values: dict[str, Any]) -> T:
        if not isinstance(self.base, kind):
            return kind(name=name, provenance=self.provenance, **values)
        for key, value in values.items():
            inherited = getattr(self.base, key)
            if isinstance(value, dict) and isinstance(inherited, dict):
                values[key] = {**inherited, **value}
        values.setdefault("aliases", ())
        return replace(self.base, name=name, provenance={**self.base.provenance, **self.provenance}, **values)

    def _values(self, kind: type[Any], node: Node, known: Mapping[str, FieldRecord], prefix: str) -> dict[str, Any]:
        pairs = node.mapping or {}
        values: dict[str, Any] = {}
        for field in fields(kind):
            record = known.get(field.name)
            if record is None:
                continue
            self.keys[field.name] = record.key
            if record.key in pairs:
                values[field.name] = self._value(record, pairs[record.key], prefix + field.name)
                self._note_quantity(kind, field.name, values[field.name])
            elif field.default is field.default_factory is MISSING and (self.base is None or prefix):
                self._report(
                    node, prefix + record.key, "is missing", allowed=record.unit or ", ".join(record.allowed) or None
                )
        return values

    def _note_quantity(self, kind: type[Any], name: str, value: object) -> None:
        if kind is Price and name == "quantity" and isinstance(value, str):
            self.price_reader = PRICE_READERS.get(value)

    def _value(self, record: FieldRecord, node: Node, attribute: str) -> Any:
        if record.shape == "text":
            return self._text(record, node)
        if record.shape == "list":
            return self._texts(record, node)
        readers: dict[str, Callable[[FieldRecord, Node, str], Any]] = {
            "value": self._number,
            "range": self._range,
            "table": self._table,
            "choice": self._choice,
            "flag": self._flag,
            "numbers": self._numbers,
            "record": self._record,
            "records": self._each,
        }
        return readers[record.shape](record, node, attribute)

    def _number(self, record: FieldRecord, node: Node, attribute: str) -> float | None:
        value = self._sourced(node, attribute)
        return None if value is None else self._read(record, value, attribute)

    def _range(self, record: FieldRecord, node: Node, attribute: str) -> Range | None:
        pairs = node.mapping
        if pairs is not None and "value" not in pairs:
            return self._spread(record, node, pairs, attribute)
        if not self.user:
            self._report(node, attribute, "is uncertain and needs a range", allowed="low, typical, high")
            return None
        number = self._number(record, node, attribute)
        return None if number is None else Range(number, number, number)

    def _spread(self, record: FieldRecord, node: Node, pairs: Mapping[str, Node], attribute: str) -> Range | None:
        self._check_keys(node, [*RANGE_KEYS, *ORIGIN_KEYS], attribute)
        missing = [key for key in RANGE_KEYS if key not in pairs]
        if missing:
            self._report(node, attribute, f"lacks {' and '.join(missing)}", allowed=", ".join(RANGE_KEYS))
            return None
        ends = [self._read(record, pairs[key], f"{attribute}.{key}") for key in RANGE_KEYS]
        self._remember(node, attribute, " .. ".join(pairs[key].text or "" for key in RANGE_KEYS))
        low, typical, high = ends
        if low is None or typical is None or high is None:
            return None
        if not low <= typical <= high:
            self._report(node, attribute, "must have low <= typical <= high")
            return None
        return Range(low, typical, high)

    def _table(self, record: FieldRecord, node: Node, attribute: str) -> dict[str, float]:
        pairs = {key: value for key, value in (node.mapping or {}).items() if key not in ORIGIN_KEYS}
        if not pairs:
            self._report(node, attribute, "expected a mapping of names to values", allowed=", ".join(record.allowed))
        origin = self._origin(node) if node.mapping and set(ORIGIN_KEYS) & set(node.mapping) else None
        outer, self.default = self.default, origin or self.default
        table: dict[str, float] = {}
        for key, item in pairs.items():
            if key not in record.allowed:
                self._unknown(node.place_of(key), key, record.allowed, attribute)
                continue
            number = self._number(record, item, f"{attribute}.{key}")
            if number is not None:
                table[key] = number
        self.default = outer
        return table

    def _text(self, record: FieldRecord, node: Node) -> str:
        if not node.text:
            self._report(node, record.key, "expected text", found=kind_of(node.value))
        return node.text or ""

    def _texts(self, record: FieldRecord, node: Node) -> tuple[str, ...]:
        words = [item.text for item in node.items or [] if item.text]
        if node.items is None or len(words) < len(node.items):
            self._report(node, record.key, "expected a list of texts", found=kind_of(node.value))
        return tuple(words)

    def _choice(self, record: FieldRecord, node: Node, attribute: str) -> str | None:
        value = self._sourced(node, attribute) if record.sourced else node
        if value is None or value.text in record.allowed:
            return value.text if value else None
        self._unknown(value, value.text or "", record.allowed, record.key, what="value")
        return None

    def _flag(self, record: FieldRecord, node: Node, attribute: str) -> bool | None:
        value = self._sourced(node, attribute)
        if value is None or value.text in _BOOLEANS:
            return _BOOLEANS[value.text or ""] if value else None
        self._report(value, record.key, "expected true or false", found=kind_of(value.value))
        return None

    def _numbers(self, record: FieldRecord, node: Node, attribute: str) -> tuple[float, ...]:
        value = self._sourced(node, attribute)
        if value is None:
            return ()
        if value.items is None:
            self._report(
                value, record.key, "expected a list of numbers", found=kind_of(value.value), allowed=record.unit
            )
            return ()
        read = [self._read(record, item, f"{attribute}[{index}]") for index, item in enumerate(value.items)]
        return tuple(item for item in read if item is not None)

    def _record(self, record: FieldRecord, node: Node, attribute: str) -> Any:
        if node.mapping is None or record.record is None:
            self._report(node, attribute, "expected a mapping of keys", found=kind_of(node.value))
            return None
        known = records(record.record)
        self._check_keys(node, [item.key for item in known.values()], attribute)
        before = len(self.problems)
        values = self._values(record.record, node, known, f"{attribute}.")
        return record.record(**values) if len(self.problems) == before else None

    def _each(self, record: FieldRecord, node: Node, attribute: str) -> tuple[Any, ...]:
        if node.items is None:
            self._report(node, attribute, "expected a list of mappings", found=kind_of(node.value))
            return ()
        found = [self._record(record, item, f"{attribute}[{index}]") for index, item in enumerate(node.items)]
        return tuple(item for item in found if item is not None)

    def _sourced(self, node: Node, attribute: str) -> Node | None:
        """The node of the bare value, its origin remembered."""
        value = node
        if node.mapping is not None:
            self._check_keys(node, ["value", *ORIGIN_KEYS], attribute)
            if "value" not in node.mapping:
                self._report(node, attribute, "lacks its value", allowed="value, source, year, confidence")
                return None
            value = node.mapping["value"]
        shown = value.text if value.items is None else ", ".join(item.text or "" for item in value.items)
        self._remember(node, attribute, shown or "")
        return value

    def _remember(self, node: Node, attribute: str, text: str) -> None:
        origin = self._origin(node)
        if origin is None:
            self._report(
                node, attribute, "does not say where it comes from", allowed="source, year, confidence, or from"
            )
            return
        self.provenance[attribute] = origin.of(text)

    def _origin(self, node: Node) -> Origin | None:
        pairs = node.mapping or {}
        if "from" in pairs:
            return self._named_origin(pairs["from"])
        if "source" in pairs:
            return self._spelt_origin(node, pairs)
        if self.default is None and self.user:
            return Origin(f"{node.mark.file}:{node.mark.line}", 0, "user")
        return self.default

    def _origins(self, node: Node | None) -> dict[str, Origin]:
        if node is None:
            return {}
        found = {}
        for key, item in (node.mapping or {}).items():
            self._check_keys(item, ["source", "year", "confidence"], f"sources.{key}")
            origin = self._spelt_origin(item, item.mapping or {})
            if origin is not None:
                found[key] = origin
        return found

    def _named_origin(self, node: Node | None) -> Origin | None:
        if node is None:
            return None
        if node.text in self.origins:
            return self.origins[node.text or ""]
        self._unknown(node, node.text or "", tuple(self.origins), "from", what="source")
        return Origin("", 0, "estimated")

    def _spelt_origin(self, node: Node, pairs: Mapping[str, Node]) -> Origin | None:
        source, year, confidence = (
            pairs[key].text if key in pairs else None for key in ("source", "year", "confidence")
        )
        if not source:
            self._report(node, "source", "is missing")
        if not (year and year.isdecimal() and FIRST_YEAR <= int(year[:6]) <= LAST_YEAR):
            self._report(node, "year", "expected a year", found=year, allowed=f"{FIRST_YEAR} to {LAST_YEAR}")
            return None
        if confidence not in CONFIDENCES:
            self._unknown(pairs.get("confidence", node), confidence or "", CONFIDENCES, "confidence", what="value")
            return None
        return Origin(source or "", int(year), confidence)

    def _read(self, record: FieldRecord, node: Node, attribute: str) -> float | None:
        reader = record.read or self.price_reader
        if node.text is None or reader is None:
            self._report(node, attribute, "expected a quantity", found=kind_of(node.value), allowed=record.unit or None)
            return None
        try:
            number = reader(_plain(node))
            if record.bounds is not None:
                record.bounds.check(number)
        except InputError as error:
            file, line, column = node.mark.file, node.mark.line, node.mark.column
            self.problems += error.located(file=file, line=line, column=column, key=self._key_of(attribute)).problems
            return None
        if not math.isfinite(number) or number > _LARGEST:
            self._report(node, attribute, "is too large", found=node.text)
            return None
        return number

    def _check_keys(self, node: Node, allowed: list[str], prefix: str = "") -> None:
        for key in node.mapping or {}:
            if key not in allowed:
                self._unknown(node.place_of(key), key, tuple(allowed), prefix)

    def _unknown(
        self, place: Node | Mark, found: str, allowed: tuple[str, ...], prefix: str, *, what: str = "key"
    ) -> None:
        key = f"{prefix}.{found}" if prefix and what == "key" else prefix or found
        hint = did_you_mean(found, allowed)
        self._report(place, key, f"unknown {what} `{found}`", found=found, allowed=", ".join(allowed), hint=hint)

    def _report(self, place: Node | Mark, key: str, message: str, **details: str | None) -> None:
        self.problems.append(place.problem(message, key=self._key_of(key), **details))

    def _key_of(self, path: str) -> str:
        """A path of attributes (or of keys already) as keys of the file."""
        return re.sub(r"\w+", lambda found: self.keys.get(found[0], found[0]), path)


def _plain(node: Node) -> str:
    """The scalar as the unit parser takes it; exponents that no quantity has are refused before they are expanded."""
    text = node.text or ""
    if len(text) > 80 or _LONG_EXPONENT.search(text):
        raise InputError("is not a quantity", found=text[:80])
    return text
