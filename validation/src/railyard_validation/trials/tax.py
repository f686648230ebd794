"""The network tax: one figure for what the scale-out network costs, its parts, and never NVLink under its name."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np

    from railyard_validation.trials.trial import Output

CAUSES = {"bandwidth", "latency", "contention", "straggler"}
SAME = 1e-6
"""Parts and their sum differ by no more than rounding."""
ALIKE = 0.005
"""Steps without a scale-out network are the same for every network, within so much of the step."""


def _written(folder: Path, scenario: dict[str, Any]) -> None:
    """JSON is YAML too."""
    (folder / "drawn.yaml").write_text(json.dumps(scenario, indent=2), encoding="utf-8")


def _scenario(generator: np.random.Generator, ranks: int, parallelism: dict[str, Any]) -> dict[str, Any]:
    model, sequence = [("llama-3.2-3b", 4096), ("llama-3-8b", 8192), ("qwen3-14b", 4096), ("mistral-7b", 8192)][
        generator.integers(4)
    ]
    batch = int(ranks * generator.integers(1, 4))
    return {
        "name": "drawn",
        "cluster": {
            "accelerators": ranks,
            "server": str(generator.choice(["hgx-h100", "dgx-a100", "hgx-b200"])),
            "placement": str(generator.choice(["packed", "scattered"])),
            "back_end": {
                "topology": {"kind": "leaf-spine", "oversubscription": f"{generator.integers(1, 5)}:1"},
                "fabric": "roce",
            },
        },
        "workload": {
            "training": {
                "model": model,
                "tokens": "1 T",
                "global_batch": batch,
                "sequence": sequence,
                "parallelism": parallelism,
            }
        },
    }


def _parts(name: str, tax: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the parts of one tax, if anything."""
    for what, one in ((name, tax), (f"{name}, scale-up", tax["scale_up"])):
        parts = [*one["exposed"].values(), one["slowed_kernels"]]
        if set(one["exposed"]) - CAUSES:
            yield f"{what}: unknown causes {sorted(set(one['exposed']) - CAUSES)}"
        if min(parts) < 0 or not 0 <= one["tokens_lost"] <= 1:
            yield f"{what}: a share is below 0 or above 1: {one}"
        if abs(sum(parts) - one["tokens_lost"]) > SAME:
            yield f"{what}: the parts add up to {sum(parts)}, not to {one['tokens_lost']}"


def _free(variant: dict[str, Any]) -> float:
    """Step without a scale-out network, s."""
    return float(variant["step"]["seconds"] * (1 - variant["tax"]["tokens_lost"]))


def _judge_compared(outputs: Sequence[Output]) -> Iterator[str]:
    variants = outputs[0].data["variants"]
    for variant in variants:
        yield from _parts(variant["name"], variant["tax"])
        bars = sum(part["share"] for part in variant["time"])
        if abs(bars - 1) > SAME:
            yield f"{variant['name']}: the bars add up to {bars} of the step"
    free = [_free(variant) for variant in variants]
    if max(free) > min(free) * (1 + ALIKE):
        yield f"without a scale-out network the same job takes from {min(free)} to {max(free)} s"
    head = next((line for line in outputs[1].text.splitlines() if line.startswith("variant ")), "")
    for word in ("network tax", "MFU"):
        if word not in head:
            yield f"the table has no column `{word}`: {head}"
    if " GB" in outputs[1].text.replace(" GB/s", ""):
        yield "device memory is printed in GB"
    yield from _leads(outputs[1].text)


def _leads(text: str) -> Iterator[str]:
    """Behind the tables the first sentence says what share of tokens the scale-out network takes."""
    _, _, behind = text.partition("\nvariant ")
    words = " ".join(behind.partition("\n\n")[2].split())
    first = words.split(". ")[0]
    if "scale-out network" not in first or "tokens" not in first or "%" not in first:
        yield f"the first sentence does not lead with the tax: {first}"


def compared(generator: np.random.Generator, folder: Path) -> Case:
    """One job on four fabrics: whatever the fabric, it takes the same step without one."""
    ranks, zero = int(generator.choice([16, 32, 64])), int(generator.choice([1, 3]))
    parallelism = {"tp": int(generator.choice([1, 2, 4])), "zero": zero, "micro_batch": 1, "recompute": "full"}
    scenario = _scenario(generator, ranks, parallelism)
    _written(folder, scenario)
    fabrics = ["roce", "ideal", *generator.choice(["infiniband", "spectrum-x", "uec", "scheduled"], 2, replace=False)]
    command = ["compare", "drawn.yaml", "--vary", f"fabric={','.join(fabrics)}"]
    cluster = scenario["cluster"]
    return Case(
        words=f"{scenario['workload']['training']['model']} on {ranks} GPUs of {cluster['server']}, {parallelism},"
        f" {cluster['back_end']['topology']['oversubscription']}, {', '.join(map(str, fabrics))}",
        commands=[[*command, "-q", "--json"], command],
        judge=lambda outputs: list(_judge_compared(outputs)),
    )


