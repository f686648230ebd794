"""Pools on networks of their own and the gateway between: times in closed form, contention, bill, what is refused."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from railyard.face import api
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.study.study import prepare

PROMPT = 16000
CACHED_BYTES = PROMPT * 32 * 8 * 128 * 2 * 2
"""Of the prompt, Llama 3.1 8B: layers x heads x dimension x both x 2 bytes."""
BASE = {
    "name": "two networks",
    "cluster": {
        "accelerators": 16,
        "server": "hgx-h100",
        "back_end": {"topology": "rail-optimized", "fabric": "ideal"},
    },
    "workload": {
        "serving": {
            "model": "llama-3.1-8b",
            "requests": {"synthetic": {"arrivals": "fixed", "rate": 0.1, "input": PROMPT, "output": 2, "count": 4}},
            "pools": {
                "prefill": {"replicas": 2, "tp": 8},
                "decode": {
                    "replicas": 1,
                    "tp": 8,
                    "server": "hgx-h200",
                    "network": {"topology": "leaf-spine", "fabric": "ideal"},
                },
            },
            "gateway": {"links": 8, "rate": "400 Gb/s"},
        }
    },
}


def changed(**serving):
    """The scenario with other keys of the workload; pools are merged, None leaves out."""
    found = copy.deepcopy(BASE)
    inner = found["workload"]["serving"]
    for key, value in serving.items():
        if key in ("prefill", "decode"):
            inner["pools"][key] = {**inner["pools"][key], **value}
            inner["pools"][key] = {name: one for name, one in inner["pools"][key].items() if one is not None}
        elif value is None:
            inner.pop(key)
        else:
            inner[key] = value
    return found


def serve(**serving):
    """The serving object of the only variant."""
    return api.run(changed(**serving), out=None).result.plain()["variants"][0]["serving"]


def moved(**serving):
    """Mean time of the keys and values on their way, s."""
    return serve(**serving)["ttft_parts"]["mean"]["transfer_s"]


def test_the_gateway_bounds_what_crosses_it():
    """Two links of 100 Gb/s: bytes over 200 Gb/s; eight as fast as the NICs: as within one network, nearly."""
    narrow = moved(gateway={"links": 2, "rate": "100 Gb/s"})
    assert narrow == pytest.approx(8 * CACHED_BYTES / 200e9, rel=0.01)
    wide = moved()
    assert 8 * CACHED_BYTES / 3200e9 < wide < 1.15 * 8 * CACHED_BYTES / 3200e9


def test_latency_of_the_gateway():
    """Comes once on top."""
    slow = moved(gateway={"links": 8, "rate": "400 Gb/s", "latency": "250 ms"})
    assert slow - moved() == pytest.approx(0.25, abs=1e-4)


def test_transfers_share_the_gateway():
    """Both replicas at once over one link: each has half of it; their own networks are idle beside it."""
    (job,) = prepare(load.from_values(changed(gateway={"links": 1, "rate": "50 Gb/s"})))
    links = job.deployment.links
    load_of = np.bincount(links.link, weights=links.share, minlength=len(links.rate_bps))
    busiest = int((load_of / links.rate_bps).argmax())
    assert job.networks.name(busiest)[1] == "gateway"
    assert load_of[busiest] == pytest.approx(2.0)
    names = {job.networks.name(int(link)) for link in np.unique(links.link)}
    assert any(name.startswith("decode: ") for name, _ in names)
    assert {"gateway link 0 from the cluster", "gateway link 0 to decode"} <= {name for name, _ in names}
    # Two requests at the same time to two replicas, and the same requests far apart.
    drawn = {"arrivals": "fixed", "input": PROMPT, "output": 2, "count": 2}
    gateway = {"links": 1, "rate": "5 Gb/s"}
    alone = moved(gateway=gateway, requests={"synthetic": {**drawn, "rate": 0.01}})
    together = moved(gateway=gateway, requests={"synthetic": {**drawn, "rate": 1000.0}})
    assert alone == pytest.approx(8 * CACHED_BYTES / 5e9, rel=0.01)
    assert together == pytest.approx(2 * alone, rel=0.01)


def test_a_slow_network_behind_the_gateway():
    """NICs of 100 Gb/s on the other side are what bounds."""
    network = {"topology": "leaf-spine", "fabric": "infiniband", "link_rate": "100 Gb/s"}
    assert moved(decode={"network": network}) == pytest.approx(8 * CACHED_BYTES / 800e9, rel=0.1)


def test_paths_to_the_gateway_are_the_networks_own():
    """Hashed over leafs and spines some of the eight flows meet, split in four they meet less, sprayed as cells never.

    Cells have the NICs to themselves: 4096 of 4178 bytes of a packet are payload, sent at 98.7 %.
    """
    cluster = BASE["cluster"]
    found = {}
    for fabric in ("roce-untuned", "roce", "scheduled"):
        scenario = {**changed(), "cluster": {**cluster, "back_end": {"topology": "rail-optimized", "fabric": fabric}}}
        serving = api.run(scenario, out=None).result.plain()["variants"][0]["serving"]
        found[fabric] = serving["ttft_parts"]["mean"]["transfer_s"]
    assert found["roce-untuned"] > 1.3 * found["roce"]
    assert found["roce"] > 1.2 * found["scheduled"]
    assert found["scheduled"] == pytest.approx(8 * CACHED_BYTES / 3200e9 / (4096 / 4178 * 0.987), rel=0.01)


def test_all_nics_of_a_server_reach_the_gateway():
    """A replica of one accelerator sends over eight NICs, and takes over eight: an eighth of the time, nearly."""
    one = {"prefill": {"replicas": 2, "tp": 1}, "decode": {"tp": 1}}
    own, every = (moved(**one, transfer={"nic": nic}) for nic in ("own", "all"))
    assert own == pytest.approx(8 * CACHED_BYTES / 400e9, rel=0.1)
    assert 6 < own / every < 8.1


def test_servers_of_another_size_have_a_network_of_their_own():
    """72 accelerators to a domain beside eight to a server."""
    serving = serve(decode={"server": "gb200-nvl72", "replicas": 2})
    assert [pool["accelerator"] for pool in serving["pools"]] == ["h100-sxm", "gb200"]
    assert serving["throughput"]["accelerators"] == 32
    assert serving["requests"]["done"] == 4


def test_both_networks_are_bought():
    """Switches, servers and accelerators of the second come on top of the cluster's."""
    both = serve()["capex"]["total_usd"]["typical"]
    alone = changed(gateway=None, prefill={"replicas": 1}, decode={"server": None, "network": None})
    first = api.run(alone, out=None).result.plain()["variants"][0]["serving"]["capex"]["total_usd"]["typical"]
    assert both > 1.3 * first


