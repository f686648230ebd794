"""Predicted against measured steps on excerpts of the published tables, and tables that are wrong."""

import csv
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard.face.cli.guard import run
from railyard.kit.errors import InputError
from railyard.work.training import profiles
from railyard_validation.training.cases import family
from railyard_validation.training.compare import validate_training
from railyard_validation.training.table import COLUMNS

DATA = Path(__file__).parents[2] / "data"
RUNS = DATA / "training/runs.csv"


def changed(path, *, row="T0633", **cells):
    """A copy of the table with one row kept and some of its cells changed."""
    with RUNS.open() as handle:
        rows = list(csv.DictReader(handle))
    kept = {**next(entry for entry in rows if entry["id"] == row), **cells}
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerow(kept)
    return path


def single(catalog, path):
    (result,) = validate_training(path, catalog).rows
    return result


def test_every_row_is_predicted_or_says_why_not(report):
    assert len(report.rows) == 554
    for row in report.rows:
        assert (row.status == "ok") != bool(row.reason)
        if row.status == "ok":
            assert row.predicted > 0
            assert row.error == pytest.approx((row.predicted - row.measured) / row.measured)
            assert row.metric.startswith("step seconds")
            assert row.profile
        else:
            assert f"line {row.line}" in row.reason


def test_accuracy_holds(report):
    # What is reached stands in docs/validation; these bounds guard against what breaks a family.
    summary = report.summary()
    assert summary["n"] >= 500
    assert summary["median_abs_error"] < 0.07
    assert summary["mean_abs_error"] < 0.14
    sources = report.sources()
    assert sources["llm-foundry"]["mean_abs_error"] < 0.12
    assert sources["SimuMax"]["mean_abs_error"] < 0.08
    assert sources["vTrain"]["mean_abs_error"] < 0.12
    assert sources["Korthikanti et al. 2022"]["mean_abs_error"] < 0.08


def test_single_node_rows_need_fewer_columns(catalog):
    report = validate_training(DATA / "training/runs_single_node.csv", catalog)
    assert report.summary()["skipped"] == 0
    assert report.summary()["mean_abs_error"] < 0.13
    assert all("vocabulary 51200" in row.defaults for row in report.rows)


def test_step_seconds_are_derived_where_only_rates_were_published(report):
    metrics = {row.id: row.metric for row in report.rows}
    assert metrics["T0633"] == "step seconds"
    assert metrics["T0403"] == "step seconds derived from tokens/s/GPU"
    assert metrics["T0056"] == "step seconds derived from TFLOP/s (causal attention counted)"
    measured = {row.id: row.measured for row in report.rows}
    assert measured["T0403"] == pytest.approx(
        1024 * 2048 / (1058 * 128), rel=0.01
    )  # MPT-70B: 1,058 tokens/s/GPU on 128


def test_software_and_device_follow_from_the_row(report):
    profiles = {row.id: row.profile for row in report.rows}
    assert profiles["T0619"] == "megatron-2022"
    assert profiles["T0633"] == "megatron-2023"
    assert profiles["T0665"] == "megatron-2025"
    assert profiles["T0369"] == "torchtitan-2024-eager"
    assert profiles["T0764"] == "megatron-deepspeed-2021"


def test_unknown_layouts_are_chosen_and_said(report):
    taken = [
        row.id for row in report.rows if any("layout unknown; taken: the fastest" in line for line in row.defaults)
    ]
    assert "T0625" in taken
    assert "T0689" not in taken  # MLPerf's repository has the file that was run


def test_what_was_not_measured_is_skipped(report):
    reasons = {row.id: row.reason for row in report.rows}
    assert "no step time, tokens/s or TFLOP/s was published" in reasons["T0617"]
    assert not [row.id for row in report.rows if "dimensions" in row.reason]  # the catalogue knows every model


def test_tier_c_is_run_but_not_scored(catalog, tmp_path):
    report = validate_training(changed(tmp_path / "c.csv", tier="C"), catalog)
    assert report.rows[0].status == "ok"
    assert report.rows[0].error is not None
    assert report.summary()["n"] == 0
    assert report.summary()["mean_abs_error"] is None


