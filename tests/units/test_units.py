"""Units: exact, told apart by their letters, and never guessed."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.kit import units
from railyard.kit.errors import InputError
from railyard.kit.schema import quantity


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.rate, "400 Gb/s", 400e9),
        (units.rate, "400Gbps", 400e9),
        (units.rate, "900 GB/s", 7.2e12),
        (units.rate, "1 GiB/s", 8 * 2**30),
        (units.size, "80 GiB", 80 * 2**30),
        (units.size, "80 GB", 80 * 10**9),
        (units.time, "2 us", 2_000_000),
        (units.time, "1.5 ns", 1500),
        (units.seconds, "54 days", 54 * 86400.0),
        (units.power, "1.2 kW", 1200.0),
        (units.energy, "1 kWh", 3.6e6),
        (units.flops, "989 TFLOP/s", 989e12),
        (units.length, "50 km", 50_000.0),
        (units.delay_per_length, "5 ns/m", 5e-9),
        (units.money, "$30k", 30_000.0),
        (units.money, "30 kUSD", 30_000.0),
        (units.money_rate, "$2.10/h", 2.10),
        (units.energy_price, "$80/MWh", 0.08),
        (units.storage_price, "$120/TB", 120.0),
        (units.space_price, "$180/kW-month", 180.0),
        (units.count, "15 T", 15 * 10**12),
        (units.count, 16384, 16384),
        (units.ratio, "3:1", 3.0),
        (units.ratio, "95 %", 0.95),
        (units.years, "4 years", 4.0),
    ],
)
def test_what_users_write(parse, text, value) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (units.rate, 400, "needs a unit: write for example `400 Gb/s`"),
        (units.rate, "400", "needs a unit"),
        (units.rate, "400 Gbs", "did you mean `Gbps`"),
        (units.rate, "400 gb/s", "did you mean `Gb/s` or `GB/s`"),
        (units.rate, "400 GiB", "unknown unit `GiB`"),
        (units.size, "80 Gb", "unknown unit `Gb`"),
        (units.size, "-1 B", "cannot be negative"),
        (units.time, True, "needs a unit"),
        (units.time, "inf s", "is not a time"),
        (units.count, "1e999999999", "out of range"),
        (units.size, "1e999999999 GiB", "out of range"),
        (units.money, "30000", "needs its currency"),
        (units.money, "$2/h", "in another unit"),
        (units.money_rate, "$2", "in another unit"),
        (units.energy_price, "$2/h", "in another unit"),
        (units.count, "1.5", "expected an integer count"),
        (units.ratio, "3:0", "not a ratio"),
    ],
)
def test_what_is_refused(parse, text, message) -> None:
    with pytest.raises(units.UnitError, match=message):
        parse(text)


@given(st.integers(0, 10**15))
def test_round_trips(number: int) -> None:
    assert units.rate(units.format_rate(float(number))) == pytest.approx(number, rel=1e-11)
    assert units.size(units.format_size(number)) == pytest.approx(number, rel=1e-11)
    assert units.time(units.format_time(number)) == pytest.approx(number, rel=1e-11)
    assert units.power(units.format_power(number)) == pytest.approx(number, rel=1e-11)
    assert units.money(units.format_money(number)) == pytest.approx(number, rel=1e-11)
    assert units.count(units.format_count(number)) == pytest.approx(number, rel=1e-11)


@given(st.text(max_size=12) | st.integers() | st.floats() | st.none() | st.booleans())
def test_only_input_errors_ever_appear(value: object) -> None:
    parsers = (
        units.rate, units.size, units.time, units.seconds, units.power, units.energy, units.flops, units.length,
        units.delay_per_length, units.money, units.money_rate, units.energy_price, units.storage_price, units.count,
        units.ratio, units.years, units.frequency, units.space_price, units.build_price, units.token_price,
    )  # fmt: skip
    for parse in parsers:
        with contextlib.suppress(InputError):
            parse(value)


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (quantity.TIME, 0, "0"),
        (quantity.TIME, 10**12, "1 s"),
        (quantity.TIME, 3600 * 10**12, "1 h"),
        (quantity.SPAN, 36525 * 86400.0, "36,525 d"),
        (quantity.SPAN, 1e8 * 3600, "100,000,000 h"),
        (quantity.SPAN, 113685.12, "1.316 d"),
        (quantity.LENGTH, 4e7, "40,000 km"),
        (quantity.RATIO, 2 / 3, "0.6667"),
        (quantity.RATIO, 1000.0, "1,000"),
        (quantity.SIZE, 0, "0"),
        (quantity.FLOP_PER_J, 0.0, "0"),
    ],
)
def test_limits_are_written_as_a_person_writes_them(kind, value, words):
    assert kind.say(value) == words
