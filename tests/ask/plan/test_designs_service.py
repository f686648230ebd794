"""Plans of services: layouts and clusters in one space, limits as a constraint, and families that did not run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.ask.plan.here import Here

from railyard.ask.plan import service
from railyard.ask.plan.build import DesignBench
from railyard.ask.plan.conclusion import why
from railyard.ask.plan.evaluate import simulated
from railyard.ask.plan.judgement import family_of, rivals_of
from railyard.ask.plan.planned import PlannedDesigns, begin
from railyard.ask.plan.planning import DesignPlanner
from railyard.ask.plan.price import SLOWER, Goodputs, kept_of
from railyard.ask.plan.space import space_of
from railyard.ask.plan.study import answer_of, ending_at_once
from railyard.ask.plan.uncertainty import worth
from railyard.measure.serving.latencies import Served
from railyard.measure.serving.objective import Objective, goodput
from railyard.work.scenario import load
from railyard.work.study.folder import Journal

LAYOUTS = [
    {"both": {"tp": [2, 8]}},
    {"prefill": {"tp": 4, "replicas": [1, 2]}, "decode": {"tp": 4}},
]


def values(space: dict[str, Any] | None = None, **section: Any) -> dict[str, Any]:
    return {
        "name": "s",
        "cluster": {
            "accelerators": 16,
            "server": "hgx-h100",
            "back_end": {"topology": "leaf-spine", "fabric": "roce"},
        },
        "workload": {
            "serving": {
                "model": "llama-3-8b",
                "requests": {"synthetic": {"rate": 15, "input": 900, "output": 130, "count": 150}},
                "pools": {"both": {"tp": 8}},
                "slo": {"ttft": "300 ms", "tpot": "9 ms", "attainment": "90 %"},
            }
        },
        "plan": {"space": space or {"pools": LAYOUTS, "fabric": ["roce", "infiniband"]}, **section},
    }


def planned(draft, workers: Here | None = None, journal: Journal | None = None) -> PlannedDesigns:
    begun, section = begin(draft)
    with ending_at_once(begun, section):
        DesignPlanner.of(draft, begun, section, workers or Here(), journal or Journal(None)).run()
    return begun


def test_layouts_are_every_combination_of_their_lists_and_have_names_of_their_own():
    space = space_of(load.from_values(values()))
    assert space.size == 8
    names = [space.name(point) for point in range(8)]
    assert len(set(names)) == 8
    assert names[0] == "both tp 2, roce"
    assert names[7] == "prefill 2 x tp 4 and decode tp 4, infiniband"
    assert space.settings(2)["pools"] == {"both": {"tp": 8}}
    assert family_of(space, 0) == ("roce", "both")
    assert family_of(space, 7) == ("infiniband", "decode and prefill")


def test_the_choice_is_what_the_engine_finds_best_of_all_points():
    draft = load.from_values(values(objectives=["cpmt", "ttft_p90", "capex"], effort={"serving": 5, "draws": 200}))
    found = planned(draft)
    bench = DesignBench(found.space)
    every = {point: simulated(bench, point, 0, "serving", {}) for point in range(8)}
    kept = [point for point, one in every.items() if not one.error and one.figures["attainment"] >= 0.9]
    best = min(kept, key=lambda point: every[point].figures["cpmt"])
    assert found.choices[0].point == best
    assert found.choices[0].figures["cpmt"] == pytest.approx(every[best].figures["cpmt"])
    answer = json.loads(answer_of(found).text())
    # Five as asked for, and the best of a family that may still win.
    assert answer["looked_at"]["serving"] == 6
    assert answer["front"][0]["engine"] == "serving"
    assert {row["name"] for row in answer["constraints"]} == {"slo"}
    rows = [*answer["front"], *answer["runners_up"]]
    assert sum(row["probability_best"] for row in rows) == pytest.approx(1.0)
    assert found.choices[0].missed[0][0].factor.name == "iterations of llama-3-8b on h100-sxm"


def test_at_its_break_even_price_a_runner_up_is_as_good_and_beyond_it_better():
    found = planned(load.from_values(values(effort={"serving": 8, "draws": 100})))
    goodputs, best = Goodputs(), found.choices[0]

    def cost(choice, part, price):
        return float(worth(choice, {f"price of {part}": np.array([price])}, (1.0,), goodputs).figures["cpmt"][0])

    assert found.even
    for row in found.even:
        other = next(one for one in found.choices if one.name == row.choice)
        assert cost(other, row.part, row.even_usd) == pytest.approx(cost(best, row.part, row.even_usd), rel=1e-9)
        beyond = row.even_usd * (1.05 if row.dearer else 0.95)
        assert cost(other, row.part, beyond) < cost(best, row.part, beyond)
        assert cost(other, row.part, row.price_usd) > cost(best, row.part, row.price_usd)


def test_money_that_is_worked_out_again_is_the_same():
    bench = DesignBench(space_of(load.from_values(values())))
    run = simulated(bench, 5, 0, "serving", {})
    again = service._look(bench, (5, 0), run)[2]
    for name in ("cpmt", "usd_per_h", "power", "capex", "racks", "tokens_per_watt"):
        mine = {"power": again.power.total_w.typical, "capex": again.capex.total_usd.typical}
        mine["tokens_per_watt"] = again.tokens_per_s / again.power.total_w.typical
        assert mine.get(name, getattr(again, name, None)) == pytest.approx(run.figures[name], rel=1e-9), name


def test_a_point_without_a_closed_form_is_kept_with_its_reason():
    scaled = {"pools": [{"both": {"tp": [4, 8]}}, {"both": {"tp": 8, "autoscale": {"least": 1}}}]}
    found = planned(load.from_values(values(scaled, effort={"serving": 2, "rivals": 0, "draws": 100})))
    assert list(found.failed) == [2]
    assert "autoscaling" in found.failed[2]


def test_after_ctrl_c_the_best_so_far_is_the_answer_and_the_rest_goes_on(tmp_path):
    draft = load.from_values(values(effort={"serving": 4, "rivals": 0, "draws": 100}))
    whole = answer_of(planned(draft)).text()
    path = tmp_path / "points.jsonl"
    first = planned(draft, Here(stop_after=3), Journal(path))
    assert first.stopped == "user"
    assert first.choices
    assert answer_of(planned(draft, journal=Journal(path))).text() == whole


def test_goodput_of_slower_replicas_is_what_still_keeps_its_limits():
    """Limits of 2 s and 0.1 s: requests of 10, 100 and 1,000 tokens keep them up to 4, 2 and 1.25 times as slow."""
    none = np.zeros(4)
    found = Served(
        arrival_s=none,
        done_s=np.array([10.0, 10.0, 10.0, np.nan]),
        input_tokens=np.array([4, 40, 400, 7]),
        output_tokens=np.array([6, 60, 600, 7]),
        cached_tokens=np.zeros(4, np.int64),
        ttft_s=np.array([0.5, 1.0, 0.1, np.nan]),
        **dict.fromkeys(("queue_s", "transfer_s", "collectives_s", "compute_s", "decode_collectives_s"), none),
        tpot_s=np.array([0.01, np.nan, 0.08, np.nan]),
        e2e_s=none + 1.0,
        status=np.array([0, 0, 0, 2], np.uint8),
    )
    objective = Objective(2.0, 0.1)
    # All come at once and none ends before the last has come: the window is the whole run of 10 s.
    kept = kept_of(found, objective, goodput(found, objective))
    expected = [(10 * (at <= 4) + 100 * (at <= 2) + 1000 * (at <= 1.25)) / 10.0 for at in SLOWER]
    assert kept == pytest.approx(expected)


def hand(space_values, ran: dict[int, float]) -> tuple[PlannedDesigns, np.ndarray]:
    """A plan of which some points ran: closed form 1.00, 1.02, 1.04, ... by number."""
    draft = load.from_values(space_values)
    begun, _ = begin(draft)
    begun.closed_form = (0.0, 0.03, 5)
    from railyard.ask.plan.outcome import DesignOutcome

    begun.points = list(range(begun.space.size))
    for point in begun.points:
        figures = {"cpmt": 1.0 + 0.02 * point, "attainment": 1.0}
        begun.outcomes[point, 0, "analytic"] = DesignOutcome(point, 0, "analytic", figures=figures)
        if point in ran:
            figures = {"cpmt": ran[point], "attainment": 1.0}
            begun.outcomes[point, 0, "serving"] = DesignOutcome(point, 0, "serving", figures=figures)
    left = [point for point in begun.points if point not in ran]
    return begun, np.array([1.0 + 0.02 * point for point in left])


def test_a_family_that_may_win_and_did_not_run_is_named():
    """Four families (fabric, kind of layout). Points 0 and 1 ran, roce and infiniband together, the best 1.01. Of those
    apart the first are 1.08 and 1.10: twice the spread is 1 - e^-0.06 = 5.82 %, so 1.017 cannot win and 1.036 neither;
    with a best of 1.02 the first may, by 1 - 1.0171 / 1.02."""
    plan, hoped = hand(values(), {0: 1.01, 1: 1.03})
    left = [2, 3, 4, 5, 6, 7]
    assert rivals_of(plan, left, hoped) == []
    plan, hoped = hand(values(), {0: 1.02, 1: 1.03})
    found = rivals_of(plan, left, hoped)
    assert [one.point for one in found] == [4]
    least = 1.08 * math.exp(-0.06)
    name = "prefill 1 x tp 4 and decode tp 4, roce"
    figures = {"point": 4, "value": pytest.approx(1.08), "ahead": pytest.approx(1 - least / 1.02)}
    assert found[0].plain() == {"family": "roce, decode and prefill", "variant": name, **figures}


def test_rivals_run_before_the_budget_goes_to_more_of_the_same():
    """Of four runs some are of layouts that the closed form puts behind: they may win within its error."""
    found = planned(load.from_values(values(effort={"serving": 4, "rivals": 0, "draws": 100})))
    ran = {family_of(found.space, point) for point in range(8) if found.ran(point)}
    assert {family[1] for family in ran} == {"both", "decode and prefill"}


def test_why_not_names_the_tokens_in_time():
    found = planned(load.from_values(values(effort={"serving": 8, "draws": 100})))
    best, other = found.choices[0], found.choices[1]
    mine = {**best.figures, "cpmt": 1.0, "tokens_per_s": 109.0}
    theirs = {**other.figures, "cpmt": 1.09, "tokens_per_s": 100.0}
    line = why(replace(best, figures=mine), replace(other, figures=theirs), found.objectives[:1], (1.0,))
    assert "tokens within the SLO +9.0 %" in line


SPLIT = [
    {"both": {"tp": 8, "speculative": [None, {"tokens": 2, "length": 2.3, "draft": "1 ms"}]}},
    {
        "prefill": {"replicas": 1, "tp": 8},
        "decode": {"replicas": 1, "attention": {"copies": 8}, "ffn": {"ep": 8}, "micro_batches": [1, 3]},
    },
]


def split_values(**section: Any) -> dict[str, Any]:
    found = values({"pools": SPLIT, "rate": [4, 12]}, **section)
    found["cluster"]["accelerators"] = 24
    serving = found["workload"]["serving"]
    serving |= {"model": "mixtral-8x22b", "slo": {"ttft": "3 s", "tpot": "100 ms"}}
    serving["requests"] = {"synthetic": {"rate": 4, "input": 200, "output": 200, "count": 300}}
    return found


def test_separate_attention_and_ffns_in_closed_form_are_what_the_engine_finds():
    bench = DesignBench(space_of(load.from_values(split_values())))
    points = [point for point in range(bench.space.size) if "ffn" in bench.space.name(point)]
    assert len(points) == 4
    for closed in service.sweep(bench, [(point, 0) for point in points], frozenset()):
        run = simulated(bench, closed.point, 0, "serving", {})
        for name in ("tpot_p50", "tpot_p90", "cpmt", "power"):
            assert closed.figures[name] == pytest.approx(run.figures[name], rel=0.03), name
        again = service._look(bench, (closed.point, 0), run)[2]
        assert again.usd_per_h == pytest.approx(run.figures["usd_per_h"], rel=1e-9)
        assert len(run.drawn_w) == 3  # prefill, attention, FFNs


def test_every_axis_says_which_value_won_and_why_not_the_others():
    found = planned(load.from_values(split_values(effort={"serving": 8, "rivals": 0, "draws": 100})))
    rows = json.loads(answer_of(found).text())["axes"]
    by_axis = {}
    for row in rows:
        by_axis.setdefault(row["axis"], {})[row["value"]] = row
    assert set(by_axis) == {"rate", "prefill and decode", "attention and FFN", "speculative decoding"}
    assert set(by_axis["speculative decoding"]) == {"none", "tokens 2 length 2.3 draft 1 ms"}
    for values_of in by_axis.values():
        chosen = [row for row in values_of.values() if not row["why_not"]]
        assert [row["variant"] for row in chosen] == [found.choices[0].name]
        for row in values_of.values():
            assert row["objective"] >= chosen[0]["objective"]
            assert not row["why_not"] or row["why_not"].startswith("$/Mtoken ")
