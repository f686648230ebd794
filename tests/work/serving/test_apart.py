"""Attention and FFN apart: the law against a schedule, its published special case, published gains, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import catalog
from railyard.engine.serving import Deployment, Pool, Router, simulate
from railyard.face import api
from railyard.model.machine import Machine
from railyard.work.scenario import load
from railyard.work.serving.afd import MicroBatchSeconds, Side, SideExchange, apart_cost, exchange_of, halves
from railyard.work.serving.cost import iteration_cost
from railyard.work.serving.layout import Deployments, ServingLayout
from railyard.work.serving.memory import weight_bytes
from railyard.work.serving.software import profile
from railyard.work.study.study import prepare

KNOWN = catalog.load()


def side(device, nic_bps, engine="vllm", **layout):
    """Accelerators of eight to a server."""
    found = KNOWN.accelerator(device)
    machine = Machine.of_device(found, nic_bps, domain=8)
    return Side(machine, ServingLayout(**layout), profile(engine, found))


def network(attention, ffn, latency_s=4e-6):
    """NICs at their rate are all that bounds the exchange."""
    slowest = min(one.machine.scale_out_bps * one.layout.ranks for one in (attention, ffn))
    return SideExchange(8 / slowest, 8 / slowest, latency_s, far=True)


def scheduled(beat, layers, micro_batches):
    """The last end, when every micro-batch goes on as soon as it can and each of the four serves one at a time."""
    stations = [float(beat.attention), float(beat.dispatch), float(beat.ffn), float(beat.combine)]
    free, ready = [0.0] * 4, [0.0] * micro_batches
    for _ in range(layers):
        for batch in range(micro_batches):
            for station, seconds in enumerate(stations):
                ready[batch] = max(ready[batch], free[station]) + seconds
                free[station] = ready[batch]
    return max(ready)


@settings(deadline=None)
@given(
    st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4),
    st.integers(1, 12),
    st.integers(1, 6),
)
def test_the_law_is_a_schedule(times, layers, micro_batches):
    """Of micro-batches through four stations, layer after layer."""
    beat = MicroBatchSeconds(*(np.float64(seconds) for seconds in times))
    law = float(beat.iteration_s(layers, micro_batches))
    assert law == pytest.approx(scheduled(beat, layers, micro_batches), rel=1e-9)


@pytest.mark.parametrize(("ffn", "network_s", "micro_batches"), [(1.0, 0.3, 3), (1.0, 0.9, 4), (0.7, 0.05, 3)])
def test_megascale_infers_latency(ffn, network_s, micro_batches):
    """(T_a + T_f + 2 T_c) + T_f (m L - 1), with enough micro-batches and T_a = T_f."""
    beat = MicroBatchSeconds(*(np.float64(seconds) for seconds in (ffn, network_s, ffn, network_s)))
    assert micro_batches >= 2 * (1 + network_s / ffn)
    law = float(beat.iteration_s(56, micro_batches))
    assert law == pytest.approx(2 * ffn + 2 * network_s + ffn * (micro_batches * 56 - 1))


@pytest.mark.parametrize("ratio", [0.01, 0.3, 0.5, 0.51, 0.99])
def test_megascale_infers_number_of_micro_batches(ratio):
    """m >= 2 (1 + T_c / T_f): 3 below a half, 4 above."""
    beat = MicroBatchSeconds(*(np.float64(seconds) for seconds in (1.0, ratio, 1.0, ratio)))
    assert int(beat.wanted) == math.ceil(2 * (1 + ratio) - 1e-9)


def mixtral(micro_batches=3, context=2000.0, model="mixtral-8x22b", **changed):
    """Mixtral 8x22B: two copies of attention and eight groups of experts, H800 and 400 Gb/s."""
    attention = side("h800-sxm", 4e11, tp=4, dp_attention=2)
    ffn = side("h800-sxm", 4e11, tp=1, dp_attention=8, ep=8)
    return apart_cost(
        KNOWN.model(model),
        attention,
        ffn,
        changed.get("exchange", network(attention, ffn)),
        micro_batches=micro_batches,
        max_batched_tokens=4096,
        context=context,
    )


@pytest.mark.parametrize("micro_batches", [1, 2, 3, 5])
def test_tables_are_the_law(micro_batches):
    """Lines and tables that the engine reads give the schedule of the four times, at every depth of cache."""
    cost = mixtral(micro_batches)
    own = cost.host_s + cost.compute_s + cost.network_s - cost.beat.iteration_s(cost.layers, micro_batches)
    for row in (0, 20, 60, len(cost.tokens) - 1):
        tokens = float(cost.tokens[row])
        for cached in (0.0, 1e3 * tokens, 5e3 * tokens, 4e4 * tokens):
            law = float(cost.at(tokens, cached).iteration_s(cost.layers, micro_batches)) + own[row]
            found = cost.seconds(*(np.float64(value) for value in (tokens, 0.0, cached, 0.0)))
            assert float(found) == pytest.approx(law, rel=1e-6)


def test_the_engine_follows_the_tables():
    """One sequence that decodes 400 tokens: its time is the sum of its iterations, past the point where lines cross."""
    cost = mixtral(exchange=SideExchange(0.0, 0.0, 0.0, far=False))
    slow = replace(cost, overlapped_per_kv_token_s=cost.overlapped_per_kv_token_s * 2e5)
    # Cached tokens cost so much that attention overtakes the FFNs within the answer.
    steps = np.arange(1, 400)
    one = np.ones(len(steps))
    want = slow.seconds(one, one, 100.0 + steps, 0 * one)
    assert want[0] == pytest.approx(want[1], rel=0.01)
    assert want[-1] > 2 * want[0]

    class QueuedRequest:
        arrival_ps = np.array([0])
        input_tokens = np.array([100], np.int32)
        output_tokens = np.array([400], np.int32)
        block_ptr, block_hash, block_tokens = np.zeros(0, np.int64), np.zeros(0, np.uint64), 0
        session = np.zeros(0, np.int64)

    pool = Pool("apart", slow, max_batched_tokens=4096)
    run = simulate(QueuedRequest(), Deployment((pool,), Router("least-loaded")))
    assert (run.end_ps[0] - run.column("first_token_ps")[0]) * 1e-12 == pytest.approx(float(want.sum()), rel=1e-6)


def test_weights_and_cache_lie_where_they_belong():
    """Both sides together have the model's weights; the cache has what experts leave; experts have none of it."""
    model = KNOWN.model("mixtral-8x22b")
    attention, ffn = side("h800-sxm", 4e11, tp=1), side("h800-sxm", 4e11, tp=1, ep=1)
    one, other = halves(model, attention, ffn)
    together = Deployments.of((model, attention.layout, attention.machine))
    assert one.weight_bytes + other.weight_bytes == pytest.approx(float(weight_bytes(together)[0]), rel=0.01)
    # 56 layers x 8 heads x 128 x 2 x 2 bytes a token; 90 % of 80 GB less weights and 1 to 5 GB of workspace.
    room = (0.9 * attention.machine.accelerator.memory_bytes - one.weight_bytes) / (56 * 8 * 128 * 2 * 2)
    assert room - 5e9 / (56 * 8 * 128 * 2 * 2) < one.cache_tokens < room
    smaller = replace(ffn, machine=replace(ffn.machine, accelerator=KNOWN.accelerator("l40s")))
    assert halves(model, attention, smaller)[0].cache_tokens == one.cache_tokens


