"""Serving scenarios: the whole path at a small size, closed forms of it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from railyard import catalog
from railyard.face import api
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.serving.costing import pass_share
from railyard.work.serving.figures import _queues_grow, computed_again
from railyard.work.serving.software import DeviceProfile, profile, written
from railyard.work.study.study import prepare

BASE = {
    "name": "small",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {
        "serving": {
            "model": "llama-3.1-8b",
            "requests": {"synthetic": {"rate": 5, "input": {"mean": 800, "p99": 4000}, "output": 60, "count": 200}},
            "pools": {"both": {"replicas": 4, "tp": 2}},
            "slo": {"ttft": "1 s", "tpot": "50 ms"},
        }
    },
}


def run(overrides=None, **others):
    """The result's variants."""
    changes = {f"workload.serving.{key}": value for key, value in (overrides or {}).items()}
    return api.run(BASE, overrides={**changes, **others}, out=None).result.plain()["variants"]


def one(overrides=None, **others):
    """The serving object of the only variant."""
    return run(overrides, **others)[0]["serving"]


APART = {"pools": {"prefill": {"replicas": 2, "tp": 2}, "decode": {"replicas": 2, "tp": 2}}}


@pytest.mark.parametrize("pools", [{}, APART], ids=["together", "apart"])
def test_parts_of_the_first_token_add_up(pools):
    """At every percentile."""
    serving = one(pools)
    assert serving["requests"]["done"] == 200
    for level, parts in serving["ttft_parts"].items():
        assert sum(parts.values()) == pytest.approx(serving["ttft_s"][level])
        assert min(parts.values()) >= 0
    moved = serving["ttft_parts"]["mean"]["transfer_s"]
    assert (moved > 0) == bool(pools)


def test_an_ideal_network_moves_keys_and_values_at_the_rate_of_the_nics():
    """One request at a time: bytes over rate plus the latency of the way; 20 % for headers and protocol."""
    many = {"requests.synthetic": {"arrivals": "fixed", "rate": 0.2, "input": 8000, "output": 2, "count": 5}}
    serving = one({**APART, **many}, **{"cluster.back_end.fabric": "ideal", "cluster.placement": "packed"})
    # Llama 3.1 8B: 32 layers x 8 heads x 128 x 2 x 2 bytes; both pools lie in one server, so the way is NVLink.
    size = 8000 * 32 * 8 * 128 * 2 * 2
    moved = serving["ttft_parts"]["mean"]["transfer_s"]
    assert size / 2 / 450e9 * 0.9 <= moved <= size / 2 / 100e9


def test_a_slower_network_moves_keys_and_values_slower():
    """Pools on two servers: a quarter of the rate is four times the transfer."""
    pools = {"pools": {"prefill": {"replicas": 1, "tp": 8}, "decode": {"replicas": 1, "tp": 8}}}
    many = {"requests.synthetic": {"arrivals": "fixed", "rate": 0.2, "input": 16000, "output": 2, "count": 5}}
    moved = [
        one({**pools, **many}, **{"cluster.back_end.link_rate": rate})["ttft_parts"]["mean"]["transfer_s"]
        for rate in ("400 Gb/s", "100 Gb/s")
    ]
    assert moved[1] == pytest.approx(4 * moved[0], rel=0.1)


def test_input_and_output_share_the_dollars():
    """Prompt and answer tokens at their prices are the dollars of the hour; the parts of an hour add up."""
    serving = one()
    cost, slo = serving["cpmt"], serving["slo"]
    for end in ("low", "typical", "high"):
        sold = slo["goodput_input_tokens_per_s"] * cost["split_input"][end]
        sold += slo["goodput_output_tokens_per_s"] * cost["split_output"][end]
        assert sold * 3600 / 1e6 == pytest.approx(cost["usd_per_h"][end])
        assert sum(part[end] for part in cost["breakdown"]) == pytest.approx(cost["total"][end])
    power = serving["power"]
    assert power["it_w"]["typical"] < power["provisioned_w"]["typical"]


def test_cost_comes_from_what_was_answered_in_time():
    """A limit that nothing meets sells nothing; a looser one makes tokens cheaper."""
    assert one({"slo": {"ttft": "1 ms"}})["cpmt"] is None
    strict, loose = one({"slo": {"ttft": "60 ms"}}), one({"slo": {}})
    assert strict["slo"]["attainment"] < loose["slo"]["attainment"] == 1.0
    assert strict["cpmt"]["total"]["typical"] > loose["cpmt"]["total"]["typical"]


