"""Quantities of a scenario: written with their unit, read once, and written back to the same number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from railyard.kit.schema import quantity as quantities
from railyard.work.scenario import quantity as q
from railyard.work.scenario.workload import SoftwareSection

ALL = [value for value in vars(quantities).values() if isinstance(value, q.Quantity)]


@pytest.mark.parametrize("key", ["joule16", "joule8"])
def test_operations_of_a_joule_have_their_unit_and_range(key):
    """970 GFLOP/J is what an H100 or a GB300 pays in 16 bits."""
    assert getattr(SoftwareSection(**{key: "0.97 TFLOP/J"}), key) == 0.97e12
    assert SoftwareSection(**{key: "970 GFLOP/J"}).model_dump()[key] == "970 GFLOP/J"
    for wrong in (0.97e12, 0.97, "0.97 TFLOP/s", "11 PFLOP/J", "-1 TFLOP/J"):
        with pytest.raises(ValidationError):
            SoftwareSection(**{key: wrong})


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (quantities.YEARS.show, 1 / 12, "1 month"),
        (quantities.YEARS.show, 7 / 12, "7 months"),
        (quantities.YEARS.show, 1.5, "1.5 years"),
        (quantities.SIZE.show, 10**12, "1 TB"),
        (quantities.SIZE.show, 4 * 10**12, "4 TB"),
        (quantities.SIZE.show, 10**18, "1 EB"),
        (quantities.SIZE.show, 80 * 2**30, "80 GiB"),
        (quantities.SIZE.show, 9_000 * 2**10, "9000 KiB"),
        (quantities.SIZE.show, 1_000_001 * 2**40, "1000001 TiB"),
    ],
)
def test_values_are_shown_in_a_natural_unit(show, value, text):
    assert show(value) == text


@pytest.mark.parametrize("quantity", ALL, ids=lambda quantity: quantity.kind)
def test_the_example_is_read_and_a_bare_number_is_not(quantity):
    assert quantity.read(quantity.example) > 0
    adapter = TypeAdapter(q.field_type(quantity, float))
    if quantity.bare:
        assert adapter.validate_python(3) == 3
    else:
        with pytest.raises(ValidationError) as caught:
            adapter.validate_python(3)
        # The message of a missing unit names one that is right.
        assert quantity.example.split(" ", 1)[-1].lstrip("$0123456789.") in caught.value.errors()[0]["msg"]


@pytest.mark.parametrize("quantity", ALL, ids=lambda quantity: quantity.kind)
@given(data=st.data())
def test_written_text_is_read_back_to_the_same_number(quantity, data):
    whole = quantity in (q.SIZE, q.TIME, q.COUNT)
    fractions = st.just(0.0) | st.floats(1e-9, quantity.most)
    value = data.draw(st.integers(0, int(quantity.most)) if whole else fractions)
    assert quantity.read(quantity.write(value)) == value


@pytest.mark.parametrize("quantity", ALL, ids=lambda quantity: quantity.kind)
@given(
    text=st.text(max_size=80)
    | st.from_regex(r"[-+]?\$?[0-9.,_]{0,30}([eE][-+]?[0-9]{0,12})?[ :]?[kMGTBb/%a-zA-Z0-9]{0,8}", fullmatch=True)
)
def test_any_text_is_a_number_or_a_kind_refusal(quantity, text):
    found = []
    try:
        TypeAdapter(q.field_type(quantity, float)).validate_python(text)
    except ValidationError as error:
        found = error.errors()
    assert all(item["type"] == "unit" for item in found)


@pytest.mark.parametrize(
    ("quantity", "largest", "more"),
    [
        (q.RATE, "1000 Pb/s", "1001 Pb/s"),
        (q.SIZE, "9223372036854775807 B", "9300000000 GB"),  # 64 bits with a sign
        (q.TIME, "106 days", "107 days"),  # the same in picoseconds
        (q.COUNT, 9_007_199_254_740_992, 9_007_199_254_740_994),  # integers that a float has all of: 2^53
        (q.YEARS, "100 years", "101 years"),
        (q.RATIO, 1_000_000, 1_000_001),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_the_largest_value_is_taken(quantity, largest, more):
    assert quantity.read(largest) > 0
    with pytest.raises(q.InputError, match="is at most"):
        quantity.read(more)


def test_plain_values_are_not_bent():
    for kind, wrong in (
        (q.Natural, True),
        (q.Natural, "12"),
        (q.Natural, 1.5),
        (q.Flag, 1),
        (q.Text, 405),
        (q.Number, "1"),
    ):
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(wrong)