def test_what_a_rank_holds_is_said_in_numbers():
    """One of 8 experts: 3 x 6,144 x 16,384 x 56 layers x 2 bytes = 31.5 GiB; 0.9 of 80 GiB may be used.

    Attention over 4 ranks: 56 layers of 2 x 6,144^2 + 2 x 6,144 x 1,024, 2 x 32,000 x 6,144 of tokens; x 2 / 4 bytes.
    """
    attention = side("h800-sxm", 4e11, tp=4, dp_attention=2)
    one, other = halves(KNOWN.model("mixtral-8x22b"), attention, side("h800-sxm", 4e11, tp=1, dp_attention=8, ep=8))
    assert one.table().startswith("of one rank: weights 2.5 GiB, workspace ")
    assert other.table().startswith("of one rank: weights 31.5 GiB, workspace ")
    assert other.table().endswith(" GiB; 72.0 GiB may be used")


def best(cost, ranks, context, limit_s):
    """Most tokens/s of an accelerator within a limit of the time of a token."""
    most = 0.0
    for batch in range(16, 4096, 16):
        if batch * context > cost.kv_capacity_tokens:
            break
        seconds = float(cost.seconds(*(np.float64(value) for value in (batch, batch, batch * context, 0.0))))
        if seconds <= limit_s:
            most = max(most, batch / seconds / ranks)
    return most


