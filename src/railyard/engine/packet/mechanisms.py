"""The mechanisms of the packet engine, as the core describes them: one record each, with its constants.

A mechanism's C++ file holds its record; settings, their names and ranges, `--set`, YAML keys and the reference page
follow from it. Nothing of it is written again here.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import railyard._core as _core
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_UNITS = ("_ps", "_bytes", "_bps", "_packets")
_NOUNS = {"ps": "time", "bytes": "size", "bps": "rate", "share": "share"}
_NO_PREFIX = "-"
_NO_KEY = "-"


@dataclass(frozen=True)
class MechanismField:
    """One constant of a mechanism.

    Attributes:
        field: Its name there, with its unit at the end.
        name: Of the setting: `dcqcn_alpha_interval_ps`.
        key: How users name it: `dcqcn_alpha_interval`; empty where the run decides it.
        kind: `flag`, `integer`, `number`, `word` or `list`.
        unit: `ps`, `bytes`, `bps`, `packets`, `share` (of 1) or empty.
        default: None where it is left open.
        low: Least value of a number.
        high: Greatest value.
        low_open: Whether `low` itself is too little.
        high_open: Whether `high` itself is too much.
        least: Least numbers of a list.
        most: Most numbers of a list.
        words: What a word may be.
        optional: Whether it may be None.
        none_word: How users write None; empty where they cannot.
        none_means: What None means.
        family: Of the mechanisms that a word names; empty for other words.
    """

    mechanism: str
    field: str
    name: str
    key: str
    kind: str
    unit: str
    default: Any
    low: float
    high: float
    low_open: bool
    high_open: bool
    least: int
    most: int
    words: tuple[str, ...]
    optional: bool
    none_word: str
    none_means: str
    family: str
    doc: str

    @property
    def allowed(self) -> str:
        """What the value may be, in words."""
        if self.kind == "word":
            return ", ".join(self.words)
        low = f"more than {self.low:g}" if self.low_open else f"{self.low:g}"
        return f"{low} to {'less than ' if self.high_open else ''}{self.high:g}"

    def check(self, value: Any) -> None:
        """Refuses a value that is no value of this constant.

        Raises:
            InputError: It is of another kind, or out of range.
        """
        if value is None:
            if not self.optional:
                raise InputError("a value is needed", key=self.name, found=None)
            return
        if self.kind == "word":
            self._check_word(value)
        elif self.kind == "flag":
            if not isinstance(value, bool):
                raise InputError("expected true or false", key=self.name, found=value)
        elif self.kind == "list":
            self._check_list(value)
        else:
            self._check_number(value)

    def _check_list(self, value: Sequence[Any]) -> None:
        if not self.least <= len(value) <= self.most:
            count = str(self.most) if self.least == self.most else f"at most {self.most}"
            raise InputError("wrong number of values", key=self.name, found=value, allowed=f"{count} integers")
        for each in value:
            self._check_number(each)

    def _check_word(self, value: Any) -> None:
        if value in self.words:
            return
        what = f"unknown {self.name.replace('_', ' ')}"
        raise InputError(what, key=self.name, found=value, allowed=self.words, hint=hint_of(str(value), self.words))

    def _check_number(self, value: Any) -> None:
        try:
            number = float(value) if self.kind == "number" else operator.index(value)
        except (TypeError, ValueError):
            wanted = "a number" if self.kind == "number" else "an integer"
            raise InputError(f"expected {wanted}", key=self.name, found=value) from None
        below = number <= self.low if self.low_open else number < self.low
        above = number >= self.high if self.high_open else number > self.high
        if below or above or number != number:  # noqa: PLR0124 # not a number
            what = f"the {_NOUNS.get(self.unit, 'number')} is out of range"
            raise InputError(what, key=self.name, found=value, allowed=self.allowed)


@dataclass(frozen=True)
class Mechanism:
    """What there is to know of a mechanism.

    Attributes:
        family: transport, flow_control, congestion_control, load_balancing, loss_recovery, marking; engine for what
            every run has.
        summary: One sentence.
        sources: Papers and programs.
        transport: The only transport that has it; empty: any.
    """

    family: str
    name: str
    summary: str
    sources: tuple[str, ...]
    transport: str
    constants: tuple[MechanismField, ...]


RENAMED = {"single-path": "ecmp", "oblivious": "spray"}
"""Words of earlier versions, for the hint of an error."""


def hint_of(word: str, known: Sequence[str]) -> str | None:
    """The nearest of some words; for a word of an earlier version the one that it is now."""
    now = RENAMED.get(word)
    return did_you_mean(word if now is None else now, known)


def names_of(family: str, *, transport: str | None = None) -> tuple[str, ...]:
    """Names of the mechanisms of a family, and of a transport where one is given."""
    return tuple(
        one.name
        for one in _core.mechanisms()
        if one.family == family and transport in (None, one.transport or transport)
    )


def _kind(default: Any, choices: Sequence[str], family: str) -> str:
    if choices or family:
        return "word"
    for kind, of in (("flag", bool), ("integer", int), ("number", float)):
        if isinstance(default, of):
            return kind
    return "list"


def _key(one: _core.PacketField, name: str) -> str:
    if one.key:
        return "" if one.key == _NO_KEY else one.key
    unit = next((unit for unit in _UNITS if name.endswith(unit)), "")
    return name.removesuffix(unit)


def _words(one: _core.PacketField, transport: str) -> tuple[str, ...]:
    if one.family == "congestion_control":
        return names_of(one.family, transport=transport)
    return names_of(one.family) if one.family else tuple(one.choices)


def _constant(mechanism: _core.PacketMechanism, one: _core.PacketField) -> MechanismField:
    prefix = "" if mechanism.prefix == _NO_PREFIX else f"{mechanism.prefix}_"
    name = prefix + one.name
    default = tuple(one.default) if isinstance(one.default, list) else one.default
    return MechanismField(
        mechanism=mechanism.name,
        field=one.name,
        name=name,
        key=_key(one, name),
        kind=_kind(one.plain, one.choices, one.family),
        unit=one.unit,
        default=default,
        low=one.low,
        high=one.high,
        low_open=one.low_open,
        high_open=one.high_open,
        least=one.least,
        most=one.most,
        words=_words(one, "rdma" if mechanism.name == "rdma" else "uec"),
        optional=one.optional,
        none_word=one.unset_word,
        none_means=one.unset_means,
        family=one.family,
        doc=one.doc,
    )


def _read() -> tuple[Mechanism, ...]:
    return tuple(
        Mechanism(
            family=one.family,
            name=one.name,
            summary=one.summary,
            sources=tuple(one.sources),
            transport=one.transport,
            constants=tuple(_constant(one, each) for each in one.fields),
        )
        for one in _core.mechanisms()
    )


MECHANISMS: tuple[Mechanism, ...] = _read()
"""All mechanisms, by family and name."""

CONSTANTS: Mapping[str, MechanismField] = {one.name: one for mechanism in MECHANISMS for one in mechanism.constants}
"""Their constants by the name of the setting."""
