"""Every sentence of the terminal against the numbers beside it, over examples and scenarios drawn at random."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.api import claims

from railyard.face import api
from railyard.kit.errors import RailyardError
from railyard.work.study.presentation import comparison, presentation_of

EXAMPLES = Path(__file__).parents[2] / "examples"
FABRICS = ["roce", "infiniband", "spectrum-x", "uec", "scheduled", "ideal"]
DEGREES = {"llama-3-8b": (1, 2, 4, 8), "llama-3-70b": (4, 8), "mixtral-8x7b": (1, 2, 4)}
VARIED = {
    "fabric": lambda draw: draw.sample(FABRICS, 2),
    "oversubscription": lambda draw: ["1:1", draw.choice(["2:1", "4:1"])],
    "topology": lambda draw: draw.sample(["leaf-spine", "rail-optimized", "three-tier"], 2),
    "link_rate": lambda _draw: ["400 Gb/s", "200 Gb/s"],
    "placement": lambda _draw: ["packed", "scattered"],
}


def drawn(seed):
    """A comparison of two variants; None where the layout does not fit."""
    draw = random.Random(seed)
    ranks, model = draw.choice([8, 16, 32, 64, 96]), draw.choice(sorted(DEGREES))
    layout = {"tp": draw.choice(DEGREES[model]), "pp": draw.choice([1, 1, 2, 4])}
    layout["zero"] = draw.choice([0, 1, 3] if layout["pp"] == 1 else [0, 1])
    if model.startswith("mixtral"):
        layout["ep"] = draw.choice([4, 8])
    key = draw.choice(sorted(VARIED))
    network = {"topology": "leaf-spine", "fabric": draw.choice(FABRICS)}
    batch = ranks * draw.choice([1, 2, 4])
    work = {"model": model, "global_batch": batch, "sequence": 2048, "tokens": "1 T", "parallelism": layout}
    scenario = {
        "name": "drawn",
        "seed": seed,
        "cluster": {"accelerators": ranks, "server": draw.choice(["hgx-h100", "hgx-h200"]), "back_end": network},
        "workload": {"training": work},
        "compare": {"vary": {key: VARIED[key](draw)}},
    }
    try:
        return api.run(scenario, engine=draw.choice(["analytic", "flow"]), out=None).result
    except RailyardError:
        return None


def faults(result):
    plain = result.plain()["variants"]
    found = claims.of_text(
        "\n".join(
            [
                presentation_of(result).card(result, None),
                presentation_of(result).explain(result),
                presentation_of(result).why(result),
            ]
        )
    )
    found += claims.of_text("\n".join(presentation_of(result).notes(result)))
    if result.steps and not result.jobs:
        table = comparison(result)
        for cells, variant in zip(table.rows, plain, strict=True):
            found += claims.of_row(list(table.headings), list(cells), variant) + claims.of_headline(variant)
        found += claims.of_comparison(presentation_of(result).why(result), plain)
    return found


@pytest.mark.parametrize(
    "name",
    [
        "first.yaml", "slow-data.yaml", "serving/cascade.yaml", "serving/dead-host.yaml",
        "serving/kv-tiers.yaml", "serving/oversubscribed.yaml", "edge/cloud-edge-device.yaml", "edge/shared-links.yaml",
    ],
)  # fmt: skip
def test_examples_say_nothing_false(name):
    assert faults(api.run(EXAMPLES / name, out=None).result) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_all_examples_say_nothing_false(path):
    if path.stem in ("plan", "llama3-70b-1024-h100", "moe-deepseek-v3"):
        pytest.skip("a plan, or a thousand GPUs")
    assert faults(api.run(path, out=None).result) == []


@pytest.mark.parametrize("seed", range(4))
def test_drawn_scenarios_say_nothing_false(seed):
    result = drawn(seed)
    assert result is None or faults(result) == []


@pytest.mark.slow
def test_two_hundred_drawn_scenarios_say_nothing_false():
    seen, seed = 0, 1000
    while seen < 200:
        result, seed = drawn(seed), seed + 1
        if result is not None:
            seen += 1
            assert faults(result) == [], seed - 1


def test_a_false_sentence_is_seen():
    """The checks can fail: each is shown a result whose numbers are not those of its words."""
    result = next(one for seed in range(20) if (one := drawn(seed)) is not None)
    plain, table = result.plain()["variants"], comparison(result)
    heads, cells = list(table.headings), list(table.rows[0])
    wrong = [f"9{cell}" if heads[at] == "network tax" else cell for at, cell in enumerate(cells)]
    assert claims.of_row(heads, wrong, plain[0])
    one = plain[0]
    one["bottleneck"]["headline"] = "9 x NIC rate shortens the step by 99.0 %."
    assert claims.of_headline(one)
    names = [one["name"] for one in plain]
    told = (
        f"{names[0]} loses 66.6 % of its tokens to the scale-out network, {names[1]} 77.7 %."
        f" {names[0]} gets 77.7 % more tokens out of a GPU than {names[1]}."
    )
    assert len(claims.of_comparison(told, plain)) == 2
    assert claims.of_text("step -0.0 %")
    assert claims.of_text("saved nan %")
