"""Ways of keys and values between replicas: which NICs they leave by, and how fast that is, in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.face import api
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.study.study import prepare

BASE = {
    "name": "apart",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {
        "serving": {
            "model": "llama-3.1-8b",
            "requests": {"synthetic": {"arrivals": "fixed", "rate": 0.2, "input": 16000, "output": 2, "count": 5}},
            "pools": {"prefill": {"replicas": 1, "tp": 8}, "decode": {"replicas": 1, "tp": 8}},
        }
    },
}
COPIES = {"prefill": {"replicas": 1, "dp_attention": 8}, "decode": {"replicas": 1, "dp_attention": 8}}
SINGLE = {"prefill": {"replicas": 8}, "decode": {"replicas": 8}}


def changed(**serving):
    """The scenario with other keys of the workload."""
    others = {"cluster": BASE["cluster"], "name": BASE["name"]}
    return {**others, "workload": {"serving": {**BASE["workload"]["serving"], **serving}}}


def moved(scenario):
    """Mean time of the keys and values on their way, s."""
    serving = api.run(scenario, out=None).result.plain()["variants"][0]["serving"]
    return serving["ttft_parts"]["mean"]["transfer_s"]


def job_of(scenario):
    """One variant, ready to run."""
    (job,) = prepare(load.from_values(scenario))
    return job


def way(job, number):
    """Links of a way, their tiers, and the rate that it reaches alone, bit/s."""
    links = job.deployment.links
    span = slice(links.ptr[number], links.ptr[number + 1])
    table = job.cluster.links
    tiers = {table.tiers[table.tier[link]] for link in links.link[span]}
    return links.link[span], tiers, float((links.rate_bps[links.link[span]] / links.share[span]).min())


def test_a_request_leaves_by_the_nics_of_its_copy():
    """Alone with one of eight copies it has an eighth of the NICs, and takes eight times as long."""
    assert moved(changed(pools=COPIES)) == pytest.approx(8 * moved(BASE), rel=0.02)


def test_copies_take_turns():
    """Every NIC carries the same when each copy has sent as often."""
    links = job_of(changed(pools=COPIES)).deployment.links
    assert len(links.from_replica) == 8
    sent = np.bincount(links.link, weights=links.share)
    assert np.ptp(sent[sent > 0]) < 1e-9
    drawn = {"synthetic": {"arrivals": "fixed", "rate": 0.2, "input": 16000, "output": 2, "count": 16}}
    serving = api.run(changed(pools=COPIES, requests=drawn), out=None).result.plain()["variants"][0]["serving"]
    loads = [link["utilization"] for link in serving["links"] if link["tier"] == "nic"]
    assert len(loads) == 8
    assert np.ptp(loads) < 1e-9


def test_copies_of_two_sizes_meet_in_all_pairings():
    """Two copies on one side and eight on the other: eight ways, each sender's copy in four of them."""
    pools = {"prefill": {"replicas": 1, "tp": 4, "dp_attention": 2}, "decode": {"replicas": 1, "dp_attention": 8}}
    job = job_of(changed(pools=pools))
    rates = [way(job, number)[2] for number in range(len(job.deployment.links.from_replica))]
    assert len(rates) == 8
    # Four ranks send to the one that has the copy: its NIC is what bounds them.
    assert rates == pytest.approx([rates[0]] * 8)


def test_own_rail_and_all_nics():
    """One accelerator to one of another rail: over the spine; over the peer's NIC; eight times as fast up to NVLink."""
    nine = {}
    for nic in ("own", "rail", "all"):
        job = job_of(changed(pools=SINGLE, transfer={"nic": nic}))
        links = job.deployment.links
        number = int(np.flatnonzero((links.from_replica == 0) & (links.to_replica == 9))[0])
        nine[nic] = way(job, number)
    assert "scale-up" not in nine["own"][1]
    assert any("spine" in tier for tier in nine["own"][1])
    assert "scale-up" in nine["rail"][1]
    assert not any("spine" in tier for tier in nine["rail"][1])
    goodput = 400e9 * 0.9
    assert goodput < nine["own"][2] <= 400e9
    assert nine["own"][2] <= nine["rail"][2] <= 400e9
    assert "scale-up" in nine["all"][1]
    # 7/8 of the bytes cross the sender's NVLink (3.6 Tb/s), an eighth each NIC (400 Gb/s): 3.2 Tb/s less headers.
    assert 6 * nine["rail"][2] < nine["all"][2] <= 8 * nine["rail"][2] * (1 + 1e-9)


def test_shared_nics_are_contended():
    """All eight accelerators of a server at once over all NICs are no faster than each over its own."""
    total = {}
    for nic in ("own", "all"):
        links = job_of(changed(pools=SINGLE, transfer={"nic": nic})).deployment.links
        same = links.to_replica == links.from_replica + 8
        load = np.zeros(len(links.rate_bps))
        for number in np.flatnonzero(same):
            span = slice(links.ptr[number], links.ptr[number + 1])
            np.add.at(load, links.link[span], links.share[span])
        total[nic] = 1 / (load / links.rate_bps).max()
    assert total["all"] == pytest.approx(total["own"], rel=0.05)


def test_rails_that_do_not_meet():
    """On a rail-only network another rail is reached by scale-up, or not at all."""
    scenario = changed(pools=SINGLE, transfer={"nic": "own"})
    scenario["cluster"] = {**scenario["cluster"], "back_end": {"topology": "rail-only", "fabric": "roce"}}
    with pytest.raises(InputError) as caught:
        job_of(scenario)
    assert "transfer.nic" in str(caught.value)
    scenario["workload"]["serving"]["transfer"] = {"nic": "rail"}
    assert job_of(scenario).deployment.links is not None