def test_gains_are_of_the_published_size():
    """MegaScale-Infer: up to 1.90x an accelerator over what serves together, on Ampere of 80 GB within 150 ms.

    Its experts are balanced by copies of the busiest (section 6), and the engines that it is compared with, of 2024,
    schedule between iterations: 30 us a sequence, which copies of attention share.
    """
    model, context, limit = KNOWN.model("mixtral-8x22b"), 650.0, 0.15

    def side_of_2024(*where, **layout):
        found = side(*where, **layout)
        return replace(found, software=replace(found.software, skew=1.0, host_per_sequence_s=30e-6))

    alone = side_of_2024("a100-sxm-80gb", 2e11, tp=8)
    together = best(
        iteration_cost(model, alone.layout, alone.machine, alone.software, max_batched_tokens=4096),
        8,
        context,
        limit,
    )
    gains = []
    for copies_of_attention in (1, 2, 4, 8):
        attention = side_of_2024("a100-sxm-80gb", 2e11, tp=1, dp_attention=copies_of_attention)
        ffn = side_of_2024("a100-sxm-80gb", 2e11, tp=1, dp_attention=8, ep=8)
        cost = apart_cost(
            model, attention, ffn, network(attention, ffn), micro_batches=2, max_batched_tokens=4096, context=context
        )
        gains.append(best(cost, attention.layout.ranks + 8, context, limit) / together)
    assert 1.1 < max(gains) < 1.9


def test_micro_batches_hide_the_other_side():
    """Two micro-batches of the same size do nearly twice the work of one in the same time."""
    beat = MicroBatchSeconds(*(np.float64(seconds) for seconds in (1.0, 0.2, 1.0, 0.2)))
    once, twice = (float(beat.iteration_s(56, count)) for count in (1, 2))
    assert 1.8 < 2 * once / twice <= 2.0
    assert 3 * twice / (2 * float(beat.iteration_s(56, 3))) == pytest.approx(1.2, rel=0.02)


def network_over_ffn(model, groups, nic_bps, **layout):
    """Time of the slower direction over that of the experts, of a batch so large that neither waits for weights.

    Grouped products are DeepGEMM's: those of vLLM reach half of their rate, and the network has twice the time.
    """
    attention = side("h800-sxm", nic_bps, "deepseek", dp_attention=groups, **layout)
    ffn = side("h800-sxm", nic_bps, "deepseek", dp_attention=groups, ep=groups, **layout)
    exchange = network(attention, ffn)
    cost = apart_cost(KNOWN.model(model), attention, ffn, exchange, micro_batches=3, max_batched_tokens=1 << 17)
    beat = cost.at(float(1 << 17), 0.0)
    return float(max(beat.dispatch, beat.combine) / beat.ffn)


def test_fine_experts_wait_for_the_network():
    """Experts of DeepSeek-V3 over 400 Gb/s a rank: the network caps them. Coarse ones and a superpod are not capped.

    So Liu et al., arXiv 2602.09721: on standard clusters scale-out bandwidth bounds the FFN side, which is why further
    accelerators for it do not help; superpods and coarse experts gain.
    """
    assert network_over_ffn("deepseek-v3", 64, 4e11, precision="fp8") > 1.1
    assert network_over_ffn("deepseek-v3", 64, 7.2e12, precision="fp8") < 0.3
    assert network_over_ffn("mixtral-8x22b", 8, 4e11) < 0.8


