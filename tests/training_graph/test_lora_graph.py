"""The task graph of a frozen model with adapters: it sends what the closed form sends."""

import json

from railyard.face.cli import guard

SCENARIO = """\
cluster: {{accelerators: 16, server: hgx-h100, back_end: {{topology: rail-optimized}}}}
workload:
  training:
    model: llama-3.1-8b
    sequence: 4096
    global_batch: 32
    parallelism: {{{}}}
    software: torchtitan-2025
    {}
"""


def step(folder, capsys, engine, layout, lora):
    path = folder / "s.yaml"
    path.write_text(SCENARIO.format(layout, lora))
    assert guard.run(["run", str(path), "--engine", engine, "--json"]) == 0
    (variant,) = json.loads(capsys.readouterr().out)["variants"]
    return next(row["typical"] for row in variant["model_error"] if row["figure"] == "step_s")


def test_engines_agree_on_adapters(tmp_path, capsys):
    for layout in ("tp: 2, zero: 1", "zero: 3, recompute: full"):
        lora = "lora: {rank: 8}"
        flow, closed = (step(tmp_path, capsys, engine, layout, lora) for engine in ("flow", "analytic"))
        assert abs(flow / closed - 1.0) < 0.06, layout
        assert flow < 0.95 * step(tmp_path, capsys, "flow", layout, "")


def test_a_wrong_rank_is_named(tmp_path, capsys):
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.format("tp: 2", "lora: {rank: 0}"))
    assert guard.run(["run", str(path)]) == 2
    assert "lora.rank" in capsys.readouterr().err