def _judge_inside(outputs: Sequence[Output]) -> Iterator[str]:
    (variant,) = outputs[0].data["variants"]
    tax = variant["tax"]
    yield from _parts("inside", tax)
    if tax["tokens_lost"] != 0:
        yield f"nothing crosses the scale-out network, and it takes {tax['tokens_lost']:.3%} of the tokens"
    if not tax["scale_up"]["tokens_lost"] > 0:
        yield "tensor parallelism is free"
    text = outputs[1].text
    for wrong in ("of the network", "in the network", "the whole network"):
        if wrong in text:
            yield f"NVLink is called the network: `{wrong}`"
    yield from _leads(text)


def inside(generator: np.random.Generator, folder: Path) -> Case:
    """A job that never leaves its scale-up domain."""
    tp = int(generator.choice([2, 4, 8]))
    scenario = _scenario(generator, 8, {"tp": tp, "zero": 0, "micro_batch": 1, "recompute": "full"})
    _written(folder, scenario)
    return Case(
        words=f"{scenario['workload']['training']['model']} on one {scenario['cluster']['server']}, TP {tp}",
        commands=[["run", "drawn.yaml", "-q", "--json"], ["run", "drawn.yaml"]],
        judge=lambda outputs: list(_judge_inside(outputs)),
    )


def by_hand(generator: np.random.Generator, folder: Path) -> Case:
    """Two ranks in two servers: one computes and sends, the other waits. Tax = sending / (computing + sending)."""
    rate, size = int(generator.choice([100, 200, 400])), int(generator.integers(50, 400)) * 1_000_000
    compute_s = float(generator.uniform(0.002, 0.02))
    goal = (
        f"num_ranks 2\nrank 0 {{\n  c: calc {round(compute_s * 1e9)}\n"
        f"  s: send {size}b to 1 tag 0\n  s requires c\n}}\nrank 1 {{\n  r: recv {size}b from 0 tag 0\n}}\n"
    )
    (folder / "drawn.goal").write_text(goal, encoding="utf-8")
    back_end = {"topology": "rail-optimized", "fabric": "ideal", "link_rate": f"{rate} Gb/s"}
    _written(
        folder,
        {
            "name": "drawn",
            "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": back_end},
            "workload": {"trace": {"file": "drawn.goal", "ranks_per_server": 1}},
        },
    )
    sent_s = 8 * size / (rate * 1e9)

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        tax = outputs[0].data["variants"][0]["tax"]
        yield from _parts("by hand", tax)
        low, high = (sent_s * more / (compute_s + sent_s * more) for more in (1.0, 1.1))
        if not low - SAME <= tax["tokens_lost"] <= high:
            yield f"the tax is {tax['tokens_lost']:.3%}, by hand {low:.3%} to {high:.3%}"
        if tax["exposed"]["bandwidth"] < 0.9 * tax["tokens_lost"]:
            yield f"a send alone on its link waits for bandwidth: {tax['exposed']}"
        if tax["scale_up"]["tokens_lost"] > 0.01:
            yield f"nothing is sent inside a server: {tax['scale_up']}"

    return Case(
        words=f"{size / 1e6:g} MB at {rate} Gb/s after {compute_s * 1e3:.3f} ms",
        commands=[["run", "drawn.yaml", "-q", "--json"]],
        judge=lambda outputs: list(judge(outputs)),
    )


def faulty(generator: np.random.Generator, folder: Path) -> Case:
    """A slow NIC is part of the tax; without a scale-out network the job with it and without it takes the same step."""
    scenario = _scenario(generator, 32, {"tp": 1, "zero": 3, "micro_batch": 1, "recompute": "full"})
    _written(folder, scenario)
    servers = generator.integers(4)
    factor = f"{generator.integers(20, 60)} %"
    scenario["faults"] = [{"kind": "degrade-link", "cable": f"server {servers} nic 0 - leaf 0", "factor": factor}]
    scenario["cluster"]["placement"] = "packed"
    clean = {key: value for key, value in scenario.items() if key != "faults"}
    (folder / "clean.yaml").write_text(json.dumps(clean), encoding="utf-8")
    _written(folder, scenario)

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        hit, plain = (output.data["variants"][0] for output in outputs)
        for name, variant in (("hit", hit), ("clean", plain)):
            yield from _parts(name, variant["tax"])
        if abs(_free(hit) / _free(plain) - 1) > ALIKE:
            yield f"without a scale-out network {_free(hit)} s with the slow NIC, {_free(plain)} s without it"
        if hit["tax"]["tokens_lost"] < plain["tax"]["tokens_lost"] - SAME:
            yield "a slow NIC lowers the tax"

    return Case(
        words=f"{scenario['workload']['training']['model']}, NIC of server {servers} at {factor}",
        commands=[["run", "drawn.yaml", "-q", "--json"], ["run", "clean.yaml", "-q", "--json"]],
        judge=lambda outputs: list(judge(outputs)),
    )


