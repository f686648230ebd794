"""Constants: fitted on the smallest scale alone, found again from runs made with them, and fitted without a source."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from railyard.kit.errors import InputError
from railyard.work.training import profiles
from railyard_validation.bands import Miss, later
from railyard_validation.training import table
from railyard_validation.training.by_time import CUTS, forecasts, forecasts_behind, published
from railyard_validation.training.cases import predicted_s, read_cases
from railyard_validation.training.fit import fit, refitted, scored, smallest_scale
from railyard_validation.training.leave_out import left_out

TRAINING = Path(__file__).parents[2] / "data" / "training"


@pytest.fixture(scope="module")
def few(cases):
    """Runs that tell of products in 16 bits, passes over memory and launches: a third of llm-foundry's, on A100."""
    composer = [case for case in smallest_scale(cases) if case.training.software.name == "fsdp-composer-2023"]
    return composer[::3]


def test_only_the_fewest_servers_of_a_family_are_fitted(cases):
    small = smallest_scale(cases)
    assert max(case.row.integers["n_gpu"] for case in small if case.family == "vTrain") == 64
    assert {case.row.integers["n_gpu"] for case in small if case.family == "llm-foundry"} == {8}
    gpt = [case for case in small if case.row.get("model") == "GPT-3-175B" and case.family == "MLPerf Training"]
    assert max(case.row.integers["n_gpu"] for case in gpt) <= 1536  # Oracle's own smallest; NVIDIA's are 512
    assert all(case.row.get("tier", "A") == "A" or "Megatron-Bridge" in case.family for case in small)


def test_constants_come_back_from_runs_that_were_made_with_them(few):
    true = {name: constant.prior for name, constant in profiles.constants().items()} | {"gemm": 0.75, "memory": 0.7}
    made = [
        replace(case, measured=seconds)
        for case, seconds in zip(few, predicted_s(refitted(few, profiles.assemble(true))), strict=True)
    ]
    found = fit(made)
    assert found.mean_abs_error < 0.02
    # The prior pulls: with a spread of 8 % against 18 % off, and `young` on Hopper beside it.
    assert found.values["gemm"] == pytest.approx(0.75, rel=0.04)
    assert 0.7 < found.values["memory"] < 0.8  # of 0.82: passes over memory are a tenth of these steps
    assert found.spread["gemm"] < profiles.constants()["gemm"].spread
    assert found.spread["joule8"] == profiles.constants()["joule8"].spread  # no run on Blackwell tells of it


def test_one_wrong_row_does_not_bend_the_others(few):
    whole = fit(few).values
    broken = fit([replace(few[0], measured=3.0 * few[0].measured), *few[1:]]).values
    assert broken["gemm"] == pytest.approx(whole["gemm"], rel=0.02)


def test_a_source_left_out_has_no_say_in_its_own_prediction(cases):
    own = [
        case
        for case in smallest_scale(cases)
        if case.family in ("torchtitan", "Korthikanti et al. 2022", "MLPerf Training")
    ]
    doubled = [replace(case, measured=2.0 * case.measured) if case.family == "torchtitan" else case for case in own]
    parts = [case.family for case in own]
    honest, lying = fit(own, parts), fit(doubled, parts)
    assert set(honest.without) == set(parts)
    # Both searches end where the sum is least to a fiftieth of a squared spread; a run twice as slow moves it further.
    for name, value in honest.without["torchtitan"].items():
        assert lying.without["torchtitan"][name] == pytest.approx(value, rel=0.01)
    assert honest.values["attention_forward"] > lying.values["attention_forward"] * 1.01


def test_published_runs_left_out_and_a_users_own(cases, catalog):
    torchtitan = next(case for case in cases if case.family == "torchtitan")
    row = replace(torchtitan.row, text={**torchtitan.row.text, "source_doc": "of nobody"})
    own = replace(torchtitan, row=row)
    (out, mine), names = left_out([torchtitan, own], "source", catalog)
    assert names == ["torchtitan", "of nobody"]
    shipped = predicted_s([torchtitan])[0]
    assert predicted_s([mine])[0] == pytest.approx(shipped, rel=2e-3)  # shipped constants have three digits
    assert predicted_s([out])[0] == pytest.approx(shipped, rel=0.05)
    assert predicted_s([out])[0] != pytest.approx(predicted_s([mine])[0], rel=1e-6)


