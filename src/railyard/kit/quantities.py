"""Quantities are written with their units and parsed once, at the edge.

Inside, every number is in its base unit, named in the variable: bit/s (`_bps`), bytes (`_bytes`), picoseconds (`_ps`),
watts (`_w`), joules (`_j`), metres (`_m`), US dollars (`_usd`), FLOP/s (`_flops`). Bits and bytes differ by the
letter alone (`Gb/s` is 10^9 bit/s, `GB/s` is 8 x 10^9 bit/s), so letters are never guessed: a wrong case is an error
that names the right spellings. Decimal prefixes are powers of ten, binary ones (`GiB`) powers of two. Text goes through
`Decimal`, never through a float.
"""

from __future__ import annotations

import math
import re
import statistics
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray


class UnitError(InputError):
    """A quantity without its unit, or with a unit of another kind."""


_DECIMAL = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}
_PS_PER_SECOND = 10**12
_DIGITS = 30  # no quantity of a cluster has more; an exponent of a billion would be expanded digit by digit


def _prefixed(unit: str, scale: Decimal | int = 1) -> dict[str, Decimal]:
    return {prefix + unit: Decimal(10) ** power * scale for prefix, power in _DECIMAL.items()}


def _binary(unit: str, scale: int = 1) -> dict[str, Decimal]:
    return {prefix + unit: Decimal(2**power * scale) for prefix, power in _BINARY.items()}


_RATE = {
    **_prefixed("b/s"),
    **_prefixed("bit/s"),
    **_prefixed("bps"),
    **_prefixed("B/s", 8),
    **_binary("B/s", 8),
}
_SIZE = {**_prefixed("B"), **_binary("B")}
_TIME = {
    "ps": Decimal(1),
    "ns": Decimal(10**3),
    "us": Decimal(10**6),
    "µs": Decimal(10**6),
    "ms": Decimal(10**9),
    "s": Decimal(10**12),
    "min": Decimal(60 * 10**12),
    "h": Decimal(3600 * 10**12),
    "d": Decimal(86400 * 10**12),
    "days": Decimal(86400 * 10**12),
}
_POWER = _prefixed("W")
_ENERGY = {**_prefixed("J"), **_prefixed("Wh", 3600)}
_FLOPS = {**_prefixed("FLOP/s"), **_prefixed("FLOPS"), **_prefixed("FLOPs")}
_FLOP_PER_J = _prefixed("FLOP/J")
_LENGTH = {"mm": Decimal("0.001"), "cm": Decimal("0.01"), "m": Decimal(1), "km": Decimal(1000)}
_DELAY = {"ps/m": Decimal("1e-12"), "ns/m": Decimal("1e-9"), "us/km": Decimal("1e-9")}
_FREQUENCY = _prefixed("Hz")
_YEARS = {
    "years": Decimal(1),
    "year": Decimal(1),
    "yr": Decimal(1),
    "a": Decimal(1),
    **dict.fromkeys(("months", "month"), Decimal(1) / 12),
}
_MONEY = {"": Decimal(1), "k": Decimal(10**3), "M": Decimal(10**6), "B": Decimal(10**9)}
_COUNT = {**_MONEY, "G": Decimal(10**9), "T": Decimal(10**12)}
_PER = {
    "h": Decimal(1),
    "kWh": Decimal(1),
    "MWh": Decimal("0.001"),
    "TB": Decimal(1),
    "GB": Decimal(1000),
    "PB": Decimal("0.001"),
    "kW-month": Decimal(1),
    "MW": Decimal(1),
    "kW": Decimal(1000),
    "Mtok": Decimal(1),
}

_NUMBER = re.compile(r"^\s*([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")
_DOLLARS = re.compile(r"^\s*(?:\$|USD)\s*([\d_,.]+(?:[eE][+-]?\d+)?)\s*([kMB]?)\s*(?:/\s*(\S+))?\s*$")
_DOLLARS_BEHIND = re.compile(r"^\s*([\d_,.]+(?:[eE][+-]?\d+)?)\s*([kMB]?)\s*(?:USD|\$)\s*(?:/\s*(\S+))?\s*$")


