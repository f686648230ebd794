"""`railyard calibrate runs`: truths that it has to find again, and cells that it must refuse."""

import dataclasses
import json
from dataclasses import replace

import numpy as np
import pytest

from railyard import catalog
from railyard import catalog as catalogue
from railyard.ask.calibrate import measurements
from railyard.ask.calibrate.kinds.serving import fitted, loop_of, rows_of
from railyard.ask.calibrate.kinds.training import paces, predicted, steps_of
from railyard.ask.calibrate.measurements import HUBER, Prior, posterior
from railyard.face.cli import guard
from railyard.graph import Job
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.serving.software import ServingSoftwareColumns, profile, read_profiles
from railyard.work.study.study import prepare
from railyard.work.training import pace as calibrated
from railyard.work.training import profiles
from railyard.work.training.designs import estimate
from railyard.work.training.explain_tree import COMPUTATION, HOST, tree_of
from railyard.work.training.graphs import Graphs
from railyard.work.training.pace import TRAITS, pace_of, place, scatter, step_width, traits_of
from railyard.work.training.spec import OwnRun
from railyard.work.training.trust import _unlike_own_runs

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


def truth(folder, pace):
    """The table whose steps are what the model says where ranks take so many times as long."""
    known = catalogue.load()
    steps = steps_of(measurements.read(write(folder))[1], known)
    jobs = [(step.training, step.machine) for step in steps]
    return write(folder, values=predicted(jobs, np.full(len(jobs), pace)).tolist())


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


def test_the_pace_that_made_the_steps_is_found(tmp_path):
    kind, source = measurements.read(truth(tmp_path, 1.12))
    assert kind.name == "training"
    found = kind.calibrate(source, catalogue.load())
    (pace,) = found.constants
    assert pace.name == "pace"
    # Four runs that agree are believed for the most part, not altogether.
    assert 1.08 < pace.value < 1.12
    assert pace.low < pace.value < pace.high
    assert 0.5 < pace.settled < 1.0
    for row in found.rows:
        assert abs(row.after / row.measured - 1) < 0.03 < abs(row.before / row.measured - 1)
        assert abs(row.after / row.measured - 1) < abs(row.left_out / row.measured - 1)
        assert abs(row.left_out / row.measured - 1) < abs(row.before / row.measured - 1)


def test_paces_are_those_at_which_predictions_meet_measurements(tmp_path):
    steps = steps_of(measurements.read(truth(tmp_path, 0.83))[1], catalogue.load())
    jobs = [(step.training, step.machine) for step in steps]
    found = paces(jobs, np.array([step.measured_s for step in steps]))
    assert np.exp(found.off) == pytest.approx(np.full(4, 0.83), rel=1e-6)
    assert np.all((found.slope > 0.6) & (found.slope < 1.0))


def test_adapters_are_read_and_stand_apart_from_full_runs(tmp_path):
    header = HEADER + ",lora_rank,lora_targets"
    rows = (ROWS[1] + ",,", ROWS[1].replace("b,", "l,", 1) + ",8,attention")
    steps = steps_of(
        measurements.read(write(tmp_path, header=header, rows=rows, values=(9.0, 7.0)))[1], catalogue.load()
    )
    assert steps[0].training.lora is None
    assert (steps[1].training.lora.rank, steps[1].training.lora.targets) == (8, "attention")
    whole, adapted = (place(traits_of(step.training)) for step in steps)
    assert np.linalg.norm(whole - adapted) == pytest.approx(3.0)
    wrong = write(tmp_path, header=header, rows=(ROWS[1] + ",8,mlp",), values=(9.0,))
    with pytest.raises(InputError, match="lora_targets"):
        steps_of(measurements.read(wrong)[1], catalogue.load())


def test_what_is_written_is_what_is_read(tmp_path):
    known = catalogue.load()
    kind, source = measurements.read(truth(tmp_path, 1.12))
    found = kind.calibrate(source, known)
    (tmp_path / "own.toml").write_text(found.written)
    runs = calibrated.read_runs(tmp_path / "own.toml")
    device = known.accelerator("h100-sxm")
    moved = calibrated.over(profiles.profile("megatron-2025", device), runs)
    assert [run.name for run in moved.own_runs] == ["a", "b", "c", "d"]
    # A scenario's step is what the command printed for it.
    for step, row in zip(steps_of(source, known), found.rows, strict=True):
        job = step.training.replace(software=moved)
        assert estimate([job], [step.machine]).step_s[0] == pytest.approx(row.after, rel=1e-4)
        assert pace_of(job, "b200-sxm")[0] == 1.0
    other = dataclasses.replace(profiles.profile("megatron-2025", device), name="megatron-1999")
    assert calibrated.over(other, runs) == other


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
        ("a,h100-sxm,8,llama-3-70b,8192,128,1,1,1,bf16,megatron-2025,9", "GiB of memory, h100-sxm has 80 GiB"),
    ],
)
def test_a_wrong_cell_is_named_with_its_line(tmp_path, cell, told):
    kind, source = measurements.read(write(tmp_path, rows=(ROWS[1], cell), values=(1.0, 2.0)))
    with pytest.raises(InputError, match=r"mine\.csv:3") as caught:
        kind.calibrate(source, catalogue.load())
    assert told in str(caught.value)


