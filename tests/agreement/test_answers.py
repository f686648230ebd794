"""Answers to questions that are related: better parts never do worse, and how a question is written changes nothing."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import railyard

if TYPE_CHECKING:
    from collections.abc import Mapping

# A communication that ends earlier can meet others at a worse moment (Graham's anomalies), by this much.
ANOMALY = 1 + 5e-4
# Each example is two to four runs: shrinking a failing one would take minutes, and its question is printed as it is.
EXAMPLES = settings(max_examples=2, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    """A training job of one to four servers, in closed form or on flows."""
    servers, tp = draw(st.sampled_from((1, 2, 3, 4))), draw(st.sampled_from((1, 2, 4)))
    model, least = draw(st.sampled_from((("llama-3-8b", 1), ("qwen3-30b-a3b", 3))))
    oversubscription = draw(st.sampled_from(("1:1", "2:1", "4:1")))
    training = {
        "model": model,
        "tokens": 2 * 10**9,
        "global_batch": 8 * servers * draw(st.sampled_from((1, 2))),
        "sequence": 2048,
        "parallelism": {"tp": tp, "zero": draw(st.integers(least, 3)), "micro_batch": 1, "recompute": "full"},
    }
    back_end = {
        "topology": {"kind": "leaf-spine", "oversubscription": oversubscription, "ports_per_leaf": 16},
        "fabric": draw(st.sampled_from(("roce", "uec", "infiniband", "ideal"))),
    }
    return {
        "name": "question",
        "engine": draw(st.sampled_from(("analytic", "flow"))),
        "cluster": {"accelerators": 8 * servers, "server": "hgx-h200", "back_end": back_end},
        "workload": {"training": training},
    }


def answer(question: Mapping[str, Any], **changes: Any) -> Any:
    """The one variant of a question, with other values by dotted key (`_` for `.`)."""
    overrides = {key.replace("__", "."): value for key, value in changes.items()}
    return railyard.run(question, overrides=overrides, out=None).result.variants[0]


@EXAMPLES
@given(question=questions())
def test_a_faster_network_is_never_slower(question: dict[str, Any]) -> None:
    """The same job on links of 100, 200 and 400 Gb/s."""
    steps = [answer(question, cluster__back_end__link_rate=f"{rate} Gb/s").step.seconds for rate in (100, 200, 400)]
    assert steps[2] <= steps[1] * ANOMALY
    assert steps[1] <= steps[0] * ANOMALY


@EXAMPLES
@given(question=questions())
def test_prices_move_dollars_and_nothing_else(question: dict[str, Any]) -> None:
    """Energy at 5 and 15 cents: dollars a million tokens grow by the energy alone, three times as much of it."""
    cheap, dear = (answer(question, economics__electricity=f"${price}/kWh") for price in (0.05, 0.15))
    energy = [next(row.typical for row in one.cpmt.breakdown if row.name == "energy") for one in (cheap, dear)]
    assert energy[1] == pytest.approx(3 * energy[0], rel=1e-9)
    assert dear.cpmt.typical - cheap.cpmt.typical == pytest.approx(energy[1] - energy[0], rel=1e-6)
    assert dear.step.seconds == cheap.step.seconds
    assert dear.power.total_w == cheap.power.total_w


@EXAMPLES
@given(question=questions(), factor=st.sampled_from((2, 10)))
def test_more_failures_take_longer(question: dict[str, Any], factor: int) -> None:
    """A part that fails `factor` times as often: as many more interruptions a token, a later end, dearer tokens."""
    rare, often = (answer(question, economics__mtbf=f"{hours} h") for hours in (100_000, 100_000 // factor))
    assert often.jct.interruptions / often.jct.seconds == pytest.approx(
        factor * rare.jct.interruptions / rare.jct.seconds, rel=1e-6
    )
    assert often.jct.seconds > rare.jct.seconds
    assert often.cpmt.typical > rare.cpmt.typical
    assert often.step.seconds == rare.step.seconds


@EXAMPLES
@given(question=questions())
def test_twice_the_tokens_take_twice_the_time_and_money(question: dict[str, Any]) -> None:
    """A budget of tokens in two halves costs what the whole does; the price of a token stays."""
    half, whole = (answer(question, workload__training__tokens=n * 10**9) for n in (4, 8))
    steps = 4 * 10**9 / (question["workload"]["training"]["global_batch"] * 2048)
    assert whole.jct.seconds == pytest.approx(2 * half.jct.seconds, rel=2 / steps)
    assert whole.cpmt.typical == pytest.approx(half.cpmt.typical, rel=1e-9)


@EXAMPLES
@given(question=questions())
def test_more_memory_changes_no_step(question: dict[str, Any]) -> None:
    """An H200 is an H100 with more and faster memory: its step is no longer."""
    assert answer(question).step.seconds <= answer(question, cluster__server="hgx-h200").step.seconds * ANOMALY


def _reversed(value: Any) -> Any:
    """The same document with its keys in the opposite order."""
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return value


@EXAMPLES
@given(question=questions())
def test_how_a_question_is_written_changes_no_byte(question: dict[str, Any]) -> None:
    """Keys in another order, other units for the same values, YAML or JSON."""
    plain = copy.deepcopy(question)
    plain["cluster"]["back_end"]["link_rate"] = "200 Gb/s"
    other = copy.deepcopy(plain)
    other["cluster"]["back_end"]["link_rate"] = "0.2 Tb/s"
    other["workload"]["training"]["tokens"] = "2 B"
    forms = [plain, other, yaml.safe_load(yaml.safe_dump(_reversed(plain))), json.loads(json.dumps(plain))]
    first, *others = (answer(form) for form in forms)
    for one in others:
        assert one.model_dump_json() == first.model_dump_json()


@EXAMPLES
@given(question=questions())
def test_the_order_of_variants_changes_none_of_them(question: dict[str, Any]) -> None:
    """Variants of a comparison, in both orders and alone, are the same to the byte."""
    names = ["roce", "uec"]

    def compared(order: list[str]) -> dict[str, str]:
        run = railyard.compare(question, vary={"fabric": order}, out=None)
        return {one.name: one.model_dump_json() for one in run.result.variants}

    forward, backward = compared(names), compared(names[::-1])
    assert forward == backward
    alone = answer(question, cluster__back_end__fabric="uec")
    assert alone.step.seconds == json.loads(forward["uec"])["step"]["seconds"]
