"""`railyard calibrate runs`: truths that it has to find again, and cells that it must refuse."""

import dataclasses
import json

import numpy as np
import pytest

from railyard import catalog as catalogue
from railyard.calibrate import tables
from railyard.calibrate.tables.posterior import HUBER, Prior, posterior
from railyard.calibrate.tables.training_fit import predicted
from railyard.calibrate.tables.training_rows import steps_of
from railyard.cli import guard
from railyard.errors import InputError
from railyard.workload.training import calibrated, profiles

HEADER = "id,gpu,n_gpu,model,seq_len,global_batch_seqs,tp,pp,micro_batch,precision,software,step_time_s"
ROWS = (
    "a,h100-sxm,64,llama-3-70b,8192,128,4,4,1,bf16,megatron-2025,{}",
    "b,h100-sxm,8,llama-3-8b,8192,96,2,1,1,bf16,megatron-2025,{}",
    "c,h100-sxm,64,llama-3-70b,8192,192,4,4,1,fp8,megatron-2025,{}",
    "d,h100-sxm,8,llama-3-8b,8192,40,1,1,1,fp8,megatron-2025,{}",
)


def write(folder, *, rows=ROWS, header=HEADER, values=(10.0, 20.0, 9.0, 4.0)):
    path = folder / "mine.csv"
    path.write_text("\n".join([header, *(row.format(value) for row, value in zip(rows, values, strict=True))]) + "\n")
    return path


def truth(folder, **changed):
    """The table whose steps are what the model says under changed constants."""
    known = catalogue.load()
    steps = steps_of(tables.read(write(folder))[1], known)
    jobs = [(step.training, step.machine) for step in steps]
    return write(folder, values=predicted(jobs, changed).tolist())


def test_one_normal_constant_is_found_by_hand():
    # Three rows see the constant with slope 1 and spread 0.1, at 0.3; the prior is 0 +- 0.2. Precisions add up:
    # 3 / 0.01 + 1 / 0.04 = 325, so the value is 0.3 * 300 / 325 and its deviation 325^-0.5.
    found = posterior(lambda x: x[0] - np.full(3, 0.3), Prior(np.zeros(1), np.array([0.2])), 0.1)
    assert found.at[0] == pytest.approx(0.3 * 300 / 325, rel=1e-3)
    assert found.width[0] == pytest.approx(325**-0.5, rel=1e-3)
    # Without one row: 2 / 0.01 + 25 = 225; what it misses is 0.3 * 200 / 225 - 0.3.
    assert found.left_out == pytest.approx(np.full(3, 0.3 * 200 / 225 - 0.3), abs=1e-4)


def test_a_row_far_off_pulls_by_its_sign_alone():
    def misses(x):
        return x[0] - np.array([0.0, 0.0, 0.0, 5.0])

    # Three rows at 0 and one at 5, spread 0.1, no prior to speak of: 3 x / 0.01 = HUBER / 0.1.
    found = posterior(misses, Prior(np.zeros(1), np.array([100.0])), 0.1)
    assert found.at[0] == pytest.approx(HUBER * 0.1 / 3, rel=1e-2)


def test_constants_that_made_the_steps_are_found(tmp_path):
    path = truth(tmp_path, gemm_fraction=0.8, fp8_fraction=0.8)
    kind, source = tables.read(path)
    assert kind.name == "training"
    found = kind.calibrate(source, catalogue.load())
    values = {one.name: one for one in found.constants}
    assert values["gemm_fraction"].value == pytest.approx(0.8, rel=0.04)
    assert values["fp8_fraction"].value == pytest.approx(0.8, rel=0.06)
    assert all(abs(row.after / row.measured - 1) < 0.01 for row in found.rows)
    assert all(abs(row.before / row.measured - 1) > 0.04 for row in found.rows)
    for one in found.constants:
        assert one.low < one.value < one.high
        assert 0.05 <= one.settled <= 1.0


