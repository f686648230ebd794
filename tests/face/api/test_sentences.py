"""Every sentence of the terminal against the numbers beside it, over examples and scenarios drawn at random."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from tests.face.api import claims

import railyard
from railyard.face import api
from railyard.face.api.query import query, selecting
from railyard.face.cli import guard
from railyard.kit.errors import InputError, RailyardError
from railyard.measure.result.variants import JobsVariant, StepVariant
from railyard.work.study.presentation import presentation_of

EXAMPLES = Path(__file__).parents[3] / "examples"
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


def by_cause(result):
    """The table of both taxes by cause."""
    return next(one for one in presentation_of(result).details(result) if "other waits" in one.headings)


def faults(result):
    plain = result.plain()["variants"]
    found = claims.of_text(
        "\n".join(
            [
                presentation_of(result).card(result, None),
                presentation_of(result).explanation(result),
                presentation_of(result).conclusion(result),
            ]
        )
    )
    found += claims.of_text("\n".join(presentation_of(result).notes(result)))
    if result.of(StepVariant) and not result.of(JobsVariant):
        table = by_cause(result)
        for cells, variant in zip(table.rows, plain, strict=True):
            found += claims.of_row(list(table.headings), list(cells), variant) + claims.of_headline(variant)
        found += claims.of_comparison(presentation_of(result).conclusion(result), plain)
    return found


@pytest.mark.parametrize(
    "name",
    [
        "first.yaml", "serving/cascade.yaml", "serving/dead-host.yaml", "serving/kv-tiers.yaml",
        "edge/cloud-edge-device.yaml",
        pytest.param("serving/oversubscribed.yaml", marks=pytest.mark.slow),
        pytest.param("edge/shared-links.yaml", marks=pytest.mark.slow),
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


@pytest.mark.parametrize("seed", [1, 2])
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
    plain, table = result.plain()["variants"], by_cause(result)
    heads, cells = list(table.headings), list(table.rows[0])
    wrong = [f"9{cell}" if heads[at] == "network tax by cause" else cell for at, cell in enumerate(cells)]
    assert claims.of_row(heads, wrong, plain[0])
    one = plain[0]
    one["bottleneck"]["headline"] = "9 x NIC rate shortens the step by 99.0 %."
    assert claims.of_headline(one)
    names = [one["name"] for one in plain]
    told = (
        f"{names[0]} costs least: $123 per million tokens (99 to 200). The scale-out network costs {names[0]} 66.6 %"
        f" (contention 66.6) of its tokens and {names[1]} 77.7 %. {names[0]} gets 77.7 % more tokens out of a GPU than"
        f" {names[1]}."
    )
    assert len(claims.of_comparison(told, plain)) >= 4
    assert claims.of_text("step -0.0 %")
    assert claims.of_text("saved nan %")


# Questions to kept plans and runs: what they give, and what a wrong one is told.

ROWS = {
    "point": [0, 1, 2, 3],
    "fabric": ["roce", "uec", "roce", "uec"],
    "accelerators": [64, 64, 128, 128],
    "cpmt": [0.4, 0.3, 0.25, None],
}


@pytest.fixture
def plan(tmp_path):
    folder = tmp_path / "runs" / "p-1"
    folder.mkdir(parents=True)
    pl.DataFrame(ROWS).write_parquet(folder / "points.parquet")
    return folder


def test_sql_is_asked_of_the_points_of_a_plan(plan):
    found = query(
        plan, "SELECT fabric, min(cpmt) AS least FROM points WHERE accelerators < 100 GROUP BY fabric ORDER BY 2"
    )
    assert found.rows() == [("uec", 0.3), ("roce", 0.4)]
    assert railyard.query(str(plan)).height == query([plan / "points.parquet"]).height == 4


def test_several_plans_are_one_table(plan, tmp_path):
    other = plan.with_name("p-2")
    other.mkdir()
    pl.DataFrame({"point": [9], "cpmt": [0.2], "sites": ["near"]}).write_parquet(other / "points.parquet")
    best = query(tmp_path / "runs", "SELECT source, point, fabric, sites FROM points ORDER BY cpmt NULLS LAST LIMIT 2")
    assert best.rows() == [("p-2", 9, None, "near"), ("p-1", 2, "roce", None)]


def test_variants_of_a_run_are_asked_alike(tmp_path):
    scenario = {
        "name": "s",
        "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}},
        "workload": {
            "training": {"model": "llama-3-8b", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 2, "pp": 1}}
        },
        "compare": {"vary": {"fabric": ["roce", "uec"]}},
    }
    run = railyard.run(scenario, out=tmp_path, engine="analytic")
    assert set(query(run.folder, 'SELECT variant, "set fabric" FROM points').rows()) == {
        ("roce", "roce"),
        ("uec", "uec"),
    }


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT fabri FROM points", r"no column `fabri`; did you mean `fabric`"),
        ("SELECT * FROM points ORDER BY cpm", r"no column `cpm`; did you mean `cpmt`"),
        ("SELECT * FROM designs", "relation 'designs' was not found"),
        ("SELECT * FROM points WHERE", "cannot be answered: sql parser error"),
        ("SELECT sum(fabric) FROM points", "cannot be answered: .*sum"),
        ("SELECT * FROM points WHERE cpmt > 'x'", "cannot compare string"),
        ("DROP TABLE points", "this is not a query"),
        ("SELECT * FROM read_csv('/etc/passwd')", "may not open files: `read_csv`"),
        ("SELECT * FROM \"READ_Parquet\"/* */('x')", "may not open files: `READ_Parquet`"),
        ("", "this is not a query"),
    ],
)
def test_a_wrong_question_says_what_is_wrong(plan, sql, words):
    with pytest.raises(InputError, match=words):
        query(plan, sql)


ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT * FROM t"
LARGE = "SELECT count(*) FROM generate_series(1, 100000000000)"


@pytest.mark.parametrize(
    ("sql", "limits", "words"),
    [
        (ENDLESS, {"limit_s": 2}, "the query was stopped after 2 s(.|\n)*at most 2 s and 4 GiB of memory"),
        (LARGE, {"limit_gib": 2}, "the query ran out of memory(.|\n)*at most 30 s and 2 GiB of memory"),
    ],
)
def test_a_question_without_end_is_stopped_with_a_sentence(plan, sql, limits, words):
    with pytest.raises(InputError, match=words):
        railyard.query(plan, sql, **limits)


@pytest.mark.parametrize(("name", "value"), [("limit_s", 0), ("limit_gib", 0.5), ("threads", 0), ("limit_s", 1e9)])
def test_limits_have_a_range(plan, name, value):
    with pytest.raises(InputError, match=f"{name}: there is no such limit"):
        query(plan, **{name: value})


def test_a_question_has_as_many_threads_as_it_is_given(plan, monkeypatch):
    module = sys.modules[query.__module__]
    monkeypatch.setattr(
        module,
        "_ANSWER",
        "import sys\n"
        "from railyard.face.api.query import answer\n"
        "def answered(table, sql):\n"
        "    import polars\n"
        "    return polars.DataFrame({'n': [polars.thread_pool_size()]})\n"
        "sys.modules['railyard.face.api.query']._answered = answered\n"
        "answer()",
    )
    assert [query(plan, threads=count).item() for count in (1, 3)] == [1, 3]
    assert query(plan).item() == 4


def test_a_script_needs_no_guard_around_its_main_program(plan):
    """The process that answers imports nothing of the user's."""
    script = f"import railyard\nprint(railyard.query({str(plan)!r}).height)"
    (plan / "json.py").write_text("raise SystemExit(9)", encoding="utf-8")
    file = plan / "script.py"
    file.write_text(script, encoding="utf-8")
    assert (
        subprocess.run([sys.executable, "-P", file], cwd=plan, capture_output=True, text=True, check=True).stdout
        == "4\n"
    )