def test_the_same_seed_gives_the_same_run():
    """Bit by bit; another one another."""
    first, again, other = run()[0], run()[0], run(seed=1)[0]
    assert first == again
    assert first["digest"] != other["digest"]


def test_capacity_is_where_the_objective_turns():
    """At the rate found the objective is met, at the next one tried it is not."""
    serving = one({"capacity": {"first": 200}, "slo": {"ttft": "200 ms", "tpot": "50 ms"}})
    found = serving["capacity"]
    assert found["bounded"]
    for point in found["points"]:
        if point["rate_per_s"] > found["rate_per_s"]:
            assert point["attainment"] < 0.9
            break
    assert any(point["front"] for point in serving["pareto"])


def test_trials_of_few_requests_are_lengthened():
    """Answers of many tokens outlast 60 requests: as many a second last as with 4,000; answers of two outlast none."""
    long = {"rate": 5, "input": {"mean": 800, "p99": 4000}, "output": 400}
    found = []
    for count in (60, 4000):
        drawn = {"synthetic": {**long, "count": count}}
        found.append(run({"capacity": {"first": count}, "requests": drawn, "pools": {"both": {"replicas": 1}}})[0])
    short, full = (each["serving"]["capacity"] for each in found)
    assert short["rate_per_s"] == pytest.approx(full["rate_per_s"], rel=0.12)
    assert any("requests (the scenario's 60, repeated) instead of 60" in line for line in found[0]["warnings"])
    best = max((point for point in short["points"]), key=lambda point: point["requests"])
    assert 600 < best["requests"] <= 60 * 64
    brief = {"synthetic": {"rate": 5, "input": 8000, "output": 2, "count": 400}}
    whole = {"both": {"replicas": 8, "tp": 2}}
    assert run({"capacity": {"first": 400}, "requests": brief, "pools": whole})[0]["warnings"] == []


def test_a_long_end_of_a_run_is_told_from_an_overload():
    """Forty long answers begun at once, and prompts that wait."""
    many = {"rate": 20, "input": 200, "output": 4000, "count": 40}
    told = run({"requests": {"synthetic": many}})[0]["warnings"][-1]
    assert "the longest answers take that long" in told
    many = {"rate": 200, "input": 8000, "output": 2, "count": 300}
    told = run({"requests": {"synthetic": many}, "pools": {"both": {"replicas": 1}}})[0]["warnings"][-1]
    assert "queues grow as long as requests come, for the load is beyond what the deployment can serve" in told


def test_queues_grow_where_the_last_wait_for_far_longer_than_the_first():
    """Twenty requests in 19 s: waits up to 3.8 s, a fifth of each second; the same from first to last; and few."""
    late = 0.2 * np.arange(20)
    assert _queues_grow(SimpleNamespace(queue_s=late), 19.0)
    assert not _queues_grow(SimpleNamespace(queue_s=late), 40.0)
    assert not _queues_grow(SimpleNamespace(queue_s=np.full(20, 3.4)), 19.0)
    assert not _queues_grow(SimpleNamespace(queue_s=late[:4]), 19.0)


def test_requests_longer_than_the_model_takes_are_said():
    """Llama 2's context is 4,096 tokens: prompt and answer count together."""
    drawn = {"synthetic": {"arrivals": "fixed", "rate": 1, "input": 4000, "output": 96, "count": 20}}
    few = {"model": "llama-2-13b", "requests": drawn}
    assert not any("is made for" in line for line in run(few)[0]["warnings"])
    drawn["synthetic"] |= {"output": 97}
    assert any("20 of 20 requests are longer than the 4096 tokens" in line for line in run(few)[0]["warnings"])


def test_a_cache_that_is_too_small_is_said():
    """Answers that outgrow the cache push one another out, and their prompts are computed again."""
    drawn = {"rate": 20, "input": 8000, "output": 3000, "count": 60}
    pools = {"both": {"replicas": 1, "max_sequences": 60}}
    lines = run({"model": "qwen3-32b", "requests": {"synthetic": drawn}, "pools": pools, "slo": {}})[0]["warnings"]
    assert any("preemptions of 60 requests" in line and "max_sequences" in line for line in lines)
    pools["both"]["max_sequences"] = 2
    lines = run({"model": "qwen3-32b", "requests": {"synthetic": drawn}, "pools": pools, "slo": {}})[0]["warnings"]
    assert not any("preemptions" in line for line in lines)


