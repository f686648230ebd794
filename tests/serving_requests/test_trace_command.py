"""`railyard trace` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railyard.face.cli import guard

SHIPPED = Path(__file__).parents[2] / "examples" / "serving" / "traces"
BURSTGPT = Path(__file__).parent / "data" / "burstgpt.csv"


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert guard.run(["trace", str(SHIPPED / "synthetic_trace.jsonl")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "3,993 requests in 17 min" in out
    assert "64.0%" in out
    assert "15,325" in out


def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert guard.run(["trace", str(SHIPPED / "AzureLLMInferenceTrace_code.csv"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["requests"] == 8819
    assert summary["prefix_hit_rate"] is None
    assert summary["dispersion"]["10"] == pytest.approx(71.6, abs=0.1)


def test_one_request_is_a_trace_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "one.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n3.0,10,5\n")
    assert guard.run(["trace", str(path)]) == 0
    assert guard.run(["trace", str(path), "--json"]) == 0
    assert "1 requests" in capsys.readouterr().out


def test_wrong_rows_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert guard.run(["trace", str(BURSTGPT)]) == 2
    err = capsys.readouterr().err
    assert f"{BURSTGPT}:5" in err
    assert "--drop-empty" in err
    assert guard.run(["trace", str(BURSTGPT), "--drop-empty"]) == 0
    assert "class GPT-4, API log" in capsys.readouterr().out


def test_an_unknown_format_has_a_neighbour(capsys: pytest.CaptureFixture[str]) -> None:
    assert guard.run(["trace", str(BURSTGPT), "--format", "burstgtp"]) == 2
    assert "burstgpt" in capsys.readouterr().err


def test_a_missing_file_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert guard.run(["trace", "nowhere.csv"]) == 2
    assert "there is no such file" in capsys.readouterr().err