def test_steps_that_no_pace_explains_are_refused_and_nothing_is_written(tmp_path, capsys):
    """Milliseconds in a column of seconds, and a step that a fifth of the pace would not make so short."""
    known, out = catalogue.load(), tmp_path / "own.toml"
    steps = steps_of(measurements.read(write(tmp_path))[1], known)
    jobs = [(step.training, step.machine) for step in steps]
    slow, fast = (predicted(jobs, np.full(4, pace)).tolist() for pace in (5.0, 0.2))
    write(tmp_path, values=(1000 * slow[0] / 5, slow[1] * 0.99, fast[2] * 1.01, fast[3] * 0.99))
    assert guard.run(["calibrate", "runs", "--table", str(tmp_path / "mine.csv"), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.count("no pace explains this step") == 2
    assert "mine.csv:2" in said
    assert "mine.csv:5" in said
    assert said.count("step_time_s: no pace") == 2
    assert said.count("is it in milliseconds?") == 1
    assert not out.exists()


CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}


@pytest.mark.parametrize("name", ["./config.json", "./config.json as llama", "{folder}/config.json"])
def test_a_model_of_a_file_is_calibrated_and_the_pace_reaches_its_scenario(tmp_path, name):
    name = name.format(folder=tmp_path)
    like = {"model_type": "ours"} if " as " in name else {}
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, **like}))
    rows = tuple(f"{row},h100-sxm,8,{name},8192,64,{row},1,1,bf16,megatron-2025,{{}}" for row in (1, 2))
    jobs = [
        (step.training, step.machine)
        for step in steps_of(measurements.read(write(tmp_path, rows=rows, values=(9, 9)))[1], KNOWN)
    ]
    assert {training.model.layers for training, _ in jobs} == {24}
    table = write(tmp_path, rows=rows, values=predicted(jobs, np.full(2, 1.2)).tolist())
    assert guard.run(["calibrate", "runs", "--table", str(table), "--out", str(tmp_path / "own.toml")]) == 0
    training = {"model": name, "global_batch": 64, "sequence": 8192, "parallelism": {"tp": 2, "micro_batch": 1}}
    values = {
        "name": "mine",
        "cluster": {"accelerators": 8, "server": "hgx-h100"},
        "workload": {
            "training": {**training, "software": {"profile": "megatron-2025", "constants": str(tmp_path / "own.toml")}}
        },
    }
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps(values))
    (job,) = prepare(load.load(file))
    assert 1.1 < pace_of(job.training, "h100-sxm")[0] < 1.2
    # A run's own part has Student's distribution with 4 degrees of freedom: a variance of 4 / (4 - 2) squared scales.
    own = step_width(job.training, "h100-sxm") ** 2 - pace_of(job.training, "h100-sxm")[1] ** 2
    assert own == pytest.approx(2 * scatter().run ** 2)
    # What kernels take longer is computation, and no wait for the host.
    plain = job.training.replace(software=replace(job.training.software, own_runs=()))
    found, shipped = (_parts_of_step(job, training) for training in (job.training, plain))
    pace = pace_of(job.training, "h100-sxm")[0]
    assert found[COMPUTATION] == pytest.approx(pace * shipped[COMPUTATION], rel=1e-6)
    assert found.get(HOST, 0) == pytest.approx(pace * shipped.get(HOST, 0), rel=1e-6)


def _parts_of_step(job, training):
    graph = Graphs().of(training, job.cluster)
    timeline = job.engine.simulate([Job(graph)], job.cluster, policy=job.policy)
    return {node.name: node.amount_ps for node in tree_of(timeline, job.cluster, training, job.policy).root.children}


