"""Other prices for a run that was kept: the one formula again, and where the choice turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import railyard
from railyard.kit.errors import InputError
from railyard.work.study import repricing
from railyard.work.study.folder import read_result

SMALL = {
    "name": "small",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {
        "training": {
            "model": "llama-3.2-1b", "tokens": "1 T", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 2},
        }
    },
    "compare": {"vary": {"fabric": ["roce", "infiniband"]}},
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return railyard.run(SMALL, out=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def rows(run):
    return repricing.ledgers(run.result, run.folder)


def test_at_the_same_prices_the_cost_is_that_of_the_run(run, rows):
    for row, variant in zip(rows, run.result.variants, strict=True):
        found = row.at_prices({})
        assert (found.cpmt.low, found.cpmt.typical, found.cpmt.high) == pytest.approx(variant.cpmt.ends)
        parts = {part.name: part.typical for part in variant.cpmt.breakdown}
        assert found.parts == pytest.approx(parts)


@pytest.mark.parametrize(
    ("name", "override", "value"),
    [
        ("electricity_usd_per_kwh", "economics.electricity", 0.31),
        ("pue", "economics.pue", 1.42),
        ("life_years", "economics.life", 2.5),
        ("cost_of_capital", "economics.cost_of_capital", 0.17),
    ],
)
def test_a_moved_price_gives_what_a_run_with_it_gives(rows, name, override, value):
    units = {"economics.electricity": f"{value} USD/kWh", "economics.life": f"{value} years"}
    again = railyard.run(SMALL, overrides={override: units.get(override, value)}, out=None)
    for row, variant in zip(rows, again.result.variants, strict=True):
        found = row.at_prices({name: value})
        assert (found.cpmt.low, found.cpmt.typical, found.cpmt.high) == pytest.approx(variant.cpmt.ends)


def test_a_dearer_accelerator_costs_its_share_of_capital_and_operations(rows):
    row = rows[0]
    before, after = row.at_prices({}), row.at_prices({"accelerators": 1.5})
    bought = sum(row.inputs[f"{name}_usd"].typical for name in repricing.FACTORS)
    share = row.inputs["accelerators_usd"].typical / bought
    assert after.parts["capital"] == pytest.approx(before.parts["capital"] * (1 + 0.5 * share))
    assert after.parts["operations"] == pytest.approx(before.parts["operations"] * (1 + 0.5 * share))
    assert after.parts["energy"] == before.parts["energy"]


@given(st.sampled_from(repricing.FACTORS), st.floats(0.3, 3.0))
def test_where_the_choice_turns_both_cost_the_same(rows, name, value):
    changes = {name: value}
    for turn in repricing.turns(rows, changes):
        there = {**changes, turn.price: turn.value}
        prices = {row.name: row.at_prices(there).cpmt.typical for row in rows}
        assert prices["roce"] == pytest.approx(prices["infiniband"], rel=1e-9)
        assert turn.now / 10 <= turn.value <= turn.now * 10


def test_another_catalogue_than_that_of_the_run_is_noticed(run, tmp_path):
    (tmp_path / "scenario.yaml").write_text(
        (run.folder / "scenario.yaml").read_text().replace("economics: {}", "economics: {pue: 1.9}")
    )
    with pytest.raises(InputError, match="does not cost what it cost in its run"):
        repricing.ledgers(read_result(run.folder / "result.json"), tmp_path)
