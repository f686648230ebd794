"""Units: exact, told apart by their letters, and never guessed."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.kit import quantities
from railyard.kit.errors import InputError
from railyard.kit.schema import quantity


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (quantities.rate, "400 Gb/s", 400e9),
        (quantities.rate, "400Gbps", 400e9),
        (quantities.rate, "900 GB/s", 7.2e12),
        (quantities.rate, "1 GiB/s", 8 * 2**30),
        (quantities.size, "80 GiB", 80 * 2**30),
        (quantities.size, "80 GB", 80 * 10**9),
        (quantities.time, "2 us", 2_000_000),
        (quantities.time, "1.5 ns", 1500),
        (quantities.seconds, "54 days", 54 * 86400.0),
        (quantities.power, "1.2 kW", 1200.0),
        (quantities.energy, "1 kWh", 3.6e6),
        (quantities.flops, "989 TFLOP/s", 989e12),
        (quantities.length, "50 km", 50_000.0),
        (quantities.delay_per_length, "5 ns/m", 5e-9),
        (quantities.money, "$30k", 30_000.0),
        (quantities.money, "30 kUSD", 30_000.0),
        (quantities.money_rate, "$2.10/h", 2.10),
        (quantities.energy_price, "$80/MWh", 0.08),
        (quantities.storage_price, "$120/TB", 120.0),
        (quantities.space_price, "$180/kW-month", 180.0),
        (quantities.count, "15 T", 15 * 10**12),
        (quantities.count, 16384, 16384),
        (quantities.ratio, "3:1", 3.0),
        (quantities.ratio, "95 %", 0.95),
        (quantities.years, "4 years", 4.0),
    ],
)
def test_what_users_write(parse, text, value) -> None:
    assert parse(text) == value


@given(st.integers(0, 10**15))
def test_round_trips(number: int) -> None:
    assert quantities.rate(quantities.format_rate(float(number))) == pytest.approx(number, rel=1e-11)
    assert quantities.size(quantities.format_size(number)) == pytest.approx(number, rel=1e-11)
    assert quantities.time(quantities.format_time(number)) == pytest.approx(number, rel=1e-11)
    assert quantities.power(quantities.format_power(number)) == pytest.approx(number, rel=1e-11)
    assert quantities.money(quantities.format_money(number)) == pytest.approx(number, rel=1e-11)
    assert quantities.count(quantities.format_count(number)) == pytest.approx(number, rel=1e-11)


@given(st.text(max_size=12) | st.integers() | st.floats() | st.none() | st.booleans())
def test_only_input_errors_ever_appear(value: object) -> None:
    parsers = (
        quantities.rate, quantities.size, quantities.time, quantities.seconds, quantities.power, quantities.energy,
        quantities.flops, quantities.length, quantities.delay_per_length, quantities.money, quantities.money_rate,
        quantities.energy_price, quantities.storage_price, quantities.count, quantities.ratio, quantities.years,
        quantities.frequency, quantities.space_price, quantities.build_price,
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
