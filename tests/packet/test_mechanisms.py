"""What every mechanism of the packet engine must keep to, by its record: ranges, keys, a run that ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from railyard.engine.packet import (
    CONSTANTS,
    MECHANISMS,
    Constant,
    Settings,
    Traffic,
    leaf_spine,
    names_of,
    run,
)
from railyard.errors import InputError
from railyard.scenario.packet.settings import KEYS, assign
from railyard.scenario.packet.settings import Settings as Said

if TYPE_CHECKING:
    from railyard.graph import Record

US = 10**6
NUMBERS = [one for one in CONSTANTS.values() if one.kind in ("integer", "number")]
RDMA = names_of("congestion_control", transport="rdma")
UEC = names_of("congestion_control", transport="uec")

ACTIVE = {
    "rdma": {"transport": "rdma", "rdma_control": "dcqcn", "rdma_notification": "packet", "ecn_low_packets": 5},
    "pfc": {"transport": "rdma", "switching": "pfc", "trim": False},
    "credit": {"transport": "rdma", "switching": "credit", "trim": False},
    "scheduled": {"transport": "rdma", "switching": "scheduled", "trim": False},
    "marking": {"transport": "uec", "switching": "pfc", "trim": False, "marking_low_bytes": 20_000},
    "eqds": {"transport": "eqds"},
    "ndp": {"transport": "ndp"},
    "rccc": {"congestion_control": "rccc"},
    **{name: {"transport": "rdma", "rdma_control": name, "rdma_notification": "packet"} for name in RDMA},
    **{name: {"load_balancing": name} for name in names_of("load_balancing")},
}
"""What makes a mechanism act in the small run."""


def incast(**settings: object) -> Record:
    """Eight hosts send 200 kB each to one of another leaf, one flow goes the other way, over two spines."""
    network = leaf_spine(16, leaf_hosts=8, spines=2, rate_bps=100 * 10**9)
    traffic = Traffic.of(16, [0, 1, 2, 3, 4, 5, 6, 7, 8], [8] * 8 + [0], 200_000, start_ps=[at * US for at in range(9)])
    base = {"queue_packets": 60, "ecn_low_packets": 10, "ecn_high_packets": 40, "rdma_rto_ps": 200 * US}
    return run(network, traffic, Settings(**{**base, **settings}))


def outside(one: Constant) -> list[float]:
    """Values just beyond the range."""
    step = 1 if one.kind == "integer" else 1e-9
    low = one.low if one.low_open else one.low - step
    high = one.high if one.high_open else one.high + max(step, abs(one.high) * 1e-9)
    kind = int if one.kind == "integer" else float
    return [kind(low), kind(high + (1 if one.kind == "integer" else 0))]


def test_every_mechanism_says_what_it_is_and_where_it_is_from() -> None:
    for one in MECHANISMS:
        assert one.summary.endswith("."), one.name
        assert one.sources, one.name
        assert all(constant.doc.endswith(".") for constant in one.constants), one.name


def test_names_and_keys_are_given_once() -> None:
    assert len(CONSTANTS) == sum(len(one.constants) for one in MECHANISMS)
    keys = [one.key for one in CONSTANTS.values() if one.key]
    assert len(keys) == len(set(keys))
    assert set(keys) <= set(KEYS)


@pytest.mark.parametrize("name", CONSTANTS)
def test_the_default_lies_in_the_range(name: str) -> None:
    CONSTANTS[name].check(CONSTANTS[name].default)
    assert getattr(Settings(), name) == CONSTANTS[name].default


@pytest.mark.parametrize("one", NUMBERS, ids=lambda one: one.name)
def test_a_number_out_of_range_is_refused_with_what_is_allowed(one: Constant) -> None:
    for value in outside(one):
        with pytest.raises(InputError) as refused:
            Settings(**{one.name: value})
        problem = refused.value.problems[0]
        assert problem.key == one.name
        assert problem.found == str(value)
        assert problem.allowed == one.allowed


@pytest.mark.parametrize("one", [one for one in NUMBERS if one.key], ids=lambda one: one.key)
def test_a_key_reads_its_own_default(one: Constant) -> None:
    if one.default is None:
        return
    unit = {"ps": " ps", "bps": " b/s"}.get(one.unit, "")
    if one.unit == "bps" and one.default < 10**6:
        return
    said = assign(Said(transport="rdma"), [f"{one.key}={one.default!r}{unit}"])
    assert getattr(said, one.name) == one.default


@pytest.mark.parametrize("name", RDMA)
def test_every_rate_control_ends_an_incast(name: str) -> None:
    found = incast(transport="rdma", rdma_control=name, rdma_notification="packet", trim=False)
    assert (found.end_ps >= 0).all()
    assert found.meta["packets"]["new"] == 9 * 49  # 200,000 bytes in payloads of 4,086
    assert found.column("receiver_finish_ps")[:8].max() * 100e9 / 8e12 > 8 * 200_000


@pytest.mark.parametrize("name", UEC)
def test_every_control_of_ultra_ethernet_ends_an_incast(name: str) -> None:
    found = incast(congestion_control=name)
    assert (found.end_ps >= 0).all()
    assert found.meta["packets"]["new"] == 9 * 49


@pytest.mark.parametrize("name", names_of("load_balancing"))
def test_every_load_balancer_ends_an_incast(name: str) -> None:
    found = incast(load_balancing=name)
    assert (found.end_ps >= 0).all()
    assert found.meta["packets"]["new"] == 9 * 49


def test_words_of_earlier_versions_are_refused_with_the_word_of_now() -> None:
    for old, now in (("single-path", "ecmp"), ("oblivious", "spray")):
        with pytest.raises(InputError, match=f"did you mean `{now}`"):
            Settings(load_balancing=old)
