"""KV cache over links, against what can be worked out by hand. Random cases: test_fluid.py."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.engine.serving import Cost, CrossTraffic, Deployment, Links, Pool, Router, Store, Transfers, simulate

from .columns import hashed, rows

S = 10**12
MS = 10**9
BYTES = 1000.0
"""Of a token: one of 1,000 tokens is 8 Mbit."""
PREFILL = Cost(np.array([0, 8192]), np.array([0.0, 8.192]), np.zeros(2))
"""A millisecond a token."""
DECODE = Cost.constant(1e-3)


def ways(rate_bps, table, latency_ps=0):
    """`table`: (from, to, {link: share})."""
    counts = [len(uses) for _, _, uses in table]
    return Links(
        np.asarray(rate_bps, np.float64),
        np.array([a for a, _, _ in table], np.int32),
        np.array([b for _, b, _ in table], np.int32),
        np.concatenate(([0], np.cumsum(counts))),
        np.array([link for _, _, uses in table for link in uses], np.int32),
        np.array([share for _, _, uses in table for share in uses.values()]),
        np.full(len(table), latency_ps, np.int64),
    )


def apart(links, prefills=1, decodes=1, overlap=0.0, background=None, **changed):
    first = Pool("p", PREFILL, prefills, "prefill", kv_bytes_per_token=BYTES, **changed)
    second = Pool("d", DECODE, decodes, "decode", kv_bytes_per_token=BYTES)
    return Deployment(
        (first, second),
        Router("round-robin"),
        Router("round-robin"),
        links,
        background or CrossTraffic(),
        Transfers(overlap),
    )


def background(link, cap_bps, weight=1.0, from_ps=0, to_ps=1000 * S):
    return CrossTraffic(
        np.array([from_ps]), np.array([to_ps]), np.array([0, 1]), np.array([link], np.int32), np.ones(1),
        np.array([cap_bps]), np.array([weight]),
    )  # fmt: skip


def times_s(run, row=0):
    names = ("first_token_ps", "transfer_start_ps", "transfer_end_ps")
    return np.array([run.column(name)[row] for name in names]) / S


def test_one_flow_takes_latency_and_bytes_over_the_slowest_link():
    links = ways([100e6, 8e6, 1e9], [(0, 1, {0: 1.0, 1: 1.0, 2: 1.0})], latency_ps=7 * MS)
    run = simulate(rows([0], [1000], [3]), apart(links))
    assert times_s(run) == pytest.approx([1.0, 1.0, 2.007], abs=2e-12)
    assert run.end_ps[0] / S == pytest.approx(2.007 + 2 * 1e-3, abs=2e-12)
    assert run.table("links")["bytes"] == pytest.approx([1e6] * 3)


def test_the_share_is_wire_bytes_per_byte_so_that_headers_and_several_nics_count():
    """Three NICs with a third each, one of them half as fast, and headers of 5 %."""
    third = 1.05 / 3
    links = ways([8e6, 8e6, 4e6], [(0, 1, {0: third, 1: third, 2: third})])
    run = simulate(rows([0], [1000], [2]), apart(links))
    assert times_s(run)[2] == pytest.approx(1.0 + 8e6 * third / 4e6, abs=2e-12)
    assert run.table("links")["bytes"] == pytest.approx([1e6 * third] * 3)


def test_two_flows_on_a_link_take_half_each():
    """The shorter ends first, then the longer has all: 500 tokens beside 1,000, on 8 Mbit/s."""
    links = ways([8e6], [(a, 2, {0: 1.0}) for a in (0, 1)])
    run = simulate(rows([0, 500 * MS], [1000, 500], [2, 2]), apart(links, prefills=2))
    assert run.column("transfer_start_ps").tolist() == [S, S]
    assert run.column("transfer_end_ps") / S == pytest.approx([1 + 1.5, 1 + 1.0], abs=4e-12)


def test_max_min_gives_the_unbound_what_the_bound_leave():
    """A over links 0 and 1, B over 0, C over 1: A and C share link 1 (4 Mbit/s), B has the rest of link 0 (10)."""
    table = [(0, 3, {0: 1.0, 1: 1.0}), (1, 3, {0: 1.0}), (2, 3, {1: 1.0})]
    run = simulate(rows([0, 0, 0], [1000] * 3, [2] * 3), apart(ways([10e6, 4e6], table), prefills=3))
    ends = run.column("transfer_end_ps") / S - 1
    # A and C at 2 Mbit/s each and B at 8; B is through after 1 s, A and C go on at 2
    assert ends == pytest.approx([4.0, 1.0, 4.0], abs=4e-12)
    assert run.table("links")["bytes"] == pytest.approx([2e6, 2e6])


def test_other_traffic_takes_its_part_by_weight_and_no_more_than_it_asks_for():
    links = ways([12e6], [(0, 1, {0: 1.0})])
    for cap, weight, left in [(1e12, 1.0, 6e6), (1e12, 2.0, 4e6), (1e12, 0.5, 8e6), (3e6, 2.0, 9e6)]:
        run = simulate(rows([0], [1000], [2]), apart(links, background=background(0, cap, weight)))
        assert times_s(run)[2] == pytest.approx(1 + 8e6 / left, abs=4e-12)


def test_other_traffic_counts_from_when_it_begins_until_it_ends():
    """8 Mbit at 8 Mbit/s; from 0.25 s to 0.75 s of them at half of that: a quarter of a second later."""
    links = ways([8e6], [(0, 1, {0: 1.0})])
    other = background(0, 1e12, from_ps=1250 * MS, to_ps=1750 * MS)
    run = simulate(rows([0], [1000], [2]), apart(links, background=other))
    assert times_s(run)[2] == pytest.approx(1 + 1.25, abs=4e-12)
    assert run.table("links")["bytes"] == pytest.approx([1e6 + 0.25e6], rel=1e-9)


@pytest.mark.parametrize(
    ("rate_bps", "overlap", "end_s"),
    [
        (16e6, 0.0, 1.5),  # all of it afterwards
        (16e6, 0.5, 1.25),  # half of it was there by 0.25 s, the rest follows
        (16e6, 1.0, 1.0),  # nothing is left when the prefill is over ...
        (4e6, 1.0, 2.0),  # ... unless the link is slower than the prefill
        (4e6, 0.75, 2.0),  # that part is still under way when the rest joins it
        (4e6, 0.25, 1.0 + 1.5),  # the first part was through at 0.5 s; 6 of 8 Mbit are left
    ],
)
def test_layers_flow_while_the_prefill_runs(rate_bps, overlap, end_s):
    links = ways([rate_bps], [(0, 1, {0: 1.0})])
    run = simulate(rows([0], [1000], [2]), apart(links, overlap=overlap))
    begin = 0 if overlap else S
    assert run.column("transfer_start_ps")[0] == begin
    assert run.column("transfer_end_ps")[0] / S == pytest.approx(end_s, abs=4e-12)
    assert run.table("links")["bytes"] == pytest.approx([1e6])


def test_the_source_holds_its_blocks_until_the_last_byte_has_left():
    """Room for one prompt: the next one starts when the transfer is over, though the replica has nothing to do."""
    links = ways([8e6], [(0, 1, {0: 1.0})], latency_ps=50 * MS)
    run = simulate(rows([0, 0], [1000, 1000], [2, 2]), apart(links, kv_blocks=63))
    assert run.column("prefill_start_ps")[1] / S == pytest.approx(2.0, abs=2e-12)
    ample = simulate(rows([0, 0], [1000, 1000], [2, 2]), apart(links))
    assert ample.column("prefill_start_ps")[1] < S


def test_the_store_is_read_over_links_where_there_is_a_way():
    """8 units of 16 tokens are loaded for the second prompt, at what other traffic leaves of 16 Mbit/s."""
    made = hashed(rows([0, 10 * S], [136, 136], [1, 1]), [list(range(8)), list(range(8))], 16)
    one = Pool("x", PREFILL, 2, prefix_cache=True, kv_bytes_per_token=BYTES)
    links = ways([16e6], [(-1, 1, {0: 1.0})], latency_ps=3 * MS)
    other = background(0, 4e6)
    run = simulate(made, Deployment((one,), links=links, background=other, store=Store(1e9, 1.0)))
    loads = 128 * BYTES * 8 / 12e6 + 0.003
    assert run.column("loaded_tokens").tolist() == [0, 128]
    assert run.column("first_token_ps")[1] / S == pytest.approx(10 + loads + 0.008, abs=1e-11)
    assert run.column("admitted_ps")[1] == 10 * S
    assert run.table("links")["bytes"][0] == pytest.approx(128e3 + 4e6 / 8 * run.meta["end_ps"] / S, rel=1e-9)