@pytest.mark.parametrize("talks", [{}, {"turns": 3, "think": "1 s", "system": 160}])
def test_prompts_are_computed_once_where_nothing_is_preempted(talks):
    """What is not cached is computed, and nothing twice."""
    drawn = {"rate": 5, "input": 800, "output": 60, "count": 100, **talks}
    (job,) = prepare(load.from_values(BASE, {"workload.serving.requests": {"synthetic": drawn}}))
    found = job.run(job.requests)
    assert found.column("preemptions").sum() == 0
    assert computed_again(job.requests, found) == pytest.approx(0)
    computed = (job.requests.input_tokens - found.column("cached_tokens")).sum()
    assert found.table("replicas")["input_tokens"].sum() == computed


def test_guesses_are_never_free():
    """A pass of DeepSeek-V3's own layer is 11.5 of 671 G parameters, the head 0.9 (its README); others must say."""
    share = pass_share(catalog.load().model("deepseek-v3"))
    assert share == pytest.approx((11.5 + 0.93) / (671 - 0.93), rel=0.02)
    drawn = {"arrivals": "fixed", "rate": 0.5, "input": 500, "output": 200, "count": 20}
    changes = {"model": "deepseek-v3", "precision": "fp8", "requests.synthetic": drawn}
    known = {"tokens": 2, "acceptance": 0.8}
    taken = {}
    for name, guess in {"own": known, "free": {**known, "draft": "0 s"}, "slow": {**known, "draft": "20 ms"}}.items():
        pools = {"both": {"replicas": 1, "tp": 8, "pp": 2, "max_sequences": 64, "speculative": guess}}
        taken[name] = one({**changes, "pools": pools})["tpot_s"]["mean"]
    assert 1.01 * taken["free"] < taken["own"] < taken["slow"]
    with pytest.raises(InputError, match=r"pools\.both\.speculative\.draft.*no layer that guesses"):
        one({"pools": {"both": {"replicas": 4, "tp": 2, "speculative": known}}})


def test_rates_prices_and_watts_have_the_same_time():
    """A burst that is served long after its last arrival: nothing is busier than always, and the dollars add up."""
    serving = one({"requests.synthetic": {"rate": 200, "input": 4000, "output": 300, "count": 300}, "slo": {}})
    span_s = serving["throughput"]["span_s"]
    assert span_s > 3 * 300 / 200
    assert serving["slo"]["goodput_rps"] * span_s == pytest.approx(300)
    assert max(replica["busy"] for replica in serving["replicas"]) <= 1
    tokens = 300 * 4300
    dollars = serving["cpmt"]["usd_per_h"]["typical"] * span_s / 3600
    assert serving["cpmt"]["total"]["typical"] == pytest.approx(dollars / tokens * 1e6)


def test_accelerators_that_serve_nothing_are_said_and_paid():
    """The bill is the cluster's, throughput is of those that serve."""
    half, full = (run({"pools": {"both": {"replicas": count, "tp": 2}}})[0] for count in (4, 8))
    assert any("8 of 16 accelerators belong to no pool" in line for line in half["warnings"])
    assert full["warnings"] == []
    bills = [variant["serving"]["capex"]["total_usd"]["typical"] for variant in (half, full)]
    assert bills[0] == bills[1]


def test_pools_may_differ_in_their_accelerators():
    """Bill, power limit and iteration follow the pool's server."""
    pools = {"prefill": {"replicas": 1, "tp": 8}, "decode": {"replicas": 1, "tp": 8, "server": "hgx-h200"}}
    serving = one({"pools": pools})
    assert [pool["accelerator"] for pool in serving["pools"]] == ["h100-sxm", "h200-sxm"]
    plain = one({"pools": {"prefill": {"replicas": 1, "tp": 8}, "decode": {"replicas": 1, "tp": 8}}})
    assert serving["tpot_s"]["p50"] < plain["tpot_s"]["p50"]
    assert serving["capex"]["total_usd"]["typical"] > plain["capex"]["total_usd"]["typical"]


