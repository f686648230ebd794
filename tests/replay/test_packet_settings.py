import pytest

from railyard.engine.packet import CONSTANTS
from railyard.kit.errors import InputError
from railyard.work.scenario.packet import assign, fabric, names
from railyard.work.scenario.packet.settings import KEYS, PacketSettings, differences

BASE = PacketSettings()


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("congestion_control=rccc", "congestion_control", "rccc"),
        ("load_balancing=ecmp", "load_balancing", "ecmp"),
        ("link_rate=100Gb/s", "link_rate_bps", 100 * 10**9),
        ("link_latency=0.5 us", "link_latency_ps", 500_000),
        ("trim=false", "trim", False),
        ("pull_rate=0.9", "pull_rate", 0.9),
        ("pull_rate=90 %", "pull_rate", 0.9),
        ("start_unit=ps", "start_unit", "ps"),
        ("paths=128", "paths", 128),
        ("end=3 ms", "end_ps", 3 * 10**9),
    ],
)
def test_one_part_is_changed_and_nothing_else(text, name, value):
    assert differences(assign(BASE, [text]), BASE) == {name: value}


def test_every_preset_names_its_sources_and_what_it_leaves_out():
    for preset in map(fabric, names()):
        assert preset.sources
        assert preset.left_out
    with pytest.raises(InputError, match="did you mean"):
        fabric("uec-htsm")


def test_every_setting_has_a_key_but_those_that_the_run_decides():
    by_the_run = {name for name, one in CONSTANTS.items() if not one.key}
    assert by_the_run == {"base_rtt_ps", "failed_fraction", "oversubscription", "sample_ps"}
    other = {"seed", "failed_links", "faults", "sample_links", "sample_flows"}
    # `loss_recovery` is a word for `rdma_out_of_order`.
    assert len(set(KEYS) - {"loss_recovery"}) == len(set(PacketSettings.__dataclass_fields__) - by_the_run - other)
