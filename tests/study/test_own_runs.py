"""A scenario that knows its own measured steps: the prediction moves towards them, and its band says how far."""

import json

from railyard.face.cli import guard

TABLE = """\
id,gpu,n_gpu,model,seq_len,global_batch_seqs,tp,pp,micro_batch,precision,software,step_time_s
a,h100-sxm,16,llama-3.1-8b,8192,32,2,1,1,bf16,megatron-2025,{}
b,h100-sxm,16,llama-3.1-8b,8192,64,2,1,1,bf16,megatron-2025,{}
c,h100-sxm,16,llama-3.1-8b,8192,48,2,1,1,bf16,megatron-2025,{}
"""
SCENARIO = """\
cluster: {{accelerators: 16, server: hgx-h100}}
workload:
  training:
    model: llama-3.1-8b
    sequence: 8192
    global_batch: 40
    parallelism: {{tp: 2}}
    software: {{profile: {}{}}}
"""


def shown(folder, capsys, profile="megatron-2025", more=", constants: own.toml"):
    path = folder / "s.yaml"
    path.write_text(SCENARIO.format(profile, more))
    assert guard.run(["run", str(path), "--engine", "analytic", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    (variant,) = content["variants"]
    return content, next(row for row in variant["model_error"] if row["figure"] == "step_s")


def test_own_steps_move_the_step_and_its_band(tmp_path, capsys):
    _, plain = shown(tmp_path, capsys, more="")
    slower = 1.2 * plain["typical"] / 40
    (tmp_path / "mine.csv").write_text(TABLE.format(32 * slower, 64 * slower, 48 * slower))
    assert (
        guard.run(["calibrate", "runs", "--table", str(tmp_path / "mine.csv"), "--out", str(tmp_path / "own.toml")])
        == 0
    )
    capsys.readouterr()
    _, moved = shown(tmp_path, capsys)
    assert 1.12 < moved["typical"] / plain["typical"] < 1.21
    assert moved["family"] == "step: own runs"
    assert (moved["rows"], moved["sources"]) == (3, 1)
    assert moved["low"] < moved["typical"] < moved["high"] < 1.1 * moved["typical"]
    # Of another software the file says nothing, and the result tells so.
    _, other = shown(tmp_path, capsys, profile="megatron-2024")
    _, same = shown(tmp_path, capsys, profile="megatron-2024", more="")
    assert other == same


def test_a_missing_file_is_named(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(SCENARIO.format("megatron-2025", ", constants: none.toml"))
    assert guard.run(["run", str(tmp_path / "s.yaml")]) == 2
    assert "none.toml" in capsys.readouterr().err