def test_an_unknown_part_is_named(cases, catalog):
    with pytest.raises(InputError, match="sourse") as caught:
        left_out(cases[:1], "sourse", catalog)
    assert "source" in str(caught.value.problems[0].render())


def test_constants_are_few_bounded_and_stand_behind_every_profile():
    constants, fitted = profiles.constants(), profiles.fitted()
    assert len(constants) <= 13
    assert set(fitted["values"]) == set(fitted["spread"]) == set(constants)
    for name, constant in constants.items():
        assert constant.low <= fitted["values"][name] <= constant.high
        assert abs(np.log(fitted["values"][name] / constant.prior)) < 2.0 * constant.spread, name
    seen = {""}
    for record in profiles.records():
        assert record.base in seen
        seen.add(record.key)
    for constant in constants.values():
        assert all(
            any(place in (one.key, one.about["architecture"]) for one in profiles.records()) for place in constant.on
        )


def test_a_share_multiplies_and_a_fact_stands():
    known = profiles.assemble({"gemm": 0.8, "young": 0.5, "launch": 4e6, "joule16": 1e12})
    assert known["megatron-2025/hopper"].gemm_fraction == 0.8
    assert known["megatron-2023/hopper"].gemm_fraction == pytest.approx(0.4)
    assert known["megatron-deepspeed-2021/ampere"].launch_ps == 10_000_000
    assert known["maxtext/tpu"].gemm_fraction == 0.5
    assert known["megatron-2026/blackwell"].joule16 == 1e12
    assert known["megatron-2026/hopper"].joule16 == 0.0


# Forecasts of later runs see nothing that came with them or after them.


@pytest.fixture(scope="module")
def by_time_cases(cases):
    return [case for case in cases if scored(case)]


def test_every_run_says_when_it_was_published():
    for name in ("runs.csv", "runs_single_node.csv", "strangers.csv", "mlperf_v6.csv"):
        assert all("2015-01" < row.get("published") < "2027-01" for row in table.read(TRAINING / name))


def test_a_later_measurement_changes_no_earlier_forecast(by_time_cases):
    """Everything from July 2025 on measured twice as long: forecasts of what came before stay as they are."""
    early = [case for case in by_time_cases if published(case) < "2024-07"]
    late = [case for case in by_time_cases if "2025-07" <= published(case) < "2026-01"][:20]
    slower = [dataclasses.replace(case, measured=2 * case.measured) for case in late]
    plain = {one.case.row.id: one.predicted for one in forecasts(early + late, named=True)}
    changed = {one.case.row.id: one.predicted for one in forecasts(early + slower, named=True)}
    assert plain == changed
    assert len(plain) > 60


def test_software_of_the_same_half_year_is_not_known(by_time_cases):
    new = [
        case
        for case in by_time_cases
        if published(case) >= "2026-01" and "megatron-2026" in case.training.software.name
    ]
    older = [case for case in by_time_cases if published(case) < "2026-01"]
    (one,) = forecasts_behind("2026-01", [*older, new[0]], named=True)
    values = fit(smallest_scale(older)).values
    taken = profiles.assemble(values)["megatron-2025/" + new[0].training.software.architecture]
    assert one.case.training.software.name == "megatron-2025"
    assert one.cut == "2026-01"
    assert one.case.training == refitted([new[0]], {profiles.key_of(new[0].training.software): taken})[0].training


def test_bands_of_a_half_year_are_read_off_the_ones_before():
    """Twenty earlier rows within 10 % give a band of about that; a later row of twice the time lies outside."""
    early = [Miss("step", "a", f"S, {CUTS[0]}", "g", (-1) ** n * n / 200, "time") for n in range(20)]
    new = [Miss("step", "a", f"T, {CUTS[1]}", "g", error, "time") for error in (0.05, math.log(2.0))]
    (found,) = later(early + new)
    assert (found.part, found.rows, found.inside) == (CUTS[1], 2, 0.5)
    assert 0.15 < found.width < 0.21
    assert found.mean == pytest.approx((1 - math.exp(-0.05) + 0.5) / 2)
    assert found.score == pytest.approx(found.width + 10 * (1.0 - found.width / 2) / 2, abs=0.1)