def test_a_layout_unlike_own_runs_is_said(tmp_path):
    """The best layout was measured 1.4 times as slow: `auto` takes one unlike it; a note has both bands.

    At 1.2 or 1.05 times others look faster too, but more is open of their pace than they would gain: it stays.
    """
    values = {
        "name": "mine",
        "cluster": {"accelerators": 16, "server": "hgx-h100"},
        "workload": {"training": {"model": "llama-3-8b", "global_batch": 64, "sequence": 4096}},
    }
    (plain,) = prepare(load.from_values(values), engine="analytic")
    assert list(_unlike_own_runs(plain)) == []
    best, notes = plain.layouts[0], {}
    own = tmp_path / "own.toml"
    for paces_of in ((1.4, 1.4), (1.4, 1.4, 0.9), (1.05, 1.05), (1.001, 1.001)):
        runs = tuple(
            OwnRun("h100-sxm", f"{number}", pace, 0.01, traits_of(best.training))
            for number, pace in enumerate(paces_of)
        )
        own.write_text(calibrated.written({profiles.key_of(plain.training.software): runs}, "t"))
        changes = {"workload.training.software.constants": str(own)}
        (job,) = prepare(load.from_values(values, changes), engine="analytic")
        notes[paces_of] = list(_unlike_own_runs(job))
        assert (job.layouts[0].layout == best.layout) == (paces_of != (1.4, 1.4))
        steps = [one.step_s for one in job.layouts]
        assert (min(steps) < steps[0]) == (paces_of in ((1.4, 1.4, 0.9), (1.05, 1.05)))
    assert [len(found) for found in notes.values()] == [1, 0, 0, 0]
    assert "is unlike your own runs" in notes[1.4, 1.4][0]
    # 0.0266^2 + 0.0759^2 = 0.006469 of both runs, 0.01^2 / 2 of their own: 1.4^(0.006469 / 0.006519) and its width.
    assert "theirs by +39.6 +- 0.7 %" in notes[1.4, 1.4][0]
    # A layout that the scenario writes is no more known than one that `auto` chose.
    changes |= {"workload.training.parallelism": {"tp": 8, "pp": 2, "vp": 16, "micro_batch": 1}}
    (fixed,) = prepare(load.from_values(values, changes), engine="analytic")
    assert "TP 8 PP 2" in next(iter(_unlike_own_runs(fixed)))