def test_a_pool_that_takes_what_remains_leaves_whole_servers_to_others():
    """Two servers: one for as many prompts as it holds, one for answers on accelerators of another kind."""
    serving = one({"pools": {"prefill": {"tp": 2}, "decode": {"replicas": 1, "tp": 2, "server": "hgx-h200"}}})
    assert [(pool["replicas"], pool["accelerator"]) for pool in serving["pools"]] == [(4, "h100-sxm"), (1, "h200-sxm")]


def test_an_overload_is_ended_and_said():
    """A queue that can never drain."""
    drawn = {"rate": 2000, "input": 4000, "output": 500, "count": 20000}
    variant = run({"requests": {"synthetic": drawn}, "pools": {"both": {"replicas": 1}}})[0]
    assert variant["serving"]["outcome"] == "overload"
    assert any("overload" in line for line in variant["warnings"])


def test_a_folder_holds_requests_and_a_trace(tmp_path):
    """Spans and arrows of the trace lie in time, and every request has its row."""
    finished = api.run(BASE, overrides={"workload.serving.pools": APART["pools"]}, out=tmp_path)
    table = finished.table("requests")
    assert len(table) == 200
    parts = table.select("queue_s", "transfer_s", "collectives_s", "compute_s").sum_horizontal()
    assert np.allclose(parts, table["ttft_s"])
    events = json.loads((finished.folder / "trace.json").read_text())["traceEvents"]
    assert {"X", "b", "e", "s", "f"} <= {event["ph"] for event in events}
    assert all(event.get("dur", 0) >= 0 for event in events)
    assert "TTFT" in repr(finished)
    assert finished.table("variants")["goodput_rps"][0] > 0
    found = api.explain(finished.folder, remedies=False)
    assert [row.pool for row in found.variant.serving.queues] == ["prefill", "decode"]
    assert found.to_json()["variant"] == found.variants[0] == "small"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"modle": "x"}, "did you mean `model`"),
        ({"router": "prefx"}, "did you mean `prefix`"),
        ({"software": "vlm"}, "did you mean `vllm`"),
        ({"pools": {"prefill": {}}}, "`prefill` and `decode` go together"),
        ({"pools": {"both": {"replicas": 9, "tp": 2}}}, "at most 8"),
        ({"pools": {"both": {"tp": 3}}}, "allowed: 1, 2, 4, 8"),
        ({"model": "mpt-125m", "pools": {"both": {"pp": 16}}}, "more than the 12 layers"),
        ({"pools": {"both": {"tp": 2, "ep": 2}}}, "no experts"),
        ({"pools": {"both": {"server": "gb200-nvl72"}}}, "servers of one network must be of one size"),
        ({"pools": {"both": {"block_tokens": 7}}, "requests.synthetic.turns": 2}, "a divisor of 16"),
        ({"requests": {}}, "either `trace` or `synthetic`"),
        ({"requests": {"trace": "nowhere.csv"}}, "no such trace file"),
        ({"model": "llama-3-70b", "pools": {"both": {}}}, "fits: tp"),
        ({"slo": {"ttft": "2"}}, "unit"),
        ({"slo": {"attainment": 2}}, "at most 1"),
        ({"outages": [{"replica": 9, "start": "1 s", "end": "2 s"}]}, "0 to 3"),
        ({"outages": [{"replica": 0, "start": "2 s", "end": "1 s"}]}, "ends before it begins"),
    ],
)
def test_what_is_refused(changes, words):
    """With its place and what would be right."""
    with pytest.raises(InputError) as caught:
        run(changes)
    assert words in str(caught.value)
    assert all("workload.serving" in (problem.key or "") for problem in caught.value.problems)


EXAMPLES = Path(__file__).parents[3] / "examples" / "serving"


def study(name, **changes):
    """The serving object of each variant of an example."""
    result = api.run(EXAMPLES / f"{name}.yaml", overrides=changes, out=None).result.plain()
    return {variant["name"]: variant["serving"] for variant in result["variants"]}