def _decimal(text: str, text_of: object) -> Decimal:
    try:
        value = Decimal(text.replace("_", "").replace(",", ""))
    except InvalidOperation:
        raise UnitError(f"cannot read a number in `{text_of}`", found=text_of) from None
    if not value.is_finite():
        raise UnitError(f"the number in `{text_of}` is not finite", found=text_of)
    if value and not -_DIGITS < value.adjusted() < _DIGITS:
        raise UnitError(f"the number in `{text_of}` is out of range", found=text_of)
    return value


def _parse(value: object, table: Mapping[str, Decimal], kind: str, example: str) -> Decimal:
    """The value in the table's base unit.

    Raises:
        UnitError: No number, no unit, a unit that the table does not hold, or a negative number.
    """
    if isinstance(value, bool) or not isinstance(value, str):
        raise UnitError(f"{kind} needs a unit: write for example `{example}`", found=value, allowed=_units(table))
    match = _NUMBER.match(value)
    if match is None:
        raise UnitError(f"`{value}` is not {kind}: write for example `{example}`", found=value, allowed=_units(table))
    number, unit = _decimal(match.group(1), value), match.group(2)
    if unit == "" and "" not in table:
        if number == 0:
            return Decimal(0)
        raise UnitError(f"{kind} needs a unit: write for example `{example}`", found=value, allowed=_units(table))
    if unit not in table:
        message = f"unknown unit `{unit}` in `{value}` for {kind}"
        raise UnitError(message, found=value, allowed=_units(table), hint=_hint(unit, table, example))
    return _not_negative(number * table[unit], value, kind)


def _hint(unit: str, table: Mapping[str, Decimal], example: str) -> str:
    """Names every unit that differs in case only: which of `Gb/s` and `GB/s` was meant cannot be known."""
    same_letters = [f"`{known}`" for known in table if known.lower() == unit.lower()]
    if same_letters:
        return f"did you mean {' or '.join(same_letters)}?"
    near = suggest(unit, table)
    return f"did you mean `{near}`?" if near else f"write for example `{example}`"


def _units(table: Mapping[str, Decimal]) -> str:
    shown = [unit for unit in table if unit]
    return ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "")


def _not_negative(value: Decimal, given: object, kind: str) -> Decimal:
    if value < 0:
        raise UnitError(f"{kind} cannot be negative", found=given, allowed="0 or more")
    return value


def rate(value: object) -> float:
    """A data rate in bit/s: `400 Gb/s`, `900 GB/s`, `3.35 TB/s`."""
    return float(_parse(value, _RATE, "a data rate", "400 Gb/s"))


def size(value: object) -> int:
    """A size in bytes: `80 GiB`, `25 MB`."""
    return round(_parse(value, _SIZE, "a size", "80 GiB"))


def time(value: object) -> int:
    """A time in picoseconds: `2 us`, `600 ns`, `30 min`."""
    return round(_parse(value, _TIME, "a time", "2 us"))


def seconds(value: object) -> float:
    """A time in seconds, for spans in which picoseconds mean nothing: `30 min`, `54 days`."""
    return float(_parse(value, _TIME, "a time", "30 min") / _PS_PER_SECOND)


def power(value: object) -> float:
    """A power in watts: `700 W`, `1.2 kW`."""
    return float(_parse(value, _POWER, "a power", "700 W"))


def energy(value: object) -> float:
    """An energy in joules: `50 kWh`, `3 MJ`."""
    return float(_parse(value, _ENERGY, "an energy", "50 kWh"))


def flops(value: object) -> float:
    """A compute rate in FLOP/s (dense): `989 TFLOP/s`."""
    return float(_parse(value, _FLOPS, "a compute rate", "989 TFLOP/s"))


def flop_per_j(value: object) -> float:
    """Operations that a joule pays for, in FLOP/J: `0.97 TFLOP/J`."""
    return float(_parse(value, _FLOP_PER_J, "operations of a joule", "0.97 TFLOP/J"))


def length(value: object) -> float:
    """A length in metres: `30 m`, `50 km`."""
    return float(_parse(value, _LENGTH, "a length", "30 m"))


def loss(value: object) -> float:
    """A loss of light in decibels: `0.75 dB`."""
    return float(_parse(value, {"dB": Decimal(1)}, "a loss", "0.75 dB"))


def failure_rate(value: object) -> float:
    """Failures in 10^9 hours: `1333 FIT`."""
    return float(_parse(value, {"FIT": Decimal(1)}, "a failure rate", "1333 FIT"))


