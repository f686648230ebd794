"""Predicted against published peaks of memory, and tables that are wrong."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from railyard import catalog
from railyard import catalog as catalogue
from railyard.kit.errors import InputError
from railyard.measure.model_error import slowed_error
from railyard_validation.training.memory import validate_memory
from railyard_validation.training.slowdowns import slowdowns

RUNS = Path(__file__).parents[2] / "data/training/runs.csv"


@pytest.fixture(scope="module")
def memory_catalog():
    return catalogue.load()


@pytest.fixture(scope="module")
def report(memory_catalog):
    return validate_memory(RUNS, memory_catalog)


@pytest.fixture(scope="module")
def peaks(report):
    return {row.id: row for row in report.rows}


def changed(path, *, row="T0716", without=(), **cells):
    """A table of one published row, some of its cells changed and some columns taken out."""
    with RUNS.open() as handle:
        kept = {**next(entry for entry in csv.DictReader(handle) if entry["id"] == row), **cells}
    kept = {name: value for name, value in kept.items() if name not in without}
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, fieldnames=list(kept))
        writer.writeheader()
        writer.writerow(kept)
    return path


def test_every_published_peak_is_predicted(report):
    assert len(report.rows) == 54
    for row in report.rows:
        assert row.status == "ok", row.reason
        assert row.metric.startswith("peak GiB")
        assert row.error == pytest.approx((row.predicted - row.measured) / row.measured)


@pytest.mark.parametrize(
    ("source", "rows", "mean"),
    [("SimuMax", 25, 0.015), ("torchtitan", 18, 0.03), ("Megatron-Bridge", 2, 0.035), ("MLPerf Training", 9, 0.02)],
)
def test_accuracy_holds(report, source, rows, mean):
    """Megatron-Core 0.13 keeps no expert outputs: MLPerf's rows went from 5.6 to 1.2 %, two Moonlight rows to 3.1 %."""
    found = report.sources()[source]
    assert found["n"] == rows
    assert found["mean_abs_error"] < mean


def test_megatron_is_right_to_two_percent_in_every_row(report):
    assert max(abs(row.error) for row in report.rows if "SimuMax" in row.source) < 0.025


def test_sixteen_times_the_shards_save_what_was_published(peaks):
    # torchtitan, Llama 3.1 8B on 8 and on 128 H100: 15.4, 15.0 and 15.0 GiB less.
    for few, many in (("T0369", "T0376"), ("T0370", "T0377"), ("T0371", "T0378")):
        measured = peaks[few].measured - peaks[many].measured
        assert peaks[few].predicted - peaks[many].predicted == pytest.approx(measured, rel=0.1)


def test_compilation_saves_what_was_published(peaks):
    # The result of the last product of a layer, which no gradient needs: 5.4 and 5.0 GiB.
    for eager, compiled in (("T0369", "T0370"), ("T0376", "T0377")):
        measured = peaks[eager].measured - peaks[compiled].measured
        assert peaks[eager].predicted - peaks[compiled].predicted == pytest.approx(measured, rel=0.15)


def test_asynchronous_tensor_parallelism_takes_less(peaks):
    # Its gathered tensors lie in symmetric memory, outside the allocator: 4.3 GiB less were published.
    assert 1.5 < peaks["T0379"].predicted - peaks["T0380"].predicted < 6


def test_interleaving_one_round_takes_less(peaks):
    # Gradients of one chunk are reduced before the next chunk's come to be: 9.8 GiB less were published.
    assert peaks["T0382"].predicted < peaks["T0381"].predicted - 3


def test_what_a_figure_counts_is_named(peaks):
    assert "reserved" in peaks["T0369"].metric
    assert "allocated" in peaks["T0716"].metric
    assert "GB" in peaks["T0348"].metric
    assert peaks["T0348"].measured == pytest.approx(35.902e9 / 2**30)


def test_json_has_the_shape_of_training(report):
    content = json.loads(report.to_json())
    assert {"table", "rows", "summary", "sources"} <= set(content)
    names = {
        *("id", "line", "source", "tier", "status", "reason", "metric", "measured", "predicted"),
        *("error", "profile", "defaults"),
    }
    assert names <= set(content["rows"][0])
    assert set(content["summary"]) == {"n", "skipped", "mean_abs_error", "median_abs_error", "p90_abs_error"}


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"mem_gib": "0"}, "line 2: mem_gib: the measured peak is zero"),
        ({"n_gpu": ""}, "line 2: n_gpu unknown or zero"),
        ({"gpu": "B2000"}, "no accelerator"),
        ({"tp": "3"}, "not the 8 accelerators of the run"),
    ],
)
def test_bad_rows_are_named(memory_catalog, tmp_path, cells, reason):
    (row,) = validate_memory(changed(tmp_path / "t.csv", **cells), memory_catalog).rows
    assert row.status == "skipped"
    assert reason in row.reason
    assert "line 2" in row.reason


@pytest.mark.parametrize("absent", ["framework", "recompute", "fsdp_zero", "overlap_notes", "step_time_s", "vocab"])
def test_a_missing_column_leaves_a_prediction(memory_catalog, tmp_path, absent):
    (row,) = validate_memory(changed(tmp_path / "t.csv", without=(absent,)), memory_catalog).rows
    assert row.status == "ok", row.reason
    assert abs(row.error) < 0.6


def test_a_table_without_peaks_is_refused(memory_catalog, tmp_path):
    with pytest.raises(InputError, match="no row of the table has a measured peak"):
        validate_memory(changed(tmp_path / "t.csv", mem_gib=""), memory_catalog)


# Kernels beside collectives, against what was measured elsewhere, and the band that follows.


@pytest.fixture(scope="module")
def found():
    return slowdowns(catalog.load())


def test_overlap_slows_computation_as_was_measured(found):
    mean, most, _ = found
    assert 1 / (1 - mean.predicted) == pytest.approx(1.189, abs=0.04)
    assert 1.30 < 1 / (1 - most.predicted) < 1.42


def test_a_full_wave_beside_24_units_needs_a_second_one(found):
    """80 % of peak falls to 47 %; the share of the units alone would leave 65 %."""
    assert 39 < 80 * (1 - found[-1].predicted) < 58


def test_the_band_of_slowed_kernels_spans_them(found):
    errors = [math.log(one.measured / one.predicted) for one in found]
    band = slowed_error()
    assert math.log1p(band.high) == pytest.approx(max(errors), abs=2e-4)
    assert math.log1p(band.low) == pytest.approx(min(*errors, 0.0), abs=2e-4)
    assert (band.rows, band.sources, band.held_out) == (3, 2, "source")