# What a table leaves open is chosen, and said.

# Narayanan et al. 2021, table 1: 39.1 billion parameters on 512 A100, micro-batch not published.
GPT_39B = {
    "id": "1",
    "tier": "B",
    "source_doc": "Narayanan et al. SC21",
    "model": "GPT-39.1B",
    "layers": "48",
    "hidden": "8192",
    "heads": "64",
    "seq_len": "2048",
    "gpu": "A100-SXM-80GB",
    "n_gpu": "512",
    "precision": "fp16",
    "framework": "Megatron-LM (PTD-P)",
    "tp": "8",
    "pp": "2",
    "dp": "32",
    "micro_batch": "",
    "global_batch_seqs": "1536",
    "recompute": "full",
    "step_time_s": "14.45",
}


def one_case(tmp_path, catalog, **cells):
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as handle:
        cells = {**GPT_39B, **cells}
        writer = csv.DictWriter(handle, list(cells))
        writer.writeheader()
        writer.writerow(cells)
    cases, refused = read_cases(path, catalog)
    assert not refused, refused
    return cases[0]


def test_an_unknown_micro_batch_is_the_fastest_that_fits(tmp_path, catalog):
    case = one_case(tmp_path, catalog)
    assert case.training.layout.micro_batch > 1
    assert f"micro-batch {case.training.layout.micro_batch}: the fastest that fits" in case.defaults


def test_a_known_micro_batch_stays(tmp_path, catalog):
    case = one_case(tmp_path, catalog, micro_batch="2")
    assert case.training.layout.micro_batch == 2
    assert not any(line.startswith("micro-batch") for line in case.defaults)


def test_a_micro_batch_that_does_not_fit_is_not_chosen(tmp_path, catalog):
    # Without recomputation the activations of 16 sequences of a 145 billion model are far beyond 80 GB.
    wide = {"layers": "80", "hidden": "12288", "heads": "96", "pp": "8", "dp": "8", "recompute": "none"}
    case = one_case(tmp_path, catalog, **wide)
    assert case.training.layout.micro_batch == 1


# The fixed part of a step and its tail, on the published runs.


def test_the_fixed_part_is_right_by_itself(report) -> None:
    """253 ms of 930 ms for GPT-3 on 10,752 H100, 642 ms of 5.18 s for Llama 405B on 8,192: within 15 %."""
    found = {part.few: part for part in report.fixed}
    for few, ranks, fixed_s in (("T0630", 10_752, 0.253), ("T0661", 8192, 0.642)):
        part = found[few]
        assert part.ranks == ranks
        assert part.fixed_s == pytest.approx(fixed_s, rel=0.01)
        assert part.predicted_fixed_s == pytest.approx(fixed_s, rel=0.15)
        assert part.predicted_micro_batch_s == pytest.approx(part.micro_batch_s, rel=0.04)


def test_tails_are_within_three_hundredths_but_for_named_rows(report) -> None:
    off = {row.id for row in report.rows if row.tail and not row.tail.averaged and abs(row.tail.error) > 0.03}
    assert off <= {"T0655", "T0664"}  # the RoCE case, and 405B on 2,560 beside steady runs of 2,048 and 8,192
    assert report.tails()["n"] >= 38


def test_both_are_in_the_json(report) -> None:
    content = json.loads(report.to_json())
    assert {"many", "few", "fixed_s", "predicted_fixed_s", "error"} <= set(content["fixed_part"][0])
    (row,) = [row for row in content["rows"] if row["id"] == "T0630"]
    assert row["tail"]["p95_measured"] == pytest.approx(0.946 / 0.9296, rel=1e-4)
    assert content["tails"]["target"] == 0.03
    assert [row["tail"] for row in content["rows"] if row["id"] == "T0001"] == [None]