def test_a_model_that_nobody_knows_is_reported_once(tmp_path, capsys):
    path = write(tmp_path, rows=tuple(row.replace("llama-3-", "lama-3-") for row in ROWS))
    assert guard.run(["calibrate", "runs", "--table", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("the catalogue has no model `lama-3-70b`") == said.count("mine.csv:2") == 1
    assert "(the same in 1 more row)" in said
    write(tmp_path, rows=tuple(row.replace("llama-3-70b", "./none.json") for row in ROWS))
    assert guard.run(["calibrate", "runs", "--table", str(path)]) == 2
    assert capsys.readouterr().err.count("there is no such file") == 1


def test_one_row_is_said_to_check_nothing(tmp_path, capsys):
    path = write(tmp_path, rows=ROWS[:1], values=(11.0,))
    assert guard.run(["calibrate", "runs", "--table", str(path)]) == 0
    assert "no other row checks it" in " ".join(capsys.readouterr().out.split())


def test_the_command_prints_and_writes(tmp_path, capsys):
    path = truth(tmp_path, 1.1)
    out = tmp_path / "own.toml"
    assert guard.run(["calibrate", "runs", "--table", str(path), "--out", str(out), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["kind"] == "training"
    assert out.read_text() == content["written"]
    assert guard.run(["calibrate", "runs", "--table", str(path), "--out", str(out)]) == 2
    assert guard.run(["calibrate", "runs", "--table", str(path)]) == 0
    assert "pace" in capsys.readouterr().out


RUN = (
    "[[training.'megatron-2025/hopper']]\ndevice = 'h100-sxm'\nname = 'a'\npace = 1.0\nspread = 0.04\n"
    "traits = {" + ", ".join(f"{name} = 1" for name in TRAITS) + "}\n"
)


def test_names_of_runs_survive_their_file(tmp_path):
    name = 'x"\\\n\u2028é'
    path = tmp_path / "own.toml"
    path.write_text(
        calibrated.written({"megatron-2025/hopper": (OwnRun("h100-sxm", name, 1.0, 0.1, (1.0,) * len(TRAITS)),)}, "t")
    )
    (run,) = calibrated.read_runs(path)["megatron-2025/hopper"]
    assert run.name == name


def test_every_key_of_a_scenarios_software_and_layout_is_a_column(tmp_path):
    header = (
        HEADER
        + ",cuda_graphs,graphs,fused_experts,dispatcher,attention_precision,head_precision,bucket,gate,routing_skew"
    )
    cells = ",yes,attn+moe_router,1,hybridep,fp8,fp8,1.5 GB,1 B,1.25"
    row = "v,gb300,512,gpt-oss-20b,8192,512,2,1,1,fp8,megatron-2026,{}" + cells
    (step,) = steps_of(
        measurements.read(write(tmp_path, header=header, rows=(row,), values=(0.0904,)))[1], catalogue.load()
    )
    software, layout = step.training.software, step.training.layout
    assert (software.cuda_graphs, software.graphs, software.fused_experts) == (True, ("attn", "moe_router"), True)
    assert (software.dispatcher, software.attention_precision, software.head_precision) == ("hybridep", "fp8", "fp8")
    assert (layout.bucket_bytes, software.gate_bytes, step.training.routing_skew) == (1_500_000_000, 1.0, 1.25)
    # Its NICs are those of the server in which it comes, 800 Gb/s; those of a GB200 have 400.
    assert step.machine.scale_out_bps == pytest.approx(0.92 * 800e9)


# `railyard calibrate runs` on serving runs: truths that it has to find again, and cells that it must refuse.

SERVING_TABLES_HEADER = "id,gpu,model,software,tp,precision,input_tokens,output_tokens,concurrency,tpot_ms"
LOADS = ((1, 8), (2, 64), (4, 16), (2, 4), (4, 128))
KNOWN = catalog.load()


def serving_tables_write(folder, tpot_ms, *, header=SERVING_TABLES_HEADER, change=lambda line: line):
    rows = [
        f"r{number},h100-sxm,qwen3-32b,vllm,{tp},fp8,1000,500,{users},{ms}"
        for number, ((tp, users), ms) in enumerate(zip(LOADS, tpot_ms, strict=True))
    ]
    path = folder / "mine.csv"
    path.write_text("\n".join([header, *map(change, rows)]) + "\n", encoding="utf-8")
    return path


def serving_tables_truth(folder, **changed):
    """The table whose times are what the law says under changed constants."""
    rows = rows_of(measurements.read(serving_tables_write(folder, [1.0] * len(LOADS)))[1], KNOWN)
    shipped = profile("vllm", rows[0].device)
    times = {name: getattr(shipped, name) * factor for name, factor in changed.items()}
    seconds = loop_of(rows).seconds(ServingSoftwareColumns([replace(shipped, **times)] * len(rows)))[0]
    return serving_tables_write(folder, (1e3 * seconds).tolist())


def test_a_slow_engine_is_found_and_its_other_loads_with_it(tmp_path):
    """Layers of 1.5 times the kernels: rows predicted without themselves are right within 2 %, shipped ones are not."""
    kind, source = measurements.read(serving_tables_truth(tmp_path, layer_s=1.5))
    assert kind.name == "serving"
    found = kind.calibrate(source, KNOWN)
    (layer,) = [one for one in found.constants if one.name == "layer_s"]
    assert layer.low < 1.5 * layer.before < layer.high
    before = [abs(row.before / row.measured - 1.0) for row in found.rows]
    without = [abs(row.left_out / row.measured - 1.0) for row in found.rows]
    assert max(before) > 0.1
    assert max(without) < 0.04
    path = tmp_path / "mine.toml"
    path.write_text(found.written, encoding="utf-8")
    assert read_profiles(path)["vllm", "h100-sxm"].constants["layer_s"] == pytest.approx(layer.value, rel=1e-3)


def test_rows_as_shipped_move_nothing(tmp_path):
    rows = rows_of(measurements.read(serving_tables_truth(tmp_path))[1], KNOWN)
    found = fitted(loop_of(rows), profile("vllm", rows[0].device))
    values, before = ([getattr(one, name) for one in found.constants] for name in ("value", "before"))
    assert values == pytest.approx(before, rel=1e-3)
    assert found.seconds[1, 0] == pytest.approx(loop_of(rows).measured_s[0], rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",fp8,", ",fp9,", "fp8"),
        (",1000,", ",-3,", "input_tokens"),
        (",500,", ",0.5,", "output_tokens"),
        (",vllm,", ",vlm,", "vllm"),
        ("h100-sxm", "TPU-trillium", "TPU-trillium"),
    ],
)
def test_wrong_cells_are_named_with_their_line(tmp_path, old, new, words):
    path = serving_tables_write(tmp_path, [10.0] * len(LOADS), change=lambda line: line.replace(old, new, 1))
    kind, source = measurements.read(path)
    with pytest.raises(InputError) as refused:
        kind.calibrate(source, KNOWN)
    assert words in str(refused.value)
    assert all(problem.line for problem in refused.value.problems)


def test_a_row_without_a_measurement_is_refused(tmp_path):
    path = serving_tables_write(tmp_path, [""] * len(LOADS))
    kind, source = measurements.read(path)
    with pytest.raises(InputError, match="tpot_ms, ttft_ms must be filled"):
        kind.calibrate(source, KNOWN)