def test_replicas_of_a_pool_reach_one_another_where_prefixes_move():
    pools = {"prefill": {"replicas": 3, "tp": 2}, "decode": {"replicas": 2, "tp": 2}}
    links = job_of(changed(pools=pools, router={"kind": "prefix", "move": True})).deployment.links
    pairs = set(zip(links.from_replica.tolist(), links.to_replica.tolist(), strict=True))
    between = {(a, b) for a in range(3) for b in (3, 4)}
    assert pairs == between | {(a, b) for a in range(3) for b in range(3) if a != b}
    plain = job_of(changed(pools=pools)).deployment.links
    assert set(zip(plain.from_replica.tolist(), plain.to_replica.tolist(), strict=True)) == between
    for number in range(len(plain.from_replica)):
        here, there = (slice(one.ptr[number], one.ptr[number + 1]) for one in (plain, links))
        assert plain.link[here].tolist() == links.link[there].tolist()
        assert plain.share[here].tolist() == links.share[there].tolist()


def test_a_large_pool_exchanges_in_groups(monkeypatch):
    monkeypatch.setattr("railyard.work.serving.links._MOST_LANES", 8 * 3 * 2)
    links = job_of(
        changed(pools={"both": {"replicas": 8, "tp": 2}}, router={"kind": "prefix", "move": True})
    ).deployment.links
    pairs = sorted(zip(links.from_replica.tolist(), links.to_replica.tolist(), strict=True))
    assert pairs == [(a, b) for a in range(8) for b in range(8) if a != b and a // 3 == b // 3]


def test_collectives_across_servers_use_the_nics_of_all_ranks():
    """Eight NICs of each of two servers out and in, a sixteenth of the bytes on each, with headers; none inside one."""
    pools = {"prefill": {"replicas": 1, "tp": 16}, "decode": {"replicas": 2, "tp": 8}}
    scenario = changed(pools=pools)
    scenario["cluster"] = {**scenario["cluster"], "accelerators": 32}
    job = job_of(scenario)
    links = job.deployment.links
    assert np.diff(links.collective_ptr).tolist() == [32, 0, 0]
    tiers = {job.cluster.links.tiers[job.cluster.links.tier[link]] for link in links.collective_link}
    assert tiers == {"nic"}
    payload = job.cluster.fabric.payload_efficiency
    assert links.collective_share == pytest.approx(np.full(32, 1 / 16 / payload))
    alone = float((links.rate_bps[links.collective_link] / links.collective_share).min())
    assert job.deployment.pools[0].cost.scale_out_bps <= alone
    assert len(job_of(changed()).deployment.links.collective_ptr) == 0


STORED = {
    **BASE["cluster"],
    "front_end": {"topology": "leaf-spine"},
    "storage": {"name": "nvme-file-server", "servers": 2, "network": "front_end"},
}


def test_a_store_on_the_clusters_storage_is_read_and_written_over_its_links():
    scenario = changed(cache={"store": {"capacity": "1 TiB", "place": "storage"}})
    scenario["cluster"] = STORED
    job = job_of(scenario)
    links = job.deployment.links
    for source, target in ((-1, 0), (-1, 1), (0, -1), (1, -1)):
        (number,) = np.flatnonzero((links.from_replica == source) & (links.to_replica == target))
        tiers, rate = way(job, int(number))[1:]
        assert any("storage" in tier for tier in tiers)
        assert 0 < rate < 2 * 400e9
    with pytest.raises(InputError, match="no storage"):
        job_of(changed(cache={"store": {"capacity": "1 TiB", "place": "storage"}}))
    with pytest.raises(InputError, match="rate"):
        job_of(changed(cache={"store": {"capacity": "1 TiB"}}))


def test_weights_come_from_where_the_scenario_says():
    """Alone from storage; from peers also between the replicas of a pool that decodes; from disks over no link."""
    pools = {"prefill": {"replicas": 1, "tp": 2}, "decode": {"replicas": 3, "tp": 2, "autoscale": {}}}
    found = {}
    for source in ("disk", "storage", "peer"):
        pools["decode"]["autoscale"] = {"load_from": source}
        scenario = changed(pools=pools)
        scenario["cluster"] = STORED
        links = job_of(scenario).deployment.links
        found[source] = set(zip(links.from_replica.tolist(), links.to_replica.tolist(), strict=True))
    between = {(0, b) for b in (1, 2, 3)}
    storage = {(-2, b) for b in range(4)}
    assert found["disk"] == between
    assert found["storage"] == between | storage
    assert found["peer"] == between | storage | {(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b}


def test_an_update_waits_for_its_weights():
    """Weights over a disk's rate are part of being away; from storage they take the time of a flow."""
    rows = [
        {"replica": 0, "start": "1 s", "end": "2 s", "drain": True, "load_from": source}
        for source in ("disk", "storage")
    ]
    for row in rows:
        scenario = changed(pools={"both": {"replicas": 2, "tp": 8}}, outages=[row])
        scenario["cluster"] = STORED
        job = job_of(scenario)
        weights = job.costs[0].weight_bytes
        away = (job.deployment.outages.to_ps - job.deployment.outages.from_ps)[0] / 1e12
        assert job.deployment.pools[0].weight_bytes == weights
        if row["load_from"] == "disk":
            assert away == pytest.approx(1 + 8 * weights / 8 / 5e10)
            continue
        assert away == 1
        run = job.run(job.requests)
        rate = way(job, int(np.flatnonzero(job.deployment.links.from_replica == -2)[0]))[2]
        assert run.table("replicas")["load_ps"][0] / 1e12 == pytest.approx(8 * weights / rate, rel=0.01)
