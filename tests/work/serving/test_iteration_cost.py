"""The law of one iteration against arithmetic that anyone can do, and the tables against the law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard import catalog
from railyard.kit.errors import InputError
from railyard.model.machine import Machine
from railyard.work.scenario import load
from railyard.work.serving.closed_loop import arrival_s
from railyard.work.serving.cost import crowded_s, iteration_cost
from railyard.work.serving.iteration import IterationLoad, late_s, launches_s, parts
from railyard.work.serving.layout import Deployments, ServingLayout
from railyard.work.serving.memory import weight_bytes
from railyard.work.serving.software import (
    ENGINES,
    ServingSoftware,
    ServingSoftwareColumns,
    assemble,
    constants,
    profile,
)
from railyard.work.study.study import prepare

KNOWN = catalog.load()


def rows(model: str, device: str, **layout: object) -> tuple[Deployments, ServingLayout]:
    spread = ServingLayout(**layout)
    return Deployments.of((KNOWN.model(model), spread, machine(device))), spread


def one(*values: float) -> IterationLoad:
    return IterationLoad(*(np.array([float(value)]) for value in values))


def machine(device: str) -> Machine:
    return Machine.of_device(KNOWN.accelerator(device), 400e9)


def test_decoding_one_sequence_reads_every_weight_once() -> None:
    dep, _ = rows("llama-3-8b", "h100-sxm")
    ideal = ServingSoftwareColumns(
        [ServingSoftware(name="ideal", weights_fraction=1.0, layer_s=0.0, host_s=0.0, host_per_sequence_s=0.0)]
    )
    seconds = parts(dep, ideal, one(1, 1, 0, 0)).total_s[0]
    # 8.03 G parameters, less the input embedding that is looked up, 2 bytes, 3.35 TB/s at 90 %.
    expected = (8.03e9 - 128256 * 4096) * 2 / (3.35e12 * 0.9)
    assert seconds == pytest.approx(expected, rel=0.01)


def test_context_ranks_share_a_prompt_and_gather_its_keys() -> None:
    known = ServingSoftwareColumns([profile("vllm", KNOWN.accelerator("h200-sxm"))])
    alone, _ = rows("llama-3-70b", "h200-sxm", tp=4, precision="fp8")
    split, _ = rows("llama-3-70b", "h200-sxm", tp=4, cp=2, precision="fp8")
    tokens = 131072.0
    prompt = one(tokens, 1, 0, tokens * tokens / 2)
    whole, half = parts(alone, known, prompt), parts(split, known, prompt)
    assert half.prompt[0] == pytest.approx(whole.prompt[0] / 2)
    assert half.compute_s[0] == pytest.approx(whole.compute_s[0] / 2, rel=0.02)
    # Two of eight key-value heads of 128 on a rank, keys and values of 2 bytes, 80 layers, half from the other rank.
    gathered = 80 * tokens / 2 * 2 * 2 * 128 * 2 / (split.machine.up_bytes_s * known.reduce_fraction)[0]
    # Latencies do not halve: half of 160 all-reduces over 4 ranks (1.06 of one over 2, second shots), 80 gatherings.
    latencies = 80 * (1.06 * known.reduce_s[0] + 20e-6 + known.reduce_s[0])
    assert half.network[0] - whole.network[0] / 2 == pytest.approx(gathered + latencies, rel=1e-3)


def test_beyond_a_scale_up_domain_halves_take_turns() -> None:
    # DeepSeek's profile of prefilling: EP32 on H800, 16 Ki tokens a rank; its exchange hides behind the other half.
    dep, _ = rows("deepseek-v3", "h800-sxm", dp_attention=32, ep=32, precision="fp8")
    known = ServingSoftwareColumns([profile("deepseek", KNOWN.accelerator("h800-sxm"))])
    found = parts(dep, known, one(32 * 16384, 128, 0, 128 * 4096 * 4096 / 2))
    assert found.network[0] < 0.2 * found.total_s[0]


def test_what_cannot_hide_behind_the_other_half_is_exposed() -> None:
    """Halves of 16 ranks in two servers; on slow enough NICs the exchange is longer than all that runs beside it."""
    known = ServingSoftwareColumns([profile("deepseek", KNOWN.accelerator("h200-sxm"))])
    layout = ServingLayout(dp_attention=16, ep=16, precision="fp8")
    decoding = one(256, 256, 256 * 1500, 0)

    def on(scale_out_bps: float) -> tuple[float, float, float]:
        there = Machine.of_device(KNOWN.accelerator("h200-sxm"), scale_out_bps)
        found = parts(Deployments.of((KNOWN.model("deepseek-v3"), layout, there)), known, decoding)
        other = found.matrices + found.experts + found.passes + found.kernels
        return float(found.network[0]), float(found.hidden[0]), float(other[0])

    exposed, hidden, other = on(400e9)
    assert exposed == 0
    assert 0.1 * other < hidden < other
    exposed, hidden, other = on(1e9)
    assert hidden == other
    # A quarter of the rate makes what goes between the servers, and nothing else, four times as long.
    slower = on(0.25e9)[0] - exposed
    # 16 tokens a rank, 7168 elements of 3 bytes, once to the other server (half of 2), 58 layers, both halves.
    sent = 58 * 16 * 7168 * 3 * (2 / 2) * 8 / 1e9 / min(float(known.exchange_fraction[0]), 0.95)
    assert slower == pytest.approx(3 * sent, rel=0.05)


def test_weights_of_a_rank_are_those_of_the_checkpoint() -> None:
    # deepseek-ai/DeepSeek-R1: 671 G parameters of 8 bits, embeddings of 16; on 8 ranks with experts spread.
    dep, _ = rows("deepseek-v3", "h200-sxm", tp=8, ep=8, precision="fp8", kv_bits=8)
    assert weight_bytes(dep)[0] * 8 == pytest.approx(671e9, rel=0.03)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", ["llama-3-70b", "deepseek-v3", "gpt-oss-120b", "glm-5"])
def test_more_of_anything_never_takes_less(engine: str, model: str) -> None:
    dep, _ = rows(model, "b200-sxm", tp=8, precision="mxfp4" if "gpt" in model else "fp8")
    known = ServingSoftwareColumns([profile(engine, KNOWN.accelerator("b200-sxm"))])
    last = 0.0
    for requests in (one(1, 1, 100, 0), one(8, 8, 800, 0), one(8, 8, 80_000, 0), one(64, 64, 80_000, 0)):
        seconds = parts(dep, known, requests).total_s[0]
        assert seconds >= last
        last = seconds


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        ("llama-3-8b", {}),
        ("llama-3-70b", {"tp": 4, "precision": "fp8"}),
        ("deepseek-v3", {"tp": 8, "ep": 8, "precision": "fp8", "kv_bits": 8}),
        ("deepseek-v3", {"dp_attention": 8, "ep": 8, "precision": "fp8", "kv_bits": 8}),
        ("gpt-oss-120b", {"tp": 2, "precision": "mxfp4"}),
    ],
)
def test_tables_are_the_law(model: str, layout: dict[str, object]) -> None:
    dep, spread = rows(model, "b200-sxm", **layout)
    device = KNOWN.accelerator("b200-sxm")
    software = profile("vllm", device)
    cost = iteration_cost(KNOWN.model(model), spread, machine("b200-sxm"), software)
    draws = np.random.default_rng(3)
    for _ in range(40):
        decodes, fresh = float(draws.integers(1, 512)), float(draws.integers(0, 7000))
        context = float(draws.integers(500, 20_000))
        load = (decodes + fresh, decodes, decodes * context, fresh * fresh / 2)
        law = parts(dep, ServingSoftwareColumns([software]), one(*load))
        launched = launches_s(dep, ServingSoftwareColumns([software]))
        exact = float((law.total_s - (late_s(law.compute_s + law.network, launched) if fresh else 0.0))[0])
        assert float(cost.seconds(*map(np.array, load))) == pytest.approx(exact, rel=0.04)


def test_a_replica_that_cannot_fit_is_refused_with_what_fits() -> None:
    with pytest.raises(InputError, match="weights") as refused:
        iteration_cost(
            KNOWN.model("llama-3-70b"),
            ServingLayout(),
            machine("h100-sxm"),
            profile("vllm", KNOWN.accelerator("h100-sxm")),
        )
    assert "tp 4 in bf16" in str(refused.value) or "tp 2 in fp8" in str(refused.value)


def cost_over_nics(model: str, device: str, nic_bps: float = 400e9, **layout: object):
    known = KNOWN.accelerator(device)
    spread = ServingLayout(**layout)
    wide = replace(machine(device), scale_out_bps=nic_bps)
    return iteration_cost(KNOWN.model(model), spread, wide, profile("vllm", known))


def test_bytes_that_experts_send_over_nics() -> None:
    """DeepSeek-V3 on four servers: a token goes to three other domains in a byte an element, and back in two."""
    cost = cost_over_nics("deepseek-v3", "h800-sxm", dp_attention=32, ep=32, precision="fp8")
    assert cost.scale_out_bytes_per_token == pytest.approx(58 * 7168 * 3 * 3, rel=1e-6)
    assert cost.scale_out_bps < 32 * 400e9
    assert len(cost.scale_out_slack_s) == len(cost.tokens)


def test_collectives_inside_a_domain_send_nothing_over_nics() -> None:
    for layout in ({"tp": 8}, {"dp_attention": 8, "ep": 8}):
        cost = cost_over_nics("deepseek-v3", "h200-sxm", precision="fp8", **layout)
        assert cost.scale_out_bytes_per_token == 0


def test_slower_nics_take_what_the_bytes_say_beyond_the_slack() -> None:
    """At a third of the rate: the bytes over the rates, less what was hidden; fast NICs have slack, slow ones none."""
    slack = []
    for nic in (100e9, 3200e9):
        usual = cost_over_nics("deepseek-v3", "h800-sxm", nic, dp_attention=32, ep=32, precision="fp8")
        third = cost_over_nics("deepseek-v3", "h800-sxm", nic / 3, dp_attention=32, ep=32, precision="fp8")
        more = 8 * usual.scale_out_bytes_per_token * usual.tokens * 2 / usual.scale_out_bps
        wanted = np.maximum(more - usual.scale_out_slack_s, 0.0)
        np.testing.assert_allclose(third.network_s - usual.network_s, wanted, rtol=1e-6, atol=1e-9)
        slack.append(usual.scale_out_slack_s[-1])
    assert slack[0] < 1e-6 < slack[1]


def test_prompts_that_are_launched_kernel_by_kernel_cost_their_share_beside_decoding() -> None:
    """Of SGLang only, beyond the graphs that it captures, and not where a replica computes prompts alone."""
    device, model = KNOWN.accelerator("h100-sxm"), KNOWN.model("llama-3-8b")
    for engine, slower in (("sglang", True), ("vllm", False)):
        software = profile(engine, device)
        alone, both = (
            iteration_cost(model, ServingLayout(), machine("h100-sxm"), software, role=role)
            for role in ("decode", "both")
        )
        small = alone.tokens <= 512
        assert both.compute_s[small] == pytest.approx(alone.compute_s[small])
        share = software.prompt_share if slower else 1.0
        at_graph = np.interp(512.0, alone.tokens, alone.compute_s)
        kernels = at_graph + share * (alone.compute_s[~small] - at_graph)
        # 32 layers of launches beside it, the third-power mean of both.
        launched = 32 * software.prompt_layer_s
        assert both.compute_s[~small] == pytest.approx((kernels**3 + launched**3) ** (1 / 3), rel=1e-9)
        assert both.attention_per_pair_s == pytest.approx(share * alone.attention_per_pair_s)


def test_a_stated_effect_stands_before_any_row() -> None:
    """Kernels of TensorRT-LLM on Blackwell begin while the last one ends: 0.7 of the time of a layer's."""
    known = constants()["layer_s"]
    assert known.at("tensorrt-llm", "blackwell") == pytest.approx(0.7 * 42e-6)
    assert known.at("tensorrt-llm", "hopper") == known.at("vllm", "blackwell") == 42e-6
    apart = {"tensorrt-llm/blackwell": {"layer_s": 0.1}}
    assert assemble("tensorrt-llm", "blackwell", apart).layer_s == pytest.approx(0.7 * 42e-6 * np.exp(0.1))