BASE = {
    "name": "apart",
    "cluster": {"accelerators": 24, "server": "hgx-h800", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {
        "serving": {
            "model": "mixtral-8x22b",
            "requests": {"synthetic": {"rate": 20, "input": 600, "output": 100, "count": 300}},
            "pools": {
                "prefill": {"replicas": 1, "tp": 8},
                "decode": {"replicas": 1, "attention": {"tp": 4, "copies": 2}, "ffn": {"ep": 8}},
            },
        }
    },
}


def run(**changes):
    """The serving object of the only variant."""
    decode = "workload.serving.pools.decode."
    named = {(decode + key if key in KEYS else key): value for key, value in changes.items()}
    return api.run(BASE, overrides=named, out=None).result.plain()["variants"][0]["serving"]


@pytest.mark.parametrize(("here", "there", "skew"), [(3, 5, 1.0), (3, 5, 1.25), (5, 3, 1.0), (5, 3, 1.25)])
def test_three_servers_and_five_on_a_network_that_blocks_nothing(here, there, skew):
    """24 NICs send, 40 take, or 40 and 24: the side with fewer bounds both directions, its busiest group by `skew`.

    Of a byte each of 24 senders has 1/24; of 40 that take it the busiest has 1.25/40 = 1/32, of 24 it has 1.25/24.
    """
    network = {"topology": "leaf-spine", "fabric": "ideal"}
    values = {**BASE, "cluster": {"accelerators": 64, "server": "hgx-h100", "back_end": network}}
    cluster = prepare(load.from_values(values))[0].cluster
    one, other = np.arange(8 * here)[None, :], np.arange(8 * here, 64)[None, :]
    weights = np.full(8 * there, (1 - skew / (8 * there)) / (8 * there - 1))
    weights[0] = skew / (8 * there)
    rate = np.full(len(cluster.links), 4e11)
    found = exchange_of(cluster, (one, other), rate, weights)
    most = max(1 / (8 * here), skew / (8 * there))
    wire = 8 / cluster.fabric.payload_efficiency / 4e11
    assert found.dispatch_s_per_byte == pytest.approx(most * wire, rel=1e-3)
    assert found.combine_s_per_byte == pytest.approx(most * wire, rel=1e-3)
    assert found.far


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["mixtral-8x22b", "deepseek-v3", "llama-3-70b", "gpt-oss-120b"]), st.data())
def test_a_split_needs_at_least_the_memory_of_the_whole(name, data):
    """However attention and FFNs are divided, both sides hold every weight once at least: no split makes room."""
    model = KNOWN.model(name)
    tp, copies, ep = (data.draw(st.sampled_from(degrees)) for degrees in ([1, 2, 4, 8], [1, 2, 3], [1, 2, 4]))
    attention = side("h800-sxm", 4e11, tp=tp, dp_attention=copies, precision="fp8")
    ffn = side("h800-sxm", 4e11, tp=tp, dp_attention=ep, ep=ep if model.experts else 1, precision="fp8")
    one, other = halves(model, attention, ffn)
    whole = Deployments.of((model, ServingLayout(precision="fp8"), attention.machine))
    assert one.weight_bytes + other.weight_bytes >= float(weight_bytes(whole)[0]) * (1 - 1e-2)
    ranks = attention.layout.ranks + ffn.layout.ranks
    if one.cache_tokens > 0 and other.cache_tokens > 0:
        assert ranks * attention.machine.accelerator.memory_bytes > float(weight_bytes(whole)[0])


def test_two_kinds_do_not_share_a_server():
    """Each kind begins with a server of its own, also behind a pool that leaves one half empty."""
    decode = {"replicas": 1, "attention": {"tp": 4, "server": "hgx-h20"}, "ffn": {"ep": 8, "server": "l40s-8"}}
    pools = {"prefill": {"replicas": 1, "tp": 8, "precision": "fp8"}, "decode": decode}
    scenario = {**BASE, "workload": {"serving": {**BASE["workload"]["serving"], "pools": pools}}}
    (job,) = prepare(load.from_values(scenario))
    decode_pool = job.pools[1]
    assert decode_pool.ranks.ravel().tolist() == [8, 9, 10, 11]
    assert decode_pool.ffn.ranks.ravel().tolist() == list(range(16, 24))
    pools["prefill"] = {"replicas": 1, "tp": 4, "precision": "fp8"}
    (job,) = prepare(load.from_values(scenario))
    assert job.pools[1].ranks.ravel().tolist() == [8, 9, 10, 11]


