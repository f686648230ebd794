"""TE-CCL's published finishes: which of them a schedule can have, and what ours are beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railyard_validation.synthesis import Published, Row, compared, published

NDV2 = Published("ndv2", "2", "all-to-all", "1MB", 290.0, 1.25)


def row(**changes: float) -> Row:
    plain = Row("ndv2", "2", "all-to-all", "1MB", 62_500.0, 330.0, 325.0, 321.3, 320.0, 1.25, sound=True)
    return replace(plain, **changes)


@pytest.mark.parametrize(
    ("published_us", "epoch_us", "group"),
    [(330.0, 1.25, "compared"), (321.3, 1.25, "compared"), (320.5, 20.0, "rounded"), (320.5, 1.25, "unexplained"),
     (319.0, 20.0, "unexplained")],
)  # fmt: skip
def test_what_a_published_finish_is(published_us, epoch_us, group):
    assert row(published_us=published_us, epoch_us=epoch_us).group == group


def test_the_row_that_no_schedule_can_have_by_hand():
    """Eight ranks send 1/16 of 1 MB to each of eight others over one link of 12.5 GB/s, whose latency is 1.3 us."""
    (found,) = compared([NDV2])
    assert found.pair_bytes == 62_500
    assert found.lower_bound_us == pytest.approx(64 * 62_500 / 12.5e3 + 1.3)
    assert found.rates_us == pytest.approx(320.0)
    assert found.group == "unexplained"
    assert found.finish_us == pytest.approx(found.lower_bound_us, rel=0.02)


def test_every_size_of_the_table_is_there_once():
    rows = published()
    assert len(rows) == 33
    assert next(one.finish_us for one in rows if (one.collective, one.size) == ("all-to-all", "1MB")) == 290.0


@pytest.mark.slow
def test_ours_is_as_good_wherever_a_schedule_can_be():
    rows = compared(published())
    groups = [one.group for one in rows]
    assert (groups.count("compared"), groups.count("rounded"), groups.count("unexplained")) == (21, 4, 8)
    assert all(one.sound for one in rows)
    assert all(one.finish_us <= one.published_us for one in rows if one.group == "compared")
    assert all(one.finish_us <= 1.01 * one.published_us for one in rows if one.group == "rounded")