def test_json_has_the_promised_shape(report):
    content = json.loads(report.to_json())
    assert set(content) >= {"rows", "summary", "sources"}
    assert set(content["summary"]) == {"n", "skipped", "mean_abs_error", "median_abs_error", "p90_abs_error"}
    assert set(content["rows"][0]) >= {
        "id",
        "status",
        "reason",
        "measured",
        "predicted",
        "error",
        "metric",
        "tier",
        "defaults",
    }
    assert {row["status"] for row in content["rows"]} <= {"ok", "skipped"}


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"n_gpu": ""}, "line 2: n_gpu unknown or zero"),
        ({"gpu": "H1000-SXM"}, "H1000-SXM"),
        ({"gpu": "TPU-trillium"}, "TPU-trillium"),
        ({"tp": "5"}, "not the 512 accelerators of the run"),
        ({"global_batch_seqs": "2047"}, "does not divide over 16 data-parallel replicas"),
        ({"micro_batch": "3"}, "micro-batch 3 does not divide"),
        ({"heads": "", "kv_heads": ""}, "attention heads is unknown"),
        ({"layers": "2"}, "leave stages empty"),
    ],
)
def test_bad_rows_are_named_and_the_rest_goes_on(catalog, tmp_path, cells, reason):
    path = changed(tmp_path / "bad.csv", **cells)
    with path.open("a") as handle, RUNS.open() as good:
        handle.write(good.readlines()[1])
    report = validate_training(path, catalog)
    assert [row.status for row in report.rows] == ["skipped", "ok"]
    assert reason in report.rows[0].reason
    assert "line 2" in report.rows[0].reason


def test_a_row_with_too_many_cells_is_named(catalog, tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("id,n_gpu,gpu,seq_len,global_batch_seqs\nA,8,H100,2048,64,9,9\nB,8,H100\n")
    with pytest.raises(InputError) as caught:
        validate_training(path, catalog)
    assert [(one.line, one.message) for one in caught.value.problems] == [
        (2, "7 cells under 5 columns"),
        (3, "3 cells under 5 columns"),
    ]


@pytest.mark.parametrize(
    ("column", "cell", "allowed"),
    [
        ("seq_parallel", "banana", "0, 1"),
        ("gated_mlp", "yes", "0, 1"),
        ("tier", "a", "A, B, C"),
        ("layers", "many", "an integer from 1 to 4096"),
        ("layers", "3.5", "an integer from 1 to 4096"),
        ("layers", "0", "an integer from 1 to 4096"),
        ("layers", "1000000000", "an integer from 1 to 4096"),
        ("hidden", "0", "an integer from 1 to 1000000"),
        ("vocab", "1e12", "an integer from 1 to 100000000"),
        ("step_time_s", "nan", "a number from 0 to 1e+15"),
        ("step_time_s", "-1", "a number from 0 to 1e+15"),
    ],
)
def test_a_wrong_cell_is_an_error_with_its_line_and_column(catalog, tmp_path, column, cell, allowed):
    path = changed(tmp_path / "bad.csv", **{column: cell})
    with pytest.raises(InputError) as caught:
        validate_training(path, catalog)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.key) == (str(path), 2, column)
    assert (problem.found, problem.allowed) == (cell, allowed)


@pytest.mark.parametrize("text", ["", "id,gpu\nA,H100\n", "nonsense"])
def test_a_table_without_its_columns_is_refused(catalog, tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InputError, match="lacks the column") as caught:
        validate_training(path, catalog)
    assert caught.value.problems[0].file == str(path)


def test_a_byte_order_mark_is_no_part_of_the_first_column(catalog, tmp_path):
    path = tmp_path / "excel.csv"
    path.write_text("".join(RUNS.read_text().splitlines(keepends=True)[:2]), encoding="utf-8-sig")
    assert single(catalog, path).status == "ok"


def test_constants_of_another_architecture_are_named(catalog, tmp_path):
    path = changed(tmp_path / "a.csv", framework="torchtitan", gpu="B200", precision="bf16")
    said = single(catalog, path).defaults
    assert "constants of torchtitan-2024 as read on hopper, not on b200-sxm" in said


def test_a_slow_network_that_a_row_states_is_taken(catalog, tmp_path):
    def taken(stated):
        cells = {
            "scale_out": stated,
            "n_gpu": "16",
            "tp": "1",
            "pp": "1",
            "vpp": "",
            "dp": "16",
            "framework": "torchtitan",
        }
        path = changed(tmp_path / "slow.csv", fsdp_zero="FSDP", global_batch_seqs="16", micro_batch="1", **cells)
        return single(catalog, path)

    slow, fast, usual = (taken(stated) for stated in ("1x 100G Ethernet", "8x400G IB", "not stated"))
    assert slow.predicted > 2 * fast.predicted
    assert usual.predicted == fast.predicted
    assert not any("Gb/s per accelerator" in one for one in (*slow.defaults, *fast.defaults))
    assert "network 400 Gb/s per accelerator" in usual.defaults


