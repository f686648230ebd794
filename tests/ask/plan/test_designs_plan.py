"""Plans from a file to a front: what they say, that they go on after a kill, and what the command prints."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import polars as pl
import pytest
from tests.ask.plan.here import Here

from railyard.ask.plan import evaluate
from railyard.ask.plan.build import DesignBench
from railyard.ask.plan.conclusion import why
from railyard.ask.plan.evaluate import sweep
from railyard.ask.plan.lessons import Lessons
from railyard.ask.plan.outcome import DesignOutcome
from railyard.ask.plan.planned import begin
from railyard.ask.plan.planning import DesignPlanner
from railyard.ask.plan.space import space_of
from railyard.ask.plan.study import answer_of, ending_at_once
from railyard.face.cli import guard
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.scenario import load
from railyard.work.study.folder import Journal
from railyard.work.study.tasks import Done, Task, call
from railyard.work.study.workers import Local

TRAINING = {
    "model": "llama-3-8b",
    "global_batch": 64,
    "sequence": 4096,
    "tokens": "1 T",
    "parallelism": {"tp": 2, "pp": 1},
}
SPACE = {"fabric": ["roce", "infiniband", "uec"], "oversubscription": ["1:1", "4:1"]}


def values(**section: Any) -> dict[str, Any]:
    cluster = {"accelerators": 64, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}}
    return {"name": "p", "cluster": cluster, "workload": {"training": TRAINING}, "plan": {"space": SPACE, **section}}


def plain(found):
    return json.loads(answer_of(found).text())


def planned(draft, journal: Journal | None = None, workers: Here | None = None):
    begun, section = begin(draft)
    planner = DesignPlanner.of(draft, begun, section, workers or Here(), journal or Journal(None))
    with ending_at_once(begun, section):
        planner.run()
    return begun


EFFORT = {"flow": 3, "rivals": 0, "draws": 200}
CLOSED = {"flow": 0, "draws": 100}
"""Nothing but the closed form."""


@pytest.fixture(scope="module")
def whole():
    """The plan of that effort, which nobody stops."""
    return planned(load.from_values(values(effort=EFFORT)))


@pytest.fixture(scope="module")
def closed():
    return planned(load.from_values(values(effort=CLOSED)))


def test_a_plan_says_its_front_why_others_lost_and_how_sure_it_is():
    found = plain(planned(load.from_values(values(objectives=["cpmt", "step"], effort=EFFORT))))
    assert found["looked_at"] == {
        **found["looked_at"],
        **{"designs": 6, "demands": 1, "layouts": 6, "analytic": 6, "flow": 3, "packet": 0, "failed": 0},
    }
    rows = [*found["front"], *found["runners_up"]]
    assert found["best"] == rows[0]["variant"]
    assert sum(row["probability_best"] for row in rows) == pytest.approx(1.0)
    assert all(row["engine"] == "flow" for row in rows)
    assert [row["objectives"]["cpmt"] for row in found["front"]] == sorted(
        row["objectives"]["cpmt"] for row in found["front"]
    )
    assert all(row["why_not"].startswith("$/Mtoken ") for row in rows[1:])
    assert found["tornado"][0]["factor"]
    json.dumps(found, allow_nan=False)


def test_excluded_makers_are_in_no_design():
    found = planned(load.from_values(values(constraints={"exclude": ["Broadcom"]}, effort=EFFORT)))
    assert {choice.name.split(",")[0] for choice in found.choices} == {"infiniband"}
    assert set(found.missed.values()) == {"exclude"}


def test_points_that_cannot_be_are_kept_with_their_error():
    section = {"space": {"accelerators": [60, 64], "fabric": ["roce", "uec"]}, "effort": CLOSED}
    found = plain(planned(load.from_values(values(**section))))
    assert {row["variant"].split(",")[0] for row in found["front"]} == {"accelerators 64"}
    assert sum(row["designs"] for row in found["failed"]) == 2
    assert all(row["error"] for row in found["failed"])


def test_points_are_rows_that_sql_asks(closed, tmp_path):
    from railyard.ask.plan import study

    draft = load.from_values(values(effort=CLOSED))
    folder = study.write(closed, answer_of(closed), draft, tmp_path)
    table = pl.scan_parquet(folder / "points.parquet")
    found = table.sql("SELECT fabric, min(cpmt) AS cpmt FROM self WHERE engine = 'analytic' GROUP BY fabric").collect()
    assert "roce" in found["fabric"].to_list()
    assert (found["cpmt"] > 0).all()


def test_regret_is_the_worst_excess_over_the_best_for_a_demand():
    demand = [{"name": "dense"}, {"name": "long", "set": {"sequence": 8192, "global_batch": 32}}]
    section = {"objectives": ["step", "regret"], "demand": demand, "effort": CLOSED}
    found = planned(load.from_values(values(**section)))
    assert sorted({*found.regret, *found.twin_of}) == list(range(6))
    steps = {point: [row["step"] for row in found.rows(point)] for point in found.regret}
    best = [min(steps[point][demand] for point in steps) for demand in (0, 1)]
    for point, mine in steps.items():
        expected = max(value / least - 1 for value, least in zip(mine, best, strict=True))
        assert found.regret[point]["regret"] == pytest.approx(expected)
        assert found.figures(point)["step"] == pytest.approx(sum(mine) / 2)


def test_nothing_that_ended_runs_again_and_the_end_is_the_same(whole, tmp_path):
    draft = load.from_values(values(effort=EFFORT))
    path = tmp_path / "points.jsonl"
    first = Here(stop_after=3)  # the first design, the others, a run
    stopped = planned(draft, Journal(path), first)
    assert stopped.stopped
    assert stopped.choices
    with path.open("ab") as file:
        file.write(b'["torn line of a run that was ki')
    second = Here()
    again = planned(draft, Journal(path), second)
    assert json.dumps(plain(again)) == json.dumps(plain(whole))
    assert first.calls.count(evaluate.SWEEP) + second.calls.count(evaluate.SWEEP) == 2
    assert first.calls.count(evaluate.RUN) + second.calls.count(evaluate.RUN) == 3
    third = Here()
    planned(draft, Journal(path), third)
    assert third.calls == []


def test_stopped_before_any_point_the_answer_says_that_nothing_was_found():
    found = plain(planned(load.from_values(values(effort=EFFORT)), workers=Here(stop_after=0)))
    assert (found["best"], found["front"], found["verified"], found["stopped"]) == (None, [], None, True)
    assert found["looked_at"]["in_closed_form"] == 0


@pytest.mark.parametrize(("tasks", "designs", "runs"), [(1, 1, 0), (2, 6, 0), (3, 6, 1), (4, 6, 2)])
def test_stopped_at_any_moment_the_answer_has_the_best_so_far(tasks, designs, runs):
    """After the closed form (one design, then all others) and some runs: the best of them, and what is not verified."""
    found = plain(planned(load.from_values(values(effort=EFFORT)), workers=Here(stop_after=tasks)))
    assert found["stopped"]
    assert (found["looked_at"]["in_closed_form"], found["looked_at"]["flow"]) == (designs, runs)
    assert found["front"][0]["engine"] == ("flow" if runs else "analytic")
    assert found["front"][0]["probability_best"] is None
    assert (found["verified"] is None) == (not runs)
    if not runs:
        assert found["unverified"][0]["variant"] == found["best"]


def test_stopped_while_chances_are_drawn_the_choice_stands_without_them(whole, monkeypatch):
    from railyard.ask.plan import conclusion

    whole = plain(whole)

    def stop(*_given, **_named):
        raise KeyboardInterrupt

    monkeypatch.setattr(conclusion, "judged", stop)
    found = plain(planned(load.from_values(values(effort=EFFORT))))
    assert (found["best"], found["verified"]) == (whole["best"], whole["verified"])
    assert not any(row["bands"] for row in found["front"])


def test_the_nearest_rivals_of_the_best_run_too():
    """One run is allowed, and four rivals on top: all four clusters, which six points build."""
    found = plain(planned(load.from_values(values(effort={"flow": 1, "layouts": 0, "draws": 100}))))
    verified = found["verified"]
    assert found["looked_at"]["flow"] == 4
    assert (verified["variant"], verified["engine"], verified["share_of_step"]) == (found["best"], "flow", 1.0)
    rows = {row["variant"]: row["objectives"]["cpmt"] for row in (*found["front"], *found["runners_up"])}
    assert [rows[row["variant"]] for row in verified["rivals"]] == [row["value"] for row in verified["rivals"]]
    for row in verified["rivals"]:
        assert row["behind"] == pytest.approx(row["value"] / rows[found["best"]] - 1.0)
        assert row["behind"] >= 0.0
    assert verified["stands"]


def test_rivals_run_on_packets_where_their_time_allows_whole_steps():
    """Two designs of 16 GPUs: packets of each take a tenth of a second of a core and more."""
    tiny = {**values(), "cluster": {**values()["cluster"], "accelerators": 16}}
    training = {**TRAINING, "model": "mpt-125m", "global_batch": 16, "sequence": 2048}
    tiny |= {"workload": {"training": training}}
    tiny["cluster"]["back_end"] = {"topology": {"kind": "leaf-spine", "ports_per_leaf": 8}}
    space = {"fabric": ["infiniband", "uec"]}

    def found(verify: str):
        section = {"space": space, "effort": {"flow": 2, "layouts": 0, "draws": 100, "verify": verify}}
        return plain(planned(load.from_values({**tiny, "plan": section})))

    flow = found("0 s")["verified"]
    assert (flow["engine"], found("10 ms")["verified"]["engine"]) == ("flow", "flow")
    whole = found(f"{1.01 * flow['packets_core_s']:.3f} s")
    assert (whole["verified"]["engine"], whole["verified"]["share_of_step"]) == ("packet", 1.0)
    assert {row["engine"] for row in whole["front"]} == {"packet"}
    assert whole["verified"]["packets_core_s"] is None


def test_where_nothing_runs_all_that_may_win_is_unverified(closed):
    found = plain(closed)
    assert found["verified"] is None
    assert found["unverified"][0] == {
        **found["unverified"][0],
        **{
            "variant": found["best"],
            "value": found["front"][0]["objectives"]["cpmt"],
            "ahead": pytest.approx(0.1, abs=0.01),
        },
    }
    one = plain(planned(load.from_values(values(space={"tp": [2, 4]}, effort=CLOSED))))
    assert one["unverified"][0]["family"] == one["best"]


def test_the_closed_form_is_that_of_designs_and_prices_are_those_of_a_run():
    """Figures of a point against `railyard run` of the same scenario: money of the same step."""
    from railyard.work.study import study

    space = space_of(load.from_values(values()))
    bench = DesignBench(space)
    outcome = next(sweep(bench, [(3, 0)], frozenset({"Broadcom", "NVIDIA"})))
    assert outcome.excluded == ("NVIDIA",)
    assert sum(row[3] for row in outcome.time) == pytest.approx(1.0)
    ran = evaluate.ran(
        {
            "plan": {"digest": "x", "values": values(), "folder": "."},
            **{"point": 3, "demand": 0, "engine": "flow", "layout": outcome.layouts[0]},
        }
    )
    run = study.run(space.draft(3, 0)).result.variants[0]
    assert ran["step_s"] == pytest.approx(run.step.seconds, rel=1e-9)
    assert ran["figures"]["cpmt"] == pytest.approx(run.cpmt.typical, rel=1e-9)
    assert ran["figures"]["capex"] == pytest.approx(run.capex.total_usd.typical, rel=1e-9)
    assert ran["figures"]["power"] == pytest.approx(run.power.total_w.typical, rel=1e-9)
    assert ran["figures"]["jct"] == pytest.approx(run.jct.seconds, rel=1e-3)
    assert outcome.step_s == pytest.approx(ran["step_s"], rel=0.08)


def test_what_one_layout_teaches_alike_ones_have():
    raw = DesignOutcome(
        **{"point": 0, "demand": 0, "engine": "analytic", "step_s": 1.0},
        layouts=tuple({"global_batch": 64, "dp": 64 // pp, "pp": pp} for pp in (1, 2, 16)),
        steps_s=(1.0, 1.1, 1.2),
        figures={"cpmt": 2.0, "capex": 7.0, "tokens_per_s": 5.0},
    )
    lessons = Lessons()
    lessons.learn(DesignOutcome(0, 0, "flow", step_s=1.5, layouts=(raw.layouts[0],)), raw)
    found = lessons.corrected(raw)
    assert found.layouts[0].get("pp") == 2  # of another kind than what was seen to be half slower
    assert 1.1 < found.step_s < 1.5
    assert found.figures["cpmt"] == pytest.approx(2.0 * found.step_s)
    assert found.figures["tokens_per_s"] == pytest.approx(5.0 / found.step_s)
    assert found.figures["capex"] == 7.0
    assert lessons.next_ones(raw, 0, 3) == [raw.layouts[1]]  # nothing pipelined has run yet


def test_reasons_add_up_to_what_sets_two_designs_apart():
    found = planned(load.from_values(values(effort={"flow": 6, "draws": 100, "layouts": 0})))
    best, other = found.choices[0], found.choices[-1]
    text = why(best, other, found.objectives, found.shares)
    apart = other.figures["cpmt"] / best.figures["cpmt"] - 1
    assert text.startswith(f"$/Mtoken {100 * apart:.1f} % more: ")
    assert "network's capital" in text


@pytest.mark.processes
def test_the_command_prints_json_and_writes_the_folder(tmp_path, capsys):
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.to_text(values(effort=CLOSED)), encoding="utf-8")
    code = guard.run(["plan", str(file), "--json", "--quiet", "--out", str(tmp_path / "runs")])
    printed = json.loads(capsys.readouterr().out)
    assert code == 0
    front = printed["front"]
    assert {"variant", "objectives", "probability_best"} <= front[0].keys()
    folder = next(path for path in (tmp_path / "runs").iterdir() if not path.name.startswith("."))
    assert json.loads((folder / "plan.json").read_text()) == printed
    points = pl.read_parquet(folder / "points.parquet")
    assert points.height == 6
    assert points["cpmt"].min() == pytest.approx(front[0]["objectives"]["cpmt"])
    assert "{{" not in (folder / "plan.html").read_text()


def test_packets_judge_only_where_they_ran_two_designs():
    begun = planned(load.from_values(values(effort={"flow": 2, "rivals": 0, "draws": 100, "layouts": 0})))
    first, second = (choice.point for choice in begun.choices)
    flow = begun.outcomes[first, 0, "flow"]
    begun.outcomes[first, 0, "packet"] = dataclasses.replace(flow, engine="packet", step_s=9 * flow.step_s)
    assert begun.seen(first, 0) is flow
    assert begun.ran(first, "packet")
    assert not begun.ran(second, "packet")
    begun.engines = ("packet", *begun.engines)
    assert begun.seen(first, 0).engine == "packet"
    assert begun.seen(second, 0).engine == "flow"


LARGE = {
    "fabric": ["roce", "infiniband", "spectrum-x", "uec"],
    "oversubscription": ["1:1", "2:1", "4:1"],
    "accelerators": [32, 60, 64, 128],
    "tp": [1, 2, 4, 8],
    "micro_batch": [1, 2],
}


def test_of_a_large_space_an_optimizer_looks_at_few_and_finds_its_front(tmp_path):
    pytest.importorskip("pymoo", reason="pymoo is not installed: pip install railyard[search]")
    more = {"space": LARGE, "objectives": ["cpmt", "jct"], "constraints": {"power": "152 kW"}}
    effort = CLOSED
    every = planned(load.from_values(values(**more, effort=effort)))
    draft = load.from_values(values(**more, effort={**effort, "designs": 100, "samples": 192}))
    some = planned(draft)
    assert len(every.points) == every.space.size == 384
    assert len(some.points) == 192
    assert plain(some)["looked_at"]["in_closed_form"] == 192
    # 32 accelerators hang on one leaf: oversubscriptions of it are equal to the last digit, and either may be named.
    assert some.choices[0].figures == every.choices[0].figures
    for name in ("cpmt", "jct"):
        best = [min(row.figures[name] for row in found.choices) for found in (every, some)]
        assert best[1] == pytest.approx(best[0], rel=0.01)
    path = tmp_path / "points.jsonl"
    assert planned(draft, Journal(path), Here(stop_after=5)).stopped == "user"
    assert plain(planned(draft, Journal(path))) == plain(some)
    seeded = planned(load.from_values({**values(**more, effort={**effort, "designs": 100, "samples": 48}), "seed": 1}))
    assert set(seeded.points) - set(some.points)


def test_time_that_is_spent_ends_a_plan_with_its_best_so_far():
    class Slow(Here):
        def run(self, tasks: list[Task], until: float = math.inf):
            for done in super().run(tasks, until):
                yield done
                if done.value is not None and tasks[0].function == evaluate.RUN:
                    return  # as workers do when the time is up

    found = planned(load.from_values(values(effort={**EFFORT, "time": "1 h"})), workers=Slow())
    assert found.stopped == "time"
    assert found.choices
    with pytest.raises(InputError, match=r"time ran out before .* \(0 of 6 looked at\)"):
        planned(load.from_values(values(effort={**EFFORT, "time": "1 us"})), workers=Local(1))


def test_a_point_that_breaks_its_task_takes_no_other_with_it(monkeypatch):
    through = call

    def breaking(function: str, argument: Any) -> Any:
        if function == evaluate.SWEEP and [2, 0] in argument["points"]:
            raise ValueError("a fault of ours")
        return through(function, argument)

    class Breaking(Here):
        def run(self, tasks: list[Task], until: float = math.inf):
            for number, task in enumerate(tasks):
                try:
                    yield Done(number, breaking(task.function, task.argument))
                except ValueError as error:
                    yield Done(number, error=str(error))

    found = planned(load.from_values(values(effort=CLOSED)), workers=Breaking())
    assert found.failed == {2: "a fault of ours"}
    names = {"roce, any oversubscription", "uec, any oversubscription", "infiniband, oversubscription 4:1"}
    assert {choice.name for choice in found.choices} == names


def test_what_is_known_follows_from_the_contents_of_files(tmp_path):
    parts = tmp_path / "parts.yaml"
    plan = {**values(effort=CLOSED), "catalog": "parts.yaml"}
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.to_text(plan), encoding="utf-8")
    found = []
    for price in ("$100", "$100", "$9,000"):
        parts.write_text("{}" if price == "$100" else "# dearer\n{}", encoding="utf-8")
        here = Here()
        planned(load.load(file), Journal(tmp_path / "j.jsonl"), here)
        found.append(len(here.calls))
    assert found == [2, 0, 2]


def repriced(tmp_path, **usd: float):
    """The plan of two fabrics with other prices of switches."""
    entries = "".join(f"  {name}: {{price: ${price:.6f}}}\n" for name, price in usd.items())
    mine = tmp_path / f"mine-{len(list(tmp_path.iterdir()))}.yaml"
    mine.write_text(f"switches:\n{entries}", encoding="utf-8")
    section = {"space": {"fabric": ["roce", "infiniband"]}, "effort": CLOSED}
    draft = load.from_values({**values(**section), **({"catalog": str(mine)} if usd else {})})
    return planned(draft)


def costs(found) -> dict[str, float]:
    return {choice.name: choice.figures["cpmt"] for choice in found.choices}


def test_at_a_break_even_price_both_cost_the_same(tmp_path):
    """The plan is made again with that price in the catalogue, and not a cent lies between the two."""
    found = repriced(tmp_path)
    rows = [row for row in found.even if row.part in ("tomahawk-5", "quantum-2-qm9700")]
    assert rows
    assert len(set(costs(found).values())) == 2
    for row in rows:
        one, other = costs(repriced(tmp_path, **{row.part: row.even_usd})).values()
        assert one == pytest.approx(other, rel=1e-9)
        cheaper = repriced(tmp_path, **{row.part: 0.99 * row.even_usd}).choices[0].name
        assert (cheaper == row.choice) is not row.dearer


def test_a_swing_of_the_tornado_is_the_lead_at_that_price(tmp_path):
    found = repriced(tmp_path)
    (row,) = (row for row in found.sure.tornado if row.factor == "price of tomahawk-5")
    best, second = (choice.name for choice in found.choices)
    for price, lead in ((row.low, row.lead_low), (row.high, row.lead_high)):
        there = costs(repriced(tmp_path, **{"tomahawk-5": price}))
        # What accelerators draw at work is one factor of both designs there, and each design's own here.
        assert lead == pytest.approx(there[second] / there[best] - 1, abs=1e-5)


def test_a_port_price_is_the_network_over_its_nics():
    found = planned(load.from_values(values(space={"fabric": ["roce", "infiniband"]}, effort=CLOSED)))
    (row,) = found.ports
    best, other = found.choices
    bought = {line.name: line.price_usd.typical for line in other.priced[0].capex.lines}
    network = bought["NICs"] + bought["switches"] + bought["optics and cables"]
    assert (row.choice, row.ports) == (other.name, 64)
    assert row.usd_per_port == pytest.approx(network / 64)
    # Dollars of a network are its annuity with operations on top: what that is of the gap is the factor.
    typical = other.priced[0].typical
    yearly = typical["cost_of_capital"] / (1 - (1 + typical["cost_of_capital"]) ** -typical["life_years"])
    hourly = network * (1 + typical["installation"]) * (yearly + typical["operations"]) / 8760
    tokens = other.priced[0].tokens_per_s * 3600
    gap = (other.figures["cpmt"] - best.figures["cpmt"]) * tokens / 1e6
    assert row.even_usd_per_port == pytest.approx(row.usd_per_port * (1 - gap / hourly), rel=1e-6)


def test_parts_that_come_late_bound_what_may_be_chosen():
    delivery = {"broadcom": "200 d", "NVIDIA": "30 d"}
    section = {"delivery": delivery, "objectives": ["done", "cpmt", "delivery"], "effort": EFFORT}
    found = planned(load.from_values(values(**section)))
    for choice in found.choices:
        days = 30 if choice.name.startswith("infiniband") else 200
        assert choice.figures["delivery"] == pytest.approx(days * 86400)
        assert choice.figures["done"] == pytest.approx(days * 86400 + choice.figures["jct"])
    early = planned(load.from_values(values(**section, constraints={"delivered": "31 d"})))
    assert {choice.name.split(",")[0] for choice in early.choices} == {"infiniband"}
    with pytest.raises(InputError, match="no design keeps `deadline`: done is at least"):
        planned(load.from_values(values(**section, constraints={"deadline": "31 d"})))
    with pytest.raises(InputError, match=r"no maker and no part `Brodcom`; did you mean `Broadcom`"):
        planned(load.from_values(values(delivery={"Brodcom": "1 d"})))


def test_regret_is_told_apart_by_its_size_for_the_best_has_none():
    demand = [{"name": "a", "set": {}}, {"name": "b", "set": {"model": "llama-2-13b"}}]
    section = {"space": {"fabric": ["roce", "infiniband"]}, "effort": CLOSED}
    found = plain(planned(load.from_values(values(**section, demand=demand, objectives=["regret", "cpmt"]))))
    (other,) = [*found["front"][1:], *found["runners_up"]]
    assert found["front"][0]["objectives"]["regret"] == 0.0
    assert other["why_not"].startswith(f"regret {other['objectives']['regret']:.3g} more")


def test_where_no_design_runs_the_closed_form_chooses_and_says_so():
    def refusing(function: str, argument: Any) -> Any:
        if function == evaluate.RUN:
            raise ValueError("no engine today")
        return call(function, argument)

    class Refusing(Here):
        def run(self, tasks: list[Task], until: float = math.inf):
            for number, task in enumerate(tasks):
                try:
                    yield Done(number, refusing(task.function, task.argument))
                except ValueError as error:
                    yield Done(number, error=str(error))

    found = plain(planned(load.from_values(values(effort={"flow": 2, "draws": 100})), workers=Refusing()))
    assert found["front"][0]["engine"] == "analytic"
    assert found["verified"] is None
    assert found["unverified"][0]["variant"] == found["best"]
    assert [row["error"] for row in found["failed"]] == ["no engine today"]


def test_designs_that_build_the_same_cluster_are_one():
    """One switch a rail takes 8 servers, so that no leaf has uplinks; leafs and spines differ by the ratio."""
    ratios = ["1:1", "2:1", "4:1"]
    space = {
        "fabric": ["infiniband"],
        "topology": ["rail-only", "leaf-spine"],
        "oversubscription": ratios,
        "tokens": ["1 T", "2 T"],
    }
    found = planned(load.from_values(values(space=space, objectives=["cpmt", "step"], effort=CLOSED)))
    names = [choice.name for choice in found.choices]
    assert [name for name in names if "rail-only" in name] == [
        f"infiniband, rail-only, any oversubscription, tokens {tokens}" for tokens in ("1 T", "2 T")
    ]
    assert len([name for name in names if "leaf-spine" in name]) == 6
    said = plain(found)
    assert said["looked_at"]["same"] == 4
    row = next(row for row in (*said["front"], *said["runners_up"]) if "rail-only" in row["variant"])
    assert [one["oversubscription"] for one in row["same"]] == ratios[1:]
    assert {row["value"] for row in said["axes"] if row["axis"] == "oversubscription"} == set(ratios)