def test_routing_by_prefix_finds_what_is_cached():
    """On Mooncake's trace: most hits, earliest first tokens. Moving brings as much to a router that does not look."""
    found = study("locality")
    best, plain = found["router prefix"], found["router least-loaded"]
    moving = found.pop("least-loaded, move True")
    assert moving["kv"]["hit_rate"] + moving["kv"]["moved_rate"] > 0.8 * best["kv"]["hit_rate"]
    assert moving["ttft_s"]["p50"] < plain["ttft_s"]["p50"] / 3.5
    assert moving["ttft_parts"]["mean"]["transfer_s"] > 0 == plain["ttft_parts"]["mean"]["transfer_s"]
    both = found.pop("prefix, move True")
    # What is left of a moved prompt is launched as a whole one is: moving gains little beside routing by prefix.
    assert both["ttft_s"]["p90"] < 1.02 * best["ttft_s"]["p90"]
    for name, serving in found.items():
        if name != "router prefix":
            assert best["kv"]["hit_rate"] > 3 * serving["kv"]["hit_rate"]
            assert best["ttft_s"]["p50"] < serving["ttft_s"]["p50"] / 2


def test_the_network_part_of_the_first_token_follows_the_fabric():
    """A quarter of the uplinks, the same leafs: one hashed path is slowest, then four, cells, a perfect network."""
    found = study("oversubscribed")
    untuned, roce, cells, ideal = (
        found[name]["ttft_parts"]["mean"]["transfer_s"] for name in ("roce-untuned", "roce", "scheduled", "ideal")
    )
    assert untuned > 1.1 * roce
    assert roce > 1.1 * cells > 1.1 * ideal
    for serving in found.values():
        for level, parts in serving["ttft_parts"].items():
            assert sum(parts.values()) == pytest.approx(serving["ttft_s"][level])


def test_faster_links_between_pools_stop_mattering():
    """From 100 to 200 Gb/s a tenth of a second is saved, from 400 to 800 Gb/s an eighth of that."""
    found = study("transfer-rate", **{"workload.serving.transfer.overlap": 0, "workload.serving.capacity": None})
    mean = {name: serving["ttft_s"]["mean"] for name, serving in found.items() if name.startswith("overlap 0 %")}
    first, second, third, last = mean.values()
    assert first - second > 4 * (third - last) > 0


def test_replicas_that_come_and_go():
    """A pool that starts with one replica serves first requests later; a replica that is away serves none."""
    drawn = {"requests.synthetic": {"rate": 40, "input": 1500, "output": 100, "count": 1500}}
    rule = {"start": 1, "by": "queue", "target": 2, "interval": "2 s", "cold_start": "5 s", "hold": "60 s"}
    fixed = one(drawn)
    grown = one({**drawn, "pools": {"both": {"replicas": 4, "tp": 2, "max_sequences": 8, "autoscale": rule}}})
    assert grown["ttft_s"]["p99"] > fixed["ttft_s"]["p99"]
    assert sum(replica["iterations"] > 0 for replica in grown["replicas"]) > 1
    away = one({**drawn, "outages": [{"replica": 0, "start": "0 s", "end": "1000 s"}]})
    assert away["replicas"][0]["iterations"] == 0
    assert away["requests"]["done"] == 1500


def test_nics_of_a_pool_of_its_own_bound_its_transfers():
    """Decode on servers with 200 Gb/s NICs instead of 400: twice the transfer."""
    drawn = {"requests.synthetic": {"arrivals": "fixed", "rate": 0.2, "input": 16000, "output": 2, "count": 5}}
    moved = []
    for server in ("hgx-h100", "azure-ndm-a100-v4"):
        pools = {"prefill": {"replicas": 1, "tp": 8}, "decode": {"replicas": 1, "tp": 8, "server": server}}
        moved.append(one({**drawn, "pools": pools})["ttft_parts"]["mean"]["transfer_s"])
    assert moved[1] == pytest.approx(2 * moved[0], rel=0.1)


PCIE = {"cluster.server": "l40s-8", "cluster.accelerators": 8, "cluster.back_end.topology": "leaf-spine"}
CARDS = {"pools.both": {"replicas": 4, "tp": 2}}


def test_cards_without_scale_up_talk_over_the_pcie_of_their_server():
    """Their all-reduces take PCIe's rate and not the NICs'."""
    slow, fast = (one(CARDS, **PCIE, **{"cluster.back_end.link_rate": rate}) for rate in ("25 Gb/s", "200 Gb/s"))
    assert slow["tpot_s"]["mean"] == fast["tpot_s"]["mean"]
    wider = {"cluster.overrides": {"accelerator": {"scale_up_collective_bandwidth": "240 GB/s"}}}
    assert one(CARDS, **PCIE, **wider)["ttft_s"]["mean"] < 0.9 * fast["ttft_s"]["mean"]