def test_single_prompts_on_copies_of_attention_take_longer_than_their_share() -> None:
    """One of 1,000 tokens on four copies has one copy to itself; four of them have all."""
    dep, _ = rows("deepseek-v3", "h200-sxm", dp_attention=4, ep=4, precision="fp8")
    known = ServingSoftwareColumns([profile("sglang", KNOWN.accelerator("h200-sxm"))])
    tokens = np.array([400, 1000, 4000, 6000])
    late = crowded_s(dep, known, tokens, 1000.0)
    assert late[2] == 0.0
    alone = IterationLoad(*(np.array([value]) for value in (1000.0, 0.0, 0.0, 5e5)))
    one = replace(alone, copy_tokens=np.array([1000.0]), copy_pairs=np.array([5e5]))
    both = [parts(dep, known, load) for load in (one, alone)]
    gone = [float((each.compute_s + each.network)[0]) for each in both]
    assert late[1] == pytest.approx(gone[0] - gone[1])
    assert late[1] > 0.2 * gone[1]
    # Six prompts on four copies: two have two, where one and a half would be even.
    assert 0.0 < late[3] < late[1]


def test_a_request_enters_by_its_tokens() -> None:
    known = ServingSoftware(name="x", prompt_s=0.02, prompt_token_s=5e-6)
    assert arrival_s(known, 3000.0) == pytest.approx(0.035)