KEYS = ("attention", "ffn", "micro_batches", "server", "tp", "replicas")


def test_a_scenario_says_which_side_waits():
    """Few tokens read all experts: FFNs work all the time, attention waits; with the parts of the latency whole."""
    serving = run()
    apart = serving["pools"][1]["apart"]
    assert serving["requests"]["done"] == 300
    assert apart["waits"] == "attention"
    assert apart["ffn"]["busy"] > 0.9 > apart["attention"]["busy"]
    assert apart["micro_batches_wanted"] <= apart["micro_batches"] == 3
    assert serving["pools"][1]["accelerators"] == 16
    assert serving["throughput"]["accelerators"] == 24
    for level, parts in serving["ttft_parts"].items():
        assert sum(parts.values()) == pytest.approx(serving["ttft_s"][level])
    assert serving["pools"][0]["apart"] is None


def test_a_slower_network_between_the_sides():
    """Its part of the time of a token grows, and at last both sides wait for it."""
    fast = run()
    slow = run(**{"cluster.back_end.link_rate": "2 Gb/s"})
    part = [serving["communication_share"]["tpot"]["p50"] for serving in (fast, slow)]
    assert part[0] < 0.01
    assert part[1] > 0.2
    assert slow["pools"][1]["apart"]["waits"] == "both"
    assert slow["pools"][1]["apart"]["network_busy"] > 3 * fast["pools"][1]["apart"]["network_busy"]
    assert slow["tpot_s"]["p50"] > fast["tpot_s"]["p50"]


def test_sides_may_be_of_different_accelerators():
    """Attention on H20, experts on L40S: both are in the bill and the result."""
    serving = run(attention={"tp": 8, "server": "hgx-h20"}, ffn={"ep": 8, "server": "l40s-8"})
    apart = serving["pools"][1]["apart"]
    assert (apart["attention"]["accelerator"], apart["ffn"]["accelerator"]) == ("h20-sxm", "l40s")
    same = run()
    assert serving["capex"]["total_usd"]["typical"] < same["capex"]["total_usd"]["typical"]


def test_halves_overlap_at_high_loads():
    """The study: at few requests each micro-batch reads the experts for itself, at many the halves overlap."""
    study = Path(__file__).parents[3] / "examples" / "serving" / "attention-and-ffn.yaml"
    result = api.run(study, overrides={"compare.vary.rate": [8, 24]}, out=None).result.plain()
    tpot = [variant["serving"]["tpot_s"]["p50"] for variant in result["variants"]]
    together, once, twice, thrice = (tpot[number : number + 2] for number in range(0, 8, 2))
    assert together[0] < min(once[0], twice[0], thrice[0])
    assert twice[1] < thrice[1] < once[1]
    assert twice[1] / together[1] < 0.95 * twice[0] / together[0]


@pytest.mark.parametrize("micro_batches", [2, 3])
@pytest.mark.parametrize(("dispatch_s", "combine_s"), [(7e-9, 1e-12), (1e-12, 3e-9), (1e-12, 1e-12)])
def test_tables_are_a_schedule_whichever_of_the_four_is_slowest(micro_batches, dispatch_s, combine_s):
    """Dispatch, combine or a side: 40 sequences of 0 to 5 million cached tokens, played micro-batch by micro-batch."""
    cost = mixtral(micro_batches, exchange=SideExchange(dispatch_s, combine_s, 3e-6, far=True))
    row = int(np.searchsorted(cost.tokens, 40))
    tokens = float(cost.tokens[row])
    own = cost.host_s + cost.compute_s + cost.network_s - cost.beat.iteration_s(cost.layers, micro_batches)
    slowest = set()
    for cached in (0.0, 3e3, 2e4, 5e6):
        beat = cost.at(tokens, cached * tokens)
        found = float(cost.seconds(*(np.float64(value) for value in (tokens, 0.0, cached * tokens, 0.0))))
        assert found == pytest.approx(scheduled(beat, cost.layers, micro_batches) + own[row], rel=1e-6)
        slowest.add(int(np.argmax([float(part) for part in (beat.attention, beat.dispatch, beat.ffn, beat.combine)])))
    assert 0 in slowest
    assert slowest & ({1} if dispatch_s > 1e-9 else {3} if combine_s > 1e-9 else {2})