def test_what_is_neither_plan_nor_run_is_said(tmp_path, plan):
    for source in (tmp_path / "nothing", tmp_path):
        with pytest.raises(InputError, match="neither a plan nor a run"):
            query(source)
    (plan / "points.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match="cannot be"):
        query(plan)


def test_filters_are_sql():
    assert selecting() == "SELECT * FROM points"
    assert (
        selecting(where="cpmt < 1", columns=["a", " b"], sort="-a", most=3)
        == 'SELECT "a", "b" FROM points WHERE cpmt < 1 ORDER BY "a" DESC NULLS LAST LIMIT 3'
    )


def test_the_command_prints_a_table_or_json(plan, capsys):
    assert guard.run(["plan", "query", str(plan), "--sort", "-cpmt", "--most", "2", "--columns", "fabric,cpmt"]) == 0
    first, table = capsys.readouterr().out.split("\n\n")
    assert first == "2 points found, with 2 columns."
    assert table.split() == ["fabric", "cpmt", "roce", "0.4", "uec", "0.3"]
    assert guard.run(["plan", "query", str(plan), "--where", "cpmt IS NULL", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"point": 3, "fabric": "uec", "accelerators": 128, "cpmt": None}]
    assert guard.run(["plan", "query", str(plan), "--sql", "SELECT 1", "--sort", "cpmt"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "either `--sql`" in captured.err