def _served(generator: np.random.Generator, rates: Sequence[int], pools: dict[str, Any]) -> dict[str, Any]:
    asked = {
        "rate": round(float(generator.uniform(1.0, 3.0)), 2),
        "input": {"mean": int(generator.integers(800, 4000)), "p99": 16000},
        "output": {"mean": int(generator.integers(50, 300)), "p99": 900},
        "count": 300,
    }
    return {
        "name": "drawn",
        "cluster": {
            "accelerators": 16,
            "server": "hgx-h100",
            "back_end": {"topology": "rail-optimized", "fabric": "roce"},
        },
        "workload": {
            "serving": {
                "model": "llama-3-70b",
                "precision": "fp8",
                "requests": {"synthetic": asked},
                "pools": pools,
                "slo": {"ttft": "1 s", "tpot": "40 ms"},
            }
        },
        "compare": {"vary": {"link_rate": [f"{rate} Gb/s" for rate in rates]}},
    }


def served(generator: np.random.Generator, folder: Path) -> Case:
    """Prompts in one server, answers in another: keys and values cross the network, less of a tax on faster links."""
    rates = sorted(generator.choice([10, 25, 50, 100, 200, 400], 3, replace=False).tolist())
    pools = {"prefill": {"replicas": 2, "tp": 4}, "decode": {"replicas": 2, "tp": 4}}
    _written(folder, _served(generator, rates, pools))

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        taxes = [variant["tax"] for variant in outputs[0].data["variants"]]
        shares = [tax["ttft"]["p50"] for tax in taxes]
        if not shares[0] > 0:
            yield f"keys and values cross at {rates[0]} Gb/s for nothing: {taxes[0]}"
        for slow, fast in pairwise(shares):
            if fast > slow + 0.01:
                yield f"a faster link raises the share of the first token: {shares} at {rates} Gb/s"
        for tax in taxes:
            if not 0 <= tax["goodput_lost"] <= 1:
                yield f"goodput lost is {tax['goodput_lost']}"

    return Case(
        words=f"prefill and decode on separate servers, at {rates} Gb/s",
        commands=[["compare", "drawn.yaml", "-q", "--json"]],
        judge=lambda outputs: list(judge(outputs)),
    )


def served_inside(generator: np.random.Generator, folder: Path) -> Case:
    """Replicas that lie inside servers and do not talk: the scale-out network takes nothing, NVLink something."""
    tp = int(generator.choice([2, 4, 8]))
    _written(folder, _served(generator, [400], {"both": {"replicas": 16 // tp, "tp": tp}}))

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        tax = outputs[0].data["variants"][0]["tax"]
        if tax["goodput_lost"] != 0 or any(tax["ttft"].values()) or any(tax["tpot"].values()):
            yield f"nothing crosses the scale-out network: {tax}"
        if not tax["scale_up"]["tpot"]["p50"] > 0:
            yield f"tensor parallelism is free: {tax['scale_up']}"

    return Case(
        words=f"replicas of TP {tp}",
        commands=[["compare", "drawn.yaml", "-q", "--json"]],
        judge=lambda outputs: list(judge(outputs)),
    )


for trial in (
    Trial("network-tax", "One figure leads; its parts add up; without a network all variants take one step.", compared),
    Trial(
        "network-tax-inside", "A job inside one server pays no scale-out tax, and NVLink is not the network.", inside
    ),
    Trial("network-tax-by-hand", "One exposed send: tax = send / (compute + send).", by_hand),
    Trial("network-tax-fault", "A slow NIC raises the tax and leaves the step without a network as it is.", faulty),
    Trial("network-tax-serving", "Faster links, less of the first token lost.", served),
    Trial("network-tax-serving-inside", "Replicas inside servers pay no scale-out tax.", served_inside),
):
    trials.add(trial.name, trial)