def test_keys_and_values_between_cards_of_a_server_take_its_pcie():
    """One request at a time, half of it on each of two ranks, at PCIe 4.0's 31.5 GB/s one way."""
    many = {"requests.synthetic": {"arrivals": "fixed", "rate": 0.2, "input": 8000, "output": 2, "count": 5}}
    moved = one({**APART, **many}, **PCIE)["ttft_parts"]["mean"]["transfer_s"]
    size = 8000 * 32 * 8 * 128 * 2 * 2
    assert moved == pytest.approx(size / 2 / 31.5e9, rel=0.2)


@pytest.fixture
def profiles(tmp_path):
    """Of a device whose kernels reach half of the usual rate of memory."""
    usual = profile("vllm", catalog.load().accelerator("h100-sxm"))
    changed = {"weights_fraction": usual.weights_fraction / 2, "layer_s": usual.layer_s}
    file = tmp_path / "own.toml"
    file.write_text(
        written({("vllm", "h100-sxm"): DeviceProfile("vllm", "h100-sxm", "mine", changed)}), encoding="utf-8"
    )
    return file


def test_profiles_of_ones_own_devices(profiles, tmp_path):
    """What `calibrate serving` writes is what a scenario reads, and a run keeps the file."""
    found = api.run(BASE, overrides={"workload.serving.profiles": str(profiles)}, out=tmp_path / "run")
    own = found.result.plain()["variants"][0]["serving"]
    assert own["tpot_s"]["mean"] > 1.2 * one()["tpot_s"]["mean"]
    assert any(source["source"] == "mine" for source in found.result.plain()["provenance"]["sources"])
    assert list((tmp_path / "run").rglob("inputs/*own.toml"))
    with pytest.raises(InputError, match=r"workload\.serving\.profiles"):
        one({"profiles": "none.toml"})


def test_accelerators_of_replicas_that_are_down_stand_there_idle():
    """A load that one replica of eight carries: seven draw what accelerators without a model do, 120 W of an H100."""
    drawn = {"requests.synthetic": {"rate": 1, "input": 300, "output": 50, "count": 100}}
    pools = {"both": {"replicas": 8, "autoscale": {"least": 1, "start": 1}}}
    grown, alone = (one({**drawn, "pools": each}) for each in (pools, {"both": {"replicas": 1}}))
    watts = [found["power"]["components"][0]["typical_w"] for found in (grown, alone)]
    # The cluster's further accelerators, 8 and 15, belong to no pool and are idle as well.
    assert watts[0] == pytest.approx(watts[1], rel=1e-3)


LOOP = {"users": 8, "input": 800, "output": 60, "count": 160}


def test_users_of_a_closed_loop_obey_little_s_law():
    """As many requests are under way as there are users, less what they think."""
    for think_s in (0.0, 1.0):
        serving = one({"requests.synthetic": {**LOOP, "think": f"{think_s} s"}})
        assert serving["requests"]["done"] == 160
        users = serving["requests"]["rate_per_s"] * (serving["e2e_s"]["mean"] + think_s)
        assert users == pytest.approx(8, rel=0.08)


def test_more_users_make_the_front_of_interactivity():
    """Of one deployment every number of users is a point of it: slower for each, more for all."""
    variants = run({"requests.synthetic": LOOP, "requests.synthetic.users": 2}), run({"requests.synthetic": LOOP})
    few, many = (found[0]["serving"]["pareto"][0] for found in variants)
    assert few["per_user"] > many["per_user"]
    assert few["per_gpu"] < many["per_gpu"]


def test_a_rate_over_that_of_the_law_is_the_same_load():
    """Both draw the same gaps: to vary the rate does not bring the draw's mean to it."""
    drawn = {"synthetic": {"rate": 5, "input": 800, "output": 20, "count": 50}}
    plain, again = (run({"requests": {**drawn, **more}})[0]["serving"] for more in ({}, {"rate": 5}))
    assert plain["ttft_s"] == again["ttft_s"]
    assert plain["requests"] == again["requests"]
    twice = run({"requests": {**drawn, "rate": 10}})[0]["serving"]["requests"]["rate_per_s"]
    assert twice == pytest.approx(2 * plain["requests"]["rate_per_s"], rel=1e-9)