def test_what_is_written_is_what_is_read(tmp_path):
    kind, source = tables.read(truth(tmp_path, gemm_fraction=0.8))
    found = kind.calibrate(source, catalogue.load())
    (tmp_path / "own.toml").write_text(found.written)
    constants = calibrated.read_constants(tmp_path / "own.toml")
    software = profiles.profile("megatron-2025", catalogue.load().accelerator("h100-sxm"))
    moved = calibrated.over(software, constants)
    for one in found.constants:
        assert getattr(moved, one.name) == pytest.approx(one.value, rel=1e-3)
    other = dataclasses.replace(software, name="megatron-1999")
    assert calibrated.over(other, constants) == other


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("a,h100-sxm,64,llama-3-70b,8192,128,4,4,1,bananas,megatron-2025,{}", "precision"),
        ("a,h100-sxm,64,llama-3-70b,8192,128,4,4,1,bf16,megatron-2025,-3", "step_time_s"),
        ("a,h100-sxm,64,llama-3-70b,8192,128,5,4,1,bf16,megatron-2025,{}", "tp"),
        ("a,h100-sxm,64,llama-3-70b,8192,128,4.5,4,1,bf16,megatron-2025,{}", "tp"),
        ("a,h100-sxm,64,llama-3-70b,8192,,4,4,1,bf16,megatron-2025,{}", "global_batch_seqs"),
        ("a,h1000-sxm,64,llama-3-70b,8192,128,4,4,1,bf16,megatron-2025,{}", "h1000-sxm"),
        ("a,h100-sxm,64,llama-3-70b,8192,128,4,4,1,bf16,megatron-1999,{}", "megatron-1999"),
        ("a,h100-sxm,64,llama-3-70b,8192,128,4,4,1,bf16,megatron-2025", "cells"),
    ],
)
def test_a_wrong_cell_is_named_with_its_line(tmp_path, cell, told):
    kind, source = tables.read(write(tmp_path, rows=(ROWS[1], cell), values=(1.0, 2.0)))
    with pytest.raises(InputError, match=r"mine\.csv:3") as caught:
        kind.calibrate(source, catalogue.load())
    assert told in str(caught.value)


def test_a_cell_without_end_is_refused_with_its_line(tmp_path):
    kind, source = tables.read(write(tmp_path, rows=(ROWS[1], "x" * 200_000), values=(1.0, 2.0)))
    with pytest.raises(InputError, match=r"mine\.csv:3"):
        kind.calibrate(source, catalogue.load())


def test_unknown_columns_and_tables_are_refused(tmp_path):
    kind, source = tables.read(write(tmp_path, header=HEADER.replace("micro_batch", "micro_bach")))
    with pytest.raises(InputError, match="micro_batch"):
        kind.calibrate(source, catalogue.load())
    with pytest.raises(InputError, match="training: gpu, n_gpu"):
        tables.read(write(tmp_path, header="a,b,c"))
    with pytest.raises(InputError, match="no such file"):
        tables.read(tmp_path / "none.csv")


def test_the_command_prints_and_writes(tmp_path, capsys):
    path = truth(tmp_path, gemm_fraction=0.8)
    out = tmp_path / "own.toml"
    assert guard.run(["calibrate", "runs", "--table", str(path), "--out", str(out), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["kind"] == "training"
    assert out.read_text() == content["written"]
    assert guard.run(["calibrate", "runs", "--table", str(path), "--out", str(out)]) == 2
    assert guard.run(["calibrate", "runs", "--table", str(path)]) == 0
    assert "gemm_fraction" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[collectives]\nx = 1", "training"),
        ("[training.'megatron-2025/hoper']\ngemm_fraction = 1.0", "megatron-2025/hopper"),
        ("[training.'megatron-2025/hopper']\ngem_fraction = 1.0", "gemm_fraction"),
        ("[training.'megatron-2025/hopper']\ngemm_fraction = -1.0", "above 0"),
        ("[training", "TOML"),
    ],
)
def test_a_wrong_file_of_constants_is_refused(tmp_path, text, told):
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        calibrated.read_constants(path)
    assert told in str(caught.value)