def test_all_pools_elsewhere_leave_the_cluster_idle():
    """Whoever writes accelerators that no pool uses pays for them, and is told."""
    network = {"topology": "leaf-spine", "fabric": "roce"}
    result = api.run(changed(prefill={"network": network}), out=None).result.plain()
    assert any("16 accelerators" in line and "no pool" in line for line in result["provenance"]["defaults"])


@pytest.mark.parametrize(
    ("changes", "words", "key"),
    [
        ({"gateway": None}, "gateway: {links: 8, rate: 400 Gb/s}", "gateway"),
        ({"decode": {"network": None}}, "no pool has one of its own", "gateway"),
        (
            {"prefill": {"replicas": 1}, "decode": {"network": None, "server": "gb200-nvl72"}, "gateway": None},
            "`network` of the pool's own",
            "decode",
        ),
        ({"decode": {"replicas": None}}, "how many `replicas`", "decode.network"),
        ({"decode": {"network": {"topology": "rail-only"}}}, "gateways cannot be reached", "decode.network.topology"),
        ({"gateway": {"links": 100000, "rate": "400 Gb/s"}}, "with 100000 to the gateway", "gateway"),
        ({"gateway": {"links": 1, "rate": "0 Gb/s"}}, "must be at least 1 kb/s", "gateway.rate"),
        ({"decode": {"network": {"topology": "ring"}}}, "topology", "decode.network"),
        ({"decode": {"server": "hgx-h2000"}}, "did you mean", "decode"),
        ({"gateway": {"links": 0, "rate": "400 Gb/s"}}, "links", "gateway"),
        ({"gateway": {"links": 8, "rate": "400"}}, "unit", "gateway"),
        ({"model": "llama-3-405b"}, "fits: tp", "prefill"),
    ],
)
def test_what_is_refused(changes, words, key):
    """With its place and what would be right."""
    with pytest.raises(InputError) as caught:
        api.run(changed(**changes), out=None)
    assert words in str(caught.value)
    assert all(key in (problem.key or "") for problem in caught.value.problems)


# A store of keys and values on the memory pool: its rate is that of its links, and what cannot be is refused.


def job(pool, capacity="1 TB", accelerators=16):
    """A variant whose replicas read a store there."""
    requests = {"synthetic": {"arrivals": "fixed", "rate": 0.2, "input": 64, "output": 2, "system": 8000, "count": 4}}
    serving = {
        "model": "llama-3.1-8b",
        "requests": requests,
        "pools": {"both": {"replicas": accelerators // 8, "tp": 8}},
        "cache": {"store": {"capacity": capacity, "place": "memory_pool"}},
    }
    machine = {"accelerators": accelerators, "server": "hgx-h100", "memory_pool": pool}
    (found,) = prepare(load.from_values({"cluster": machine, "workload": {"serving": serving}}))
    return found


def rates(found):
    """Bytes a second of reads and writes of the first replica, alone."""
    links = found.deployment.links
    out = []
    for ends in (links.from_replica == -1, links.to_replica == -1):
        number = int(ends.nonzero()[0][0])
        span = slice(links.ptr[number], links.ptr[number + 1])
        out.append(float((links.rate_bps[links.link[span]] / links.share[span]).min()) / 8)
    return out


def test_a_replica_reads_and_writes_at_the_rate_of_its_links():
    """A box of 60 GB/s out and 30 in; a switch pool behind the server's x16 port of 63."""
    assert rates(job({"name": "cmm-b"})) == pytest.approx([60e9, 30e9])
    assert rates(job({"name": "cxl2-switch-pool"})) == pytest.approx([63e9, 63e9])