def delay_per_length(value: object) -> float:
    """A propagation delay, one way, in seconds per metre: `5 ns/m`."""
    return float(_parse(value, _DELAY, "a delay per length", "5 ns/m"))


def frequency(value: object) -> float:
    """A frequency in hertz: `1.83 GHz`."""
    return float(_parse(value, _FREQUENCY, "a frequency", "1.83 GHz"))


def years(value: object) -> float:
    """A span in years: `4 years`."""
    return float(_parse(value, _YEARS, "a span in years", "4 years"))


def count(value: object) -> int:
    """An integer count, bare or with a prefix: `16384`, `15 T` (tokens), `405 B` (parameters)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(_not_negative(Decimal(value), value, "a count"))
    number = _parse(value, _COUNT, "a count", "15 T")
    if number != number.to_integral_value():
        raise UnitError(f"expected an integer count, got `{value}`", found=value)
    return int(number)


def ratio(value: object) -> float:
    """A ratio: `3:1`, `95 %`, `1.5`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(_not_negative(_decimal(str(value), value), value, "a ratio"))
    if isinstance(value, str) and ":" in value:
        parts = value.split(":")
        if len(parts) == 2:
            above, below = (_decimal(part.strip(), value) for part in parts)
            if below > 0 and above >= 0:
                return float(above / below)
        raise UnitError(f"`{value}` is not a ratio: write for example `3:1`", found=value)
    table = {"": Decimal(1), "%": Decimal("0.01")}
    return float(_parse(value, table, "a ratio", "95 %"))


def _dollars(value: object, per: tuple[str, ...], example: str) -> float:
    kind = "an amount of money" if not per else "a price"
    text = value if isinstance(value, str) else ""
    match = _DOLLARS.match(text) or _DOLLARS_BEHIND.match(text)
    if match is None:
        raise UnitError(f"{kind} needs its currency and unit: write for example `{example}`", found=value)
    amount, prefix, unit = match.groups()
    wanted = per or (None,)
    if unit not in wanted:
        after = " or ".join(f"/{item}" for item in per) if per else "no unit after it"
        raise UnitError(f"expected {kind} in another unit, got `{value}`", found=value, allowed=f"{example} ({after})")
    scale = _PER[unit] if unit is not None else Decimal(1)
    return float(_decimal(amount, value) * _MONEY[prefix] * scale)


def money(value: object) -> float:
    """An amount in US dollars: `$30k`, `30 kUSD`, `$3.1M`."""
    return _dollars(value, (), "$30k")


def money_rate(value: object) -> float:
    """A price of time in USD/h: `$2.10/h`."""
    return _dollars(value, ("h",), "$2.10/h")


def energy_price(value: object) -> float:
    """A price of energy in USD/kWh: `$0.08/kWh`."""
    return _dollars(value, ("kWh", "MWh"), "$0.08/kWh")


def storage_price(value: object) -> float:
    """A price of storage in USD/TB (10^12 bytes): `$120/TB`."""
    return _dollars(value, ("TB", "GB", "PB"), "$120/TB")


def space_price(value: object) -> float:
    """A price of provisioned space and power in USD per kW and month: `$180/kW-month`."""
    return _dollars(value, ("kW-month",), "$180/kW-month")


def build_price(value: object) -> float:
    """A price of building a data centre in USD per MW of IT load: `$10.7M/MW`."""
    return _dollars(value, ("MW", "kW"), "$10.7M/MW")


def _short(value: float) -> str:
    return f"{value:.12g}"


def _scaled(value: float, unit: str) -> str:
    for scale, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{_short(value / scale)} {prefix}{unit}"
    return f"{_short(value)} {unit}"


def format_rate(bps: float) -> str:
    """`400 Gb/s` from bit/s."""
    return _scaled(bps, "b/s")


def format_byte_rate(bps: float) -> str:
    """`900 GB/s` from bit/s: for memory and bus bandwidth."""
    return _scaled(bps / 8, "B/s")


def format_size(size_bytes: float) -> str:
    """`80 GiB` from bytes where that is exact, else the decimal unit; `1 TB` for 976,562,500 KiB."""
    decimal = _scaled(size_bytes, "B")
    for power, prefix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if size_bytes and size_bytes % 2**power == 0:
            binary = f"{_short(size_bytes / 2**power)} {prefix}B"
            return binary if size_bytes < 10_000 * 2**power else min(decimal, binary, key=len)
    return decimal