def test_one_machines_rates_do_not_stand_for_another_architecture(catalog):
    hopper, blackwell = (profiles.profile("megatron-lm-2025", catalog.accelerator(name)) for name in ("H100", "B200"))
    assert hopper.gemm_fraction == profiles.profile("megatron-2025", catalog.accelerator("H100")).gemm_fraction
    assert hopper.joule16 == 0.0
    assert blackwell.joule16 == profiles.profile("megatron-2025", catalog.accelerator("B200")).joule16 > 0.0
    assert hopper.gradient_bytes == blackwell.gradient_bytes == 4


@pytest.mark.parametrize("kind", ["training", "memory"])
def test_wrong_rows_are_named_although_none_could_be_predicted(tmp_path, capsys, kind):
    path = changed(tmp_path / "bad.csv", gpu="Zorg", mem_gib="10")
    assert run(["validate", kind, "--table", str(path)]) == 2
    assert f"--> {path}:2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--page", "no/such/page.md"), "no such folder"),
        (("--page", "page.txt"), "Markdown or HTML"),
        (("--leave-out", "sources"), "cannot be left out by `sources`"),
    ],
)
def test_what_is_asked_for_is_checked_before_the_work(tmp_path, capsys, arguments, words):
    path = changed(tmp_path / "bad.csv", gpu="Zorg")
    assert run(["validate", "training", "--table", str(path), *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert not said.out


def test_missing_files_and_engines_are_refused(catalog, tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        validate_training(tmp_path / "none.csv", catalog)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        validate_training(tmp_path, catalog)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="is not UTF-8"):
        validate_training(binary, catalog)
    with pytest.raises(InputError, match="no engine `packet`"):
        validate_training(RUNS, catalog, engine="packet")


with RUNS.open() as _handle:
    _HEADER = next(csv.reader(_handle))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    column=st.sampled_from(_HEADER),
    cell=st.one_of(
        st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8),
        st.integers(-10, 10**7).map(str),
        st.sampled_from(["0", "1e400", "-1", "MLA", "MLA(q_lora5)", "inf", "none", "full", "8x400", "unknown"]),
    ),
)
def test_any_cell_leaves_a_row_predicted_or_skipped_or_is_refused_by_its_column(catalog, tmp_path, *, column, cell):
    path = changed(tmp_path / "fuzz.csv", **{column: cell})
    written = cell.strip()
    if written and column in COLUMNS and not COLUMNS[column].holds(written):
        with pytest.raises(InputError) as caught:
            validate_training(path, catalog)
        assert [(problem.file, problem.key) for problem in caught.value.problems] == [(str(path), column)]
        return
    result = single(catalog, path)
    assert result.status in {"ok", "skipped"}
    assert result.status == "ok" or result.reason


def test_families_are_sources_without_place_and_version():
    assert family("MLPerf Training v3.1 results (NVIDIA, eos_n64)") == "MLPerf Training"
    assert family("vTrain (MICRO 2024) measured data, multi-node") == "vTrain"
    assert family("Narayanan et al. SC21 (arXiv 2104.04473) Table 1") == "Narayanan et al. SC21"
    assert family("") == "unnamed"


def test_wrong_rows_are_named_with_their_line_and_the_rest_goes_on(tmp_path, capsys):
    lines = RUNS.read_text().splitlines()
    head = lines[0].split(",")
    rows = list(csv.reader(lines[1:6]))
    rows[1][head.index("gpu")] = "A1000-SXM"
    rows[2][head.index("dp")] = "7"
    rows[3][head.index("tp")] = "5"
    path = tmp_path / "wrong.csv"
    with path.open("w", newline="") as handle:
        csv.writer(handle).writerows([head, *rows])
    assert run(["validate", "training", "--table", str(path), "--json"]) == 2
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [row["status"] for row in found["rows"]] == ["ok", "skipped", "skipped", "skipped", "ok"]
    for line in (3, 4, 5):
        assert f"line {line}" in printed.err


def test_nothing_is_predicted_from_a_table_with_a_wrong_cell(tmp_path, capsys):
    path = changed(tmp_path / "wrong.csv", layers="many")
    assert run(["validate", "training", "--table", str(path), "--json"]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert "layers: `many` is not an integer from 1 to 4096" in printed.err
    assert f"{path}:2" in printed.err