# Degrees of a replica: what they are refused for, and what they multiply to.


@pytest.mark.parametrize("degree", ["tp", "pp", "dp_attention", "ep", "cp"])
@pytest.mark.parametrize("value", [0, -3])
def test_a_degree_below_one_is_refused(degree, value):
    with pytest.raises(InputError) as caught:
        ServingLayout(**{degree: value})
    assert f"{degree} must be at least 1" in str(caught.value)
    assert (caught.value.problems[0].key, caught.value.problems[0].found) == (degree, str(value))


def test_ranks_are_the_product_of_what_splits_a_replica():
    """5 x 3 ranks of a stage, 7 stages, 2 context ranks: 210; experts share the ranks of a stage."""
    layout = ServingLayout(tp=5, pp=7, dp_attention=3, ep=15, cp=2)
    assert (layout.stage_ranks, layout.ranks) == (15, 210)


@pytest.mark.parametrize(("kv_bits", "stored"), [(4, 4.5), (8, 8.0), (16, 16.0)])
def test_a_cache_of_four_bits_stores_a_scale_of_8_for_16_elements(kv_bits, stored):
    assert ServingLayout(kv_bits=kv_bits).stored_kv_bits == stored


# Replicas on a cluster: the pool that does not say how many has what is left.


def pools(accelerators=40, **written):
    requests = {"synthetic": {"rate": 1, "input": 100, "output": 10, "count": 5}}
    values = {
        "name": "placed",
        "cluster": {"accelerators": accelerators, "server": "hgx-h100"},
        "workload": {"serving": {"model": "llama-3-8b", "requests": requests, "pools": written}},
    }
    (job,) = prepare(load.from_values(values))
    return job.pools


def test_one_pool_takes_what_is_left():
    """40 accelerators less one replica of 8 are eight replicas of 4, whichever of the two is written first."""
    prefill, decode = pools(prefill={"replicas": 1, "tp": 8}, decode={"tp": 4})
    assert prefill.ranks.tolist() == [list(range(8))]
    assert decode.ranks.tolist() == [list(range(first, first + 4)) for first in range(8, 40, 4)]
    prefill, decode = pools(prefill={"tp": 4}, decode={"replicas": 3, "tp": 8})
    assert (len(prefill.ranks), len(decode.ranks)) == (4, 3)
