"""Constants: fitted on the smallest scale alone, found again from runs made with them, and fitted without a source."""

from dataclasses import replace
from pathlib import Path

import pytest

from railyard import catalog
from railyard.errors import InputError
from railyard.workload.training import profiles
from railyard_validation.training.cases import predicted_s, read_cases
from railyard_validation.training.fit import fit, refitted, smallest_scale
from railyard_validation.training.leave_out import left_out

TRAINING = Path(__file__).parents[2] / "data" / "training"
COMPOSER = "fsdp-composer-2023/ampere"


@pytest.fixture(scope="module")
def cases():
    known = catalog.load()
    single = read_cases(TRAINING / "runs_single_node.csv", known)[0]
    return read_cases(TRAINING / "runs.csv", known)[0] + single[::20]


@pytest.fixture(scope="module")
def composer(cases):
    return [case for case in smallest_scale(cases) if profiles.key_of(case.training.software) == COMPOSER]


def test_only_the_fewest_servers_of_a_family_are_fitted(cases):
    small = smallest_scale(cases)
    ranks = {family: {case.row.integers["n_gpu"] for case in small if case.family == family} for family in ("vTrain",)}
    assert max(ranks["vTrain"]) <= 8  # its runs on one node stand for those on several
    assert {case.row.integers["n_gpu"] for case in small if case.family == "llm-foundry"} == {8}
    gpt = [case for case in small if case.row.get("model") == "GPT-3-175B" and case.family == "MLPerf Training"]
    assert max(case.row.integers["n_gpu"] for case in gpt) <= 1536  # Oracle's own smallest; NVIDIA's are 512
    assert all(case.row.get("tier", "A") == "A" or "Megatron-Bridge" in case.family for case in small)


def test_constants_come_back_from_runs_that_were_made_with_them(composer):
    shipped = profiles.assemble({key: one["values"] for key, one in profiles.fitted().items()})
    true = {**shipped, COMPOSER: replace(shipped[COMPOSER], gemm_fraction=0.78, memory_fraction=0.75)}
    made = [
        replace(case, measured=seconds)
        for case, seconds in zip(composer, predicted_s(refitted(composer, true)), strict=True)
    ]
    found = fit(made)[COMPOSER]
    assert found.mean_abs_error < 0.005
    # The prior pulls a little; what the rows can tell comes through it.
    assert found.values["gemm_fraction"] == pytest.approx(0.78, rel=0.03)


def test_one_wrong_row_does_not_bend_the_others(composer):
    whole = fit(composer)[COMPOSER].values
    broken = fit([replace(composer[0], measured=3.0 * composer[0].measured), *composer[1:]])[COMPOSER].values
    assert broken["gemm_fraction"] == pytest.approx(whole["gemm_fraction"], rel=0.02)


def test_a_source_left_out_has_no_say_in_its_own_prediction(cases):
    own = [case for case in cases if case.family in ("torchtitan", "Korthikanti et al. 2022")]
    doubled = [replace(case, measured=2.0 * case.measured) if case.family == "torchtitan" else case for case in own]
    honest, names = left_out(own, "source")
    lying, _ = left_out(doubled, "source")
    places = [place for place, name in enumerate(names) if name == "torchtitan"]
    assert len(places) > 10
    assert predicted_s([honest[place] for place in places]) == predicted_s([lying[place] for place in places])


def test_an_earlier_fit_is_kept_only_where_nothing_changed(cases):
    kept = "megatron-2021/ampere"
    small = [case for case in smallest_scale(cases) if case.family in ("Korthikanti et al. 2022", "torchtitan")]
    whole = fit(small)
    rest = [case for case in small if case.family != "torchtitan"]
    again = fit(rest, before=whole)
    assert again == fit(rest)
    assert again[kept] is whole[kept]


def test_an_unknown_part_is_named(cases):
    with pytest.raises(InputError, match="sourse") as caught:
        left_out(cases[:1], "sourse")
    assert "source" in str(caught.value.problems[0].render())


def test_every_free_constant_has_bounds_and_every_base_stands_before_its_profile():
    seen = {""}
    for record in profiles.records():
        assert record.base in seen
        seen.add(record.key)
        assert set(record.free) <= set(profiles.constants())
        values = profiles.fitted().get(record.key, {}).get("values", {})
        for name, value in values.items():
            assert profiles.constants()[name].low <= value <= profiles.constants()[name].high
    assert set(profiles.fitted()) <= seen