def format_memory(size_bytes: float, decimals: int = 1) -> str:
    """`52.1 GiB` from bytes: memory of devices has one unit, so that it can be compared by eye."""
    return f"{size_bytes / 2**30:.{decimals}f} GiB"


def format_time(time_ps: float) -> str:
    """`2 us` from picoseconds."""
    for scale, unit in ((10**12, "s"), (10**9, "ms"), (10**6, "us"), (10**3, "ns")):
        if abs(time_ps) >= scale:
            return f"{_short(time_ps / scale)} {unit}"
    return f"{_short(time_ps)} ps"


def about_time(time_ps: float) -> str:
    """`2.35 ms` from picoseconds: three digits."""
    return format_time(float(f"{time_ps:.3g}"))


def format_power(power_w: float) -> str:
    """`700 W` from watts."""
    return _scaled(power_w, "W")


def format_flops(value_flops: float) -> str:
    """`989 TFLOP/s` from FLOP/s."""
    return _scaled(value_flops, "FLOP/s")


def format_flop_per_j(value: float) -> str:
    """`970 GFLOP/J` from FLOP/J."""
    return _scaled(value, "FLOP/J")


def format_length(length_m: float) -> str:
    """`30 m` from metres."""
    return f"{_short(length_m / 1000)} km" if length_m >= 1000 else f"{_short(length_m)} m"


def format_loss(loss_db: float) -> str:
    """`0.75 dB` from decibels."""
    return f"{_short(loss_db)} dB"


def format_failure_rate(fit: float) -> str:
    """`1333 FIT` from failures in 10^9 hours."""
    return f"{_short(fit)} FIT"


def format_money(usd: float) -> str:
    """`$30k` from US dollars."""
    for scale, prefix in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(usd) >= scale:
            return f"${_short(usd / scale)}{prefix}"
    return f"${_short(usd)}"


def format_count(value: float) -> str:
    """`15 T` from a count."""
    for scale, prefix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{_short(value / scale)} {prefix}"
    return _short(value)


_STUDENT = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812}
"""95th percentile of Student's distribution by degrees of freedom; beyond ten close to 1.645 + 1.55 / n."""


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """A mean and the ends of its 90 % interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, -math.inf, math.inf
    degrees = len(values) - 1
    factor = _STUDENT.get(degrees, 1.645 + 1.55 / degrees)
    half = factor * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


# share x count within this of an integer is that integer.
_ROUNDING = 1e-9


def nearest_rank(share: float, count: int) -> int:
    """Index of a percentile among `count` values in ascending order, from 0.

    Args:
        share: 0 to 1.
        count: At least one.
    """
    return min(max(math.ceil(share * count - _ROUNDING) - 1, 0), count - 1)


def percentile(ordered: Sequence[float] | NDArray[np.float64] | NDArray[np.int64], share: float) -> float:
    """The percentile of at least one value, in ascending order."""
    return float(ordered[nearest_rank(share, len(ordered))])


def percentile_bin(count: NDArray[np.int64], share: float) -> int:
    """Index of the bin of a histogram that holds the percentile.

    Args:
        count: int64[bins], at least one value in total.
        share: 0 to 1.
    """
    import numpy as np

    reached = np.cumsum(count)
    return int(np.searchsorted(reached, nearest_rank(share, int(reached[-1])) + 1))


def ranges(first: NDArray[np.integer[Any]] | int, lengths: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The numbers `first[r], first[r] + 1, ...`, `lengths[r]` of them, for one row after another.

    Args:
        first: int[rows]; 0 gives the place of each entry in its row.
        lengths: int[rows], 0 or more.
    """
    import numpy as np  # where it is used: commands that only read names start without it

    count = np.asarray(lengths, np.int64)
    ends = np.cumsum(count)
    found: NDArray[np.int64] = np.repeat(first - (ends - count), count) + np.arange(ends[-1] if len(ends) else 0)
    return found


def halved(less: Callable[[float], bool], low: float, high: float, halvings: int) -> tuple[float, float]:
    """The part of an interval in which `less` turns from true to false, after so many halvings."""
    for _ in range(halvings):
        middle = (low + high) / 2.0
        low, high = (middle, high) if less(middle) else (low, middle)
    return low, high