def test_times_of_a_micro_batch_by_hand():
    """Two rows of the table: the exchange's part for each token is a residual of 6,144 to two groups of experts."""
    exchange = SideExchange(2e-12, 5e-12, 4e-6, far=True)
    cost = mixtral(3, exchange=exchange)
    exchange_s = profile("vllm", KNOWN.accelerator("h800-sxm")).exchange_s
    row = int(np.searchsorted(cost.tokens, 700))
    vectors = cost.tokens[row] / 3 * 6144 * 2
    # 8 us from a message's start to the wire and to its notice, beside the path; 2 bytes an element, there and back.
    assert cost.beat.dispatch[row] == pytest.approx(4e-6 + exchange_s + 8e-6 + vectors * 2 * 2e-12, rel=1e-9)
    assert cost.beat.combine[row] == pytest.approx(4e-6 + exchange_s + 8e-6 + vectors * 2 * 5e-12, rel=1e-9)
    near = mixtral(3, exchange=replace(exchange, far=False))
    assert cost.beat.dispatch[row] - near.beat.dispatch[row] == pytest.approx(8e-6, rel=1e-6)


def test_experts_of_8_bits_are_sent_a_byte_an_element():
    """There in one byte, back in two."""
    attention = side("h800-sxm", 4e11, tp=8, precision="fp8")
    ffn = side("h800-sxm", 4e11, tp=1, dp_attention=8, ep=8, precision="fp8")
    exchange = SideExchange(2e-12, 2e-12, 0.0, far=False)
    beat = apart_cost(KNOWN.model("mixtral-8x22b"), attention, ffn, exchange, micro_batches=2).beat
    latency = attention.software.exchange_s
    assert (beat.combine - latency) / (beat.dispatch - latency) == pytest.approx(2.0)


def test_what_both_sides_draw():
    """Eight and eight of 700 W: a fifth without work; a third and half of 14 % of memory more while a side works."""
    cost = mixtral(3)
    assert cost.idle_w == pytest.approx(0.20 * 16 * 700)
    iteration = float(cost.beat.iteration_s(56, 3)[-1])
    busy = [3 * 56 * float(part[-1]) / iteration for part in (cost.beat.attention, cost.beat.ffn)]
    assert cost.busy_w == pytest.approx((0.33 + 0.07) * 5600 * sum(busy), rel=1e-9)
    assert cost.joule_per_kv_token == pytest.approx(0.07 * 5600 * cost.attention_per_kv_s, rel=1e-9)


def test_words_are_chosen_once_a_micro_batch():
    """The output projection of 32,768 words over 4 ranks is read three times; two copies share the host's work."""
    cost, device = mixtral(3), side("h800-sxm", 4e11, tp=4)
    model = KNOWN.model("mixtral-8x22b")
    rate = device.machine.accelerator.memory_bps / 8 * device.machine.accelerator.memory_efficiency
    head = 2 * model.vocab * 6144 / 4 / (rate * device.software.weights_fraction)
    more = cost.compute_s + cost.network_s - cost.beat.iteration_s(56, 3)
    assert more == pytest.approx(3 * head, rel=1e-2)
    assert cost.host_s == device.software.host_s
    assert cost.host_per_seq_s >= device.software.host_per_sequence_s / 2


def test_a_window_is_read_for_every_sequence():
    """gpt-oss-120b: every second layer reads 128 tokens of 2 x 8 heads x 64 x 2 bytes for each that decodes."""
    attention = side("h100-sxm", 4e11, tp=1, precision="mxfp4")
    ffn = side("h100-sxm", 4e11, tp=1, dp_attention=2, ep=2, precision="mxfp4")
    model = KNOWN.model("gpt-oss-120b")
    one, _ = halves(model, attention, ffn)
    cost = apart_cost(model, attention, ffn, network(attention, ffn), micro_batches=1)
    rate = one.rows.device.hbm_bytes_s[0] * attention.software.kv_fraction
    tokens = int(cost.tokens[-1])
    read = float(cost.beat.attention[-1]) - one.layer_s(float(tokens))
    assert read == pytest.approx(tokens * 0.5 * 128 * 2048 / rate, rel=1e-6)
