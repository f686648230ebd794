"""The kinds of quantity: how each is written, read and shown, in one base unit.

Fields of records and of a scenario take reader and example from here. What `write` gives, `read` takes back to the same
number, to the last bit.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit import quantities
from railyard.kit.errors import InputError
from railyard.kit.schema.bounds import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 64
_INT64 = 2**63 - 1
_READABLE = 1e6
_MINUTE_S = 60.0
_SPANS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
_THOUSANDS = re.compile(r"(?<![\d.])\d{4,}")


def _long_span(seconds: float) -> str:
    """A span of a minute or more in the largest unit of which it is a whole number, else rounded."""
    for word, unit_s in _SPANS:
        number = seconds / unit_s
        if number > 0.5 and math.isclose(number, round(number), rel_tol=1e-12):
            return f"{round(number)} {word}"
    word, unit_s = next((word, unit_s) for word, unit_s in _SPANS if seconds >= unit_s)
    return f"{seconds / unit_s:.4g} {word}"


@dataclass(frozen=True)
class Quantity:
    """One kind of quantity.

    Attributes:
        kind: What it is, in words.
        example: How it is written.
        parse: Text to base unit.
        show: Base unit to text.
        base: Unit to fall back on where `show` would round.
        most: Largest value that is taken; beyond it arithmetic would overflow and nothing real lies there.
        bare: A number without a unit is right too.
    """

    kind: str
    example: str
    parse: Callable[[object], float]
    show: Callable[[float], str]
    base: str
    most: float
    bare: bool = False

    def read(self, value: object) -> float:
        """The value in the base unit.

        Raises:
            InputError: It is no such quantity, or larger than `most`.
        """
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InputError(f"expected {self.kind}, such as `{self.example}`")
        if isinstance(value, str) and len(value) > _LONGEST:
            raise InputError(f"expected {self.kind}; the text is too long")
        try:
            number = self.parse(value)
        except (ArithmeticError, ValueError):
            raise InputError(f"expected {self.kind}; no number can be read in this") from None
        if not number <= self.most:
            raise InputError(f"{self.kind} is at most {self.say(self.most)}", allowed=f"at most {self.say(self.most)}")
        return number

    def within(self, low: str, high: str, *, usual: tuple[str, str] | None = None, source: str = "") -> Bounds:
        """The range between two values, both allowed, given as text with units."""
        ends = None if usual is None else (self.parse(usual[0]), self.parse(usual[1]))
        low_high = {"low": self.parse(low), "high": self.parse(high)}
        return Bounds(**low_high, usual=ends, source=source, show=self.say, quantity=self)

    def above(self, low: str, high: str) -> Bounds:
        """The same without the lower value itself."""
        return Bounds(above=self.parse(low), high=self.parse(high), show=self.say, quantity=self)

    def say(self, value: float) -> str:
        """The value as a person writes a limit, such as `0`, `100 d` or `40,000 km`; for messages and pages."""
        if value == 0:
            return "0"
        seconds = {"s": value, "ps": value * 1e-12}.get(self.base, 0.0)
        if seconds >= _MINUTE_S:
            text = _long_span(seconds)
        else:
            text = f"{value:.4g}" if self.bare and value < 1 else self.show(value)
        return _THOUSANDS.sub(lambda digits: f"{int(digits[0]):,}", text)

    def write(self, value: float) -> str | float:
        """Text, or a bare number where one is right, that `read` takes back to the same number."""
        if self.bare and value < _READABLE:
            return int(value) if value == int(value) else value
        text = self.show(value)
        if self.read(text) == value:
            return text
        return f"{value!r} {self.base}".strip()


def _money(text: str) -> Callable[[float], str]:
    return lambda value: f"{quantities.format_money(value)}{text}"


def _years(value: float) -> str:
    months = round(value * 12)
    if value < 1 and math.isclose(months, value * 12, rel_tol=1e-12) and months:
        return f"{months} month{'s' if months > 1 else ''}"
    return f"{value:.12g} years"


def _hertz(value: float) -> str:
    return f"{value:.12g} Hz"


def _span(value: float) -> str:
    return f"{value / 3600:.12g} h" if value >= 3600 and value % 3600 == 0 else quantities.format_time(value * 1e12)


def _ratio(value: float) -> str:
    return f"{value:.12g}"


RATE = Quantity("a data rate", "400 Gb/s", quantities.rate, quantities.format_rate, "b/s", 1e18)
SIZE = Quantity("a size", "80 GiB", quantities.size, quantities.format_size, "B", _INT64)
TIME = Quantity("a time", "2 us", quantities.time, quantities.format_time, "ps", _INT64)
SPAN = Quantity("a span of time", "30 min", quantities.seconds, _span, "s", 1e12)
POWER = Quantity("a power", "700 W", quantities.power, quantities.format_power, "W", 1e12)
FLOPS = Quantity("a compute rate, dense", "989 TFLOP/s", quantities.flops, quantities.format_flops, "FLOP/s", 1e21)
FLOP_PER_J = Quantity(
    "operations of a joule", "0.97 TFLOP/J", quantities.flop_per_j, quantities.format_flop_per_j, "FLOP/J", 1e18
)
LENGTH = Quantity("a length", "30 m", quantities.length, quantities.format_length, "m", 1e9)
LOSS = Quantity("a loss of light", "0.75 dB", quantities.loss, quantities.format_loss, "dB", 1e3)
FIT = Quantity("a failure rate", "1333 FIT", quantities.failure_rate, quantities.format_failure_rate, "FIT", 1e9)
FREQUENCY = Quantity("a frequency", "1.83 GHz", quantities.frequency, _hertz, "Hz", 1e15)
YEARS = Quantity("a span in years", "4 years", quantities.years, _years, "years", 100.0)
COUNT = Quantity("a count", "15 T", quantities.count, quantities.format_count, "", 2.0**53, bare=True)
RATIO = Quantity("a ratio", "95 %", quantities.ratio, _ratio, "", 1e6, bare=True)
MONEY = Quantity("an amount of money", "$30k", quantities.money, _money(""), "USD", 1e15)
MONEY_RATE = Quantity("a price of time", "$2.10/h", quantities.money_rate, _money("/h"), "USD/h", 1e12)
ENERGY_PRICE = Quantity("a price of energy", "$0.08/kWh", quantities.energy_price, _money("/kWh"), "USD/kWh", 1e6)
STORAGE_PRICE = Quantity("a price of storage", "$120/TB", quantities.storage_price, _money("/TB"), "USD/TB", 1e9)
SPACE_PRICE = Quantity(
    "a price of space", "$180/kW-month", quantities.space_price, _money("/kW-month"), "USD/kW-month", 1e9
)

#: What a port or a link can have. Unusual: what no port has been sold with.
LINK_RATE = RATE.within(
    "1 Mb/s", "100 Tb/s", usual=("1 Gb/s", "3.2 Tb/s"), source="Ethernet and InfiniBand ports, 1 Gb/s to 1.6 Tb/s"
)
