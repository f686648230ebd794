"""What every mechanism of the packet engine must keep to, by its record: ranges, keys, a run that ends."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from railyard.engine.packet import (
    CONSTANTS,
    MECHANISMS,
    MechanismField,
    Settings,
    Traffic,
    leaf_spine,
    names_of,
    run,
)
from railyard.engine.packet.running import digest
from railyard.kit.errors import InputError
from railyard.work.scenario.packet.settings import KEYS, PacketSettings, assign

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

DEEP = {"size_bytes": 1_000_000, "queue_packets": 5_000, "ecn_low_packets": 20, "ecn_high_packets": 500}
for _name in RDMA:
    ACTIVE[_name] |= DEEP
ACTIVE["spectrum"] |= {
    "size_bytes": 2_000_000,
    "spectrum_threshold_ps": 3 * US,
    "spectrum_hyper_interval_ps": 40 * US,
    "spectrum_most_delay_ps": 150 * US,
}
ACTIVE["dcqcn"] |= {
    "dcqcn_increase_interval_ps": 5 * US,
    "dcqcn_fast_recovery": 1,
    "dcqcn_alpha_interval_ps": 5 * US,
}

VALUES = {
    "ecn_high_packets": 30,
    "paths": 32,
    "marking_low_bytes": 50_000,
    "pfc_buffer_bytes": 3_000_000,
    "dcqcn_byte_counter": 100_000,
    "dcqcn_min_rate_bps": 60e9,
    "dcqcn_least_kept": 0.9,
    "spectrum_most_increase": 1.0001,
    "spectrum_least_share": 0.9,
    "swift_least_packets": 30.0,
    "swift_most_packets": 2.0,
    "timely_base_rtt_ps": 300 * US,
}
"""What a constant is changed to where half or three times its default would not be felt."""

_STILL = "nothing stands still in the run"
_NO_LOSS = "nothing is lost for so long"
_NO_FAILURE = "no link fails"
RARE = {
    "eqds_timeout_ps": _NO_LOSS,
    "ndp_timeout_ps": _NO_LOSS,
    "swift_timeout_reset": _NO_LOSS,
    "rdma_nack_interval_ps": _NO_LOSS,
    "rdma_control_class": "switches without flow control know no classes",
    "control_class": "switches without flow control know no classes",
    "link_credit_high_limit": "no lane has high priority",
    "link_credit_reach_ps": "links of 1 us hold more than their round trip carries",
    "link_credit_watch_ps": _STILL,
    "pfc_watch_ps": _STILL,
    "pfc_stall_ps": _STILL,
    "pfc_xon_bytes": "refused without a fixed xoff",
    "pfc_xon_packets": "refused without a fixed xoff",
    "pfc_lossy_alpha": "every class is lossless",
    "scheduled_memory_bytes": "the memory never fills",
    "scheduled_reachability_ps": _NO_FAILURE,
    "reroute_ps": _NO_FAILURE,
    "failed_fraction": _NO_FAILURE,
    "sample_ps": "no link is sampled",
    "dcqcn_decrease_interval_ps": "notifications are further apart",
    "dcqcn_hyper_bps": "both counters never pass fast recovery together",
    "swift_host_target_ps": "hosts take no time",
    "timely_hyper_after": "increases in a row are at line rate",
    "timely_hyper_steps": "increases in a row are at line rate",
}
"""Constants that only special situations feel, and why the small run does not."""


def other(one: MechanismField) -> float:
    """Another value of a constant."""
    if one.name in VALUES:
        return VALUES[one.name]
    if one.default is None or one.default == 0:
        return {"ps": 7 * US, "bytes": 20_000, "packets": 7, "bps": 1e9}.get(
            one.unit, 1 if one.kind == "integer" else 0.5
        )
    if one.kind == "integer":
        return one.default * 3 if one.default * 3 <= one.high else max(one.default // 3, int(one.low))
    return one.default / 2 if one.low < one.default / 2 else min(one.default * 1.5, one.high)


def incast(size_bytes: int = 200_000, **settings: object) -> Record:
    """Eight hosts send as much each to one of another leaf, one flow goes the other way, over two spines."""
    network = leaf_spine(16, leaf_hosts=8, spines=2, rate_bps=100 * 10**9)
    traffic = Traffic.of(
        16, [0, 1, 2, 3, 4, 5, 6, 7, 8], [8] * 8 + [0], size_bytes, start_ps=[at * US for at in range(9)]
    )
    base = {"queue_packets": 60, "ecn_low_packets": 10, "ecn_high_packets": 40, "rdma_rto_ps": 200 * US}
    return run(network, traffic, Settings(**{**base, **settings}))


@cache
def usual(mechanism: str) -> str:
    """The digest of the run in which a mechanism acts with its defaults."""
    return digest(incast(**ACTIVE.get(mechanism, {})))


def outside(one: MechanismField) -> list[float]:
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
def test_a_number_out_of_range_is_refused_with_what_is_allowed(one: MechanismField) -> None:
    for value in outside(one):
        with pytest.raises(InputError) as refused:
            Settings(**{one.name: value})
        problem = refused.value.problems[0]
        assert problem.key == one.name
        assert problem.found == str(value)
        assert problem.allowed == one.allowed


@pytest.mark.parametrize("one", [one for one in NUMBERS if one.key], ids=lambda one: one.key)
def test_a_key_reads_its_own_default(one: MechanismField) -> None:
    if one.default is None:
        return
    unit = {"ps": " ps", "bps": " b/s"}.get(one.unit, "")
    if one.unit == "bps" and one.default < 10**6:
        return
    said = assign(PacketSettings(transport="rdma"), [f"{one.key}={one.default!r}{unit}"])
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


@pytest.mark.parametrize("one", [one for one in NUMBERS if one.name not in RARE], ids=lambda one: one.name)
def test_a_constant_changes_what_its_mechanism_does(one: MechanismField) -> None:
    changed = incast(**{**ACTIVE.get(one.mechanism, {}), one.name: other(one)})
    assert digest(changed) != usual(one.mechanism)


def test_words_of_earlier_versions_are_refused_with_the_word_of_now() -> None:
    for old, now in (("single-path", "ecmp"), ("oblivious", "spray")):
        with pytest.raises(InputError, match=f"did you mean `{now}`"):
            Settings(load_balancing=old)
