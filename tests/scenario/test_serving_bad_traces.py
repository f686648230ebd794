"""What a user is told of a bad trace, a load without end, and requests that no replica holds: on the command line."""

from __future__ import annotations

import pytest

from railyard.face.cli import guard

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,100,10\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,10,10\n"
MOONCAKE = '{"timestamp": 10, "input_length": 600, "output_length": 10, "hash_ids": [1, 2]}\n'
SCENARIO = """name: asked
cluster: {accelerators: 8, server: hgx-h100, back_end: {topology: rail-optimized, fabric: roce}}
workload:
  serving:
    model: llama-3.1-8b
    requests: {REQUESTS}
    pools: {both: {replicas: REPLICAS}}
    slo: {ttft: 1 s}
"""


@pytest.fixture
def told(tmp_path, capsys):
    """Runs a scenario: exit code and everything that was printed, with single spaces."""

    def run(requests, replicas=4):
        path = tmp_path / "asked.yaml"
        path.write_text(SCENARIO.replace("REQUESTS", requests).replace("REPLICAS", str(replicas)), encoding="utf-8")
        code = guard.run(["run", str(path), "--out", str(tmp_path / "runs")])
        printed = capsys.readouterr()
        return code, " ".join((printed.out + printed.err).split())

    return run


@pytest.mark.parametrize(
    ("place", "text", "words"),
    [
        ("hole.csv:3", AZURE + "2023-11-16 18:15:47,,10\n", "a hole: ContextTokens is empty"),
        ("hole.jsonl:2", MOONCAKE + '{"timestamp": 15, "input_length": 6, "hash_ids": []}\n', "`output_length` is"),
        ("negative.csv:3", VIDUR + "-1.0,10,10\n", "arrived_at is negative"),
        ("negative.jsonl:1", MOONCAKE.replace("10,", "-10,", 1), "timestamp is negative"),
        ("tokens.csv:3", AZURE + "2023-11-16 18:15:47,-5,10\n", "ContextTokens is negative"),
        ("unknown.csv:1", AZURE.replace("GeneratedTokens", "GeneratedTokens,Color"), "unknown column `Color`"),
        ("order.csv:3", AZURE + "2023-11-16 18:15:40,5,10\n", "out of order"),
        ("order.jsonl:2", MOONCAKE + MOONCAKE.replace("10,", "5,", 1), "out of order"),
        ("answer.csv:3", AZURE + "2023-11-16 18:15:47,5,0\n", "without an answer"),
        ("date.csv:3", AZURE + "yesterday,5,1\n", "must be a date and a time"),
        ("cells.csv:3", AZURE + "2023-11-16 18:15:47,5\n", "as many cells"),
    ],
)
def test_a_wrong_row_is_named_by_its_line(tmp_path, told, place, text, words):
    name, _ = place.split(":")
    (tmp_path / name).write_text(text, encoding="utf-8")
    code, said = told(f"trace: {name}")
    assert code == 2
    assert words in said
    assert place in said.replace(" ", "")


def test_rows_out_of_order_and_without_answers_can_be_taken_as_they_are(tmp_path, told):
    (tmp_path / "mixed.csv").write_text(AZURE + "2023-11-16 18:15:40,5,10\n2023-11-16 18:15:50,5,0\n", encoding="utf-8")
    code, said = told("trace: mixed.csv, sort: true, drop_empty: true")
    assert code == 0, said
    assert "TTFT" in said


def test_a_load_that_can_never_drain_is_ended_and_said(tmp_path, told):
    drawn = "synthetic: {rate: 2000, input: 4000, output: 500, count: 30000}"
    code, said = told(drawn, replicas=1)
    assert code == 0
    assert "overload: the queue grew without bound and the run was ended after" in said
    assert "of 30000 requests were not answered" in said


def test_a_request_longer_than_any_cache_is_refused_and_said(tmp_path, told):
    (tmp_path / "long.csv").write_text(AZURE + "2023-11-16 18:15:47,9000000,10\n", encoding="utf-8")
    code, said = told("trace: long.csv")
    assert code == 0
    assert "1 request is longer than the cache of any replica: refused" in said
