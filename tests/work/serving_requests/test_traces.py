"""Readers of traces against what is published of them, round trips, and files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard.face.cli import guard
from railyard.graph.request_table import RequestTable, joined
from railyard.kit.errors import InputError
from railyard.work.serving.summary import summarize
from railyard.work.serving.traces import FORMATS, read_lengths, read_trace, stream_trace, write_trace

DATA = Path(__file__).parent / "data"
SHIPPED = Path(__file__).parents[3] / "examples" / "serving" / "traces"

EXCERPTS = {
    "azure": DATA / "azure.csv",
    "vidur": DATA / "vidur.csv",
    "burstgpt": DATA / "burstgpt.csv",
    "mooncake": DATA / "mooncake.jsonl",
    "llmservingsim": DATA / "llmservingsim.jsonl",
    "vllm": DATA / "vllm.jsonl",
    "railyard": DATA / "railyard.csv",
}


def test_azure_code_trace_has_the_published_means() -> None:
    requests = read_trace(SHIPPED / "AzureLLMInferenceTrace_code.csv")
    summary = summarize(requests)
    assert len(requests) == 8819
    assert summary.input_tokens is not None
    assert summary.output_tokens is not None
    assert summary.input_tokens.mean == pytest.approx(2048, abs=0.5)
    assert summary.output_tokens.mean == pytest.approx(28, abs=0.5)
    assert requests.duration_s == pytest.approx(57.3 * 60, rel=0.01)
    assert requests.arrival_ps[1] == 52_000_000_000  # 18:17:03.97996 to 18:17:04.03196
    assert summary.prefix_hit_rate is None


def test_mooncake_synthetic_trace_has_the_published_hits() -> None:
    requests = read_trace(SHIPPED / "synthetic_trace.jsonl")
    summary = summarize(requests)
    assert len(requests) == 3993
    assert summary.input_tokens is not None
    assert summary.output_tokens is not None
    assert round(summary.input_tokens.mean) == 15_325
    assert round(summary.output_tokens.mean) == 149
    assert summary.prefix_hit_rate == pytest.approx(0.64, abs=0.005)


def test_azure_and_vidur_agree() -> None:
    """Vidur's table is made from Azure's: the same requests through two readers."""
    azure, vidur = read_trace(EXCERPTS["azure"]), read_trace(EXCERPTS["vidur"])
    assert np.abs(azure.arrival_ps - vidur.arrival_ps).max() <= 1_000_000  # Vidur keeps microseconds
    assert np.array_equal(azure.input_tokens, vidur.input_tokens)
    assert np.array_equal(azure.output_tokens, vidur.output_tokens)


def test_burstgpt_failures_are_refused_by_line_or_dropped() -> None:
    with pytest.raises(InputError, match="without an answer") as caught:
        read_trace(EXCERPTS["burstgpt"])
    assert [problem.line for problem in caught.value.problems] == [5]
    requests = read_trace(EXCERPTS["burstgpt"], empty="drop")
    assert len(requests) == 4
    assert "1 rows without an answer were dropped" in requests.source
    assert requests.kinds == ("ChatGPT, Conversation log", "GPT-4, Conversation log", "GPT-4, API log")


def test_tokens_become_prefix_hashes(tmp_path: Path) -> None:
    def row(tokens: list[int], at: int) -> str:
        return json.dumps({"input_toks": len(tokens), "output_toks": 3, "arrival_time_ns": at, "input_tok_ids": tokens})

    shared = list(range(40))
    path = tmp_path / "two.jsonl"
    path.write_text(row([*shared, 1], 0) + "\n" + row([*shared[:39], 7, 8, 9] + [5] * 10, 5) + "\n")
    requests = read_trace(path)
    assert np.diff(requests.block_ptr).tolist() == [2, 3]  # whole blocks of 16 in 41 and 52 tokens
    assert np.array_equal(requests.blocks_of(0), requests.blocks_of(1)[:2])
    assert requests.arrival_ps.tolist() == [0, 5000]


@pytest.mark.parametrize("name", EXCERPTS)
def test_every_format_is_recognised_and_named(name: str) -> None:
    by_itself = read_trace(EXCERPTS[name], empty="drop")
    assert by_itself == read_trace(EXCERPTS[name], name, empty="drop")
    assert FORMATS.get(name).title in by_itself.source


def test_every_format_has_an_excerpt() -> None:
    assert set(EXCERPTS) == set(FORMATS.names())


@pytest.mark.parametrize("name", EXCERPTS)
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_streaming_gives_the_same_requests(name: str, chunk: int) -> None:
    parts = list(stream_trace(EXCERPTS[name], chunk, empty="drop"))
    whole = read_trace(EXCERPTS[name], empty="drop")
    assert joined(parts) == whole
    assert all(len(part) <= chunk for part in parts)


def lists(low: int, high: int, count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=count, max_size=count)


@st.composite
def any_requests(draw: st.DrawFn, least: int = 1) -> RequestTable:
    count = draw(st.integers(least, 12))
    tokens = draw(lists(1, 2**31 - 1, count))
    block = draw(st.sampled_from([0, 1, 16, 512]))
    held = [draw(st.integers(0, min(4, -(-n // block)))) if block else 0 for n in tokens]
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True))
    return RequestTable(
        arrival_ps=np.sort(np.array(draw(lists(0, 2**62, count)), np.int64)),
        input_tokens=np.array(tokens, np.int32),
        output_tokens=np.array(draw(lists(1, 2**31 - 1, count)), np.int32),
        block_ptr=np.concatenate(([0], np.cumsum(held))),
        block_hash=np.array(draw(lists(0, 2**64 - 1, sum(held))), np.uint64),
        block_tokens=block,
        session=np.array(draw(lists(-1, 2**62, count)), np.int64),
        kind=np.array(draw(lists(0, len(names) - 1, count)), np.int16),
        kinds=tuple(names),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests=any_requests())
def test_what_is_written_comes_back(requests: RequestTable, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    write_trace(requests, path)
    back = read_trace(path)
    assert [back.kinds[k] for k in back.kind] == [requests.kinds[k] for k in requests.kind]
    for name in ("arrival_ps", "input_tokens", "output_tokens", "block_ptr", "block_hash", "session"):
        assert np.array_equal(getattr(back, name), getattr(requests, name)), name
    assert back.block_tokens == requests.block_tokens


@settings(max_examples=40, deadline=None)
@given(one=any_requests(), other=any_requests())
def test_merging_keeps_every_request_in_order(one: RequestTable, other: RequestTable) -> None:
    if one.block_tokens and other.block_tokens and one.block_tokens != other.block_tokens:
        with pytest.raises(InputError, match="differ in length"):
            one.concat(other)
        return

    def rows(requests: RequestTable) -> list[tuple[object, ...]]:
        return [
            (
                int(requests.arrival_ps[i]),
                int(requests.input_tokens[i]),
                int(requests.output_tokens[i]),
                tuple(requests.blocks_of(i).tolist()),
                int(requests.session[i]),
                requests.kinds[requests.kind[i]],
            )
            for i in range(len(requests))
        ]

    both = one.concat(other)
    assert rows(both) == sorted(rows(one) + rows(other), key=lambda row: row[0])
    assert rows(both.head(3)) == rows(both)[:3]


# -- files that are wrong ----------------------------------------------------------------------------------------------

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.5,10,5\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,10,5\n"
MOON = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n'

WRONG = [
    (AZURE + "2023-11-16 18:00:01.5,,5\n", "a hole: ContextTokens is empty", 3),
    (AZURE + ",10,5\n", "a hole: TIMESTAMP is empty", 3),
    (AZURE + "\n2023-11-16 18:00:01.5,10,5\n", "a blank line stands between rows", 3),
    (AZURE + "2023-11-16 18:00:01.5,10\n", "as many cells as the heading", 3),
    (AZURE + "2023-02-30 18:00:01.5,10,5\n", "a day that does not exist", 3),
    (AZURE + "now,10,5\n", "TIMESTAMP must be a date", 3),
    (AZURE + "2023-11-16 17:59:59,10,5\n", "out of order", 3),
    (AZURE + "2023-11-16 18:00:01.5,10,0\n", "0 output tokens", 3),
    (AZURE + "2023-11-16 18:00:01.5,0,1\n", "ContextTokens is zero", 3),
    (AZURE + "2023-11-16 18:00:01.5,1_0,1\n", "ContextTokens: expected an integer", 3),
    (AZURE + "2024-11-16 18:00:01.5,10,1\n", "more than 106 days", 3),
    (AZURE.replace("ContextTokens", "ContextToken"), "unknown column `ContextToken`.*did you mean `ContextTokens`", 1),
    (AZURE.replace(",GeneratedTokens", ""), "lacks `GeneratedTokens`", 1),
    (VIDUR + "-1.0,10,5\n", "arrived_at is negative", 3),
    (VIDUR + "nan,10,5\n", "arrived_at: expected a number", 3),
    (VIDUR + "1e999,10,5\n", "arrived_at is too large", 3),
    (VIDUR + "1.0,-3,5\n", "num_prefill_tokens is negative", 3),
    (VIDUR + "1.0,3000000000,5\n", "num_prefill_tokens is too large", 3),
    (VIDUR + '1.0,"3,5\n', "a quote opens a cell", 3),
    (VIDUR.replace("arrived_at,", "arrived_at,arrived_at,"), "two columns are called `arrived_at`", 1),
    ("num_prefill_tokens,num_decode_tokens\n1,2\n", "lengths only", 1),
    (MOON + '{"timestamp": 1, "input_length"\n', "not a JSON object", 2),
    (MOON + "[1]\n", "not a JSON object", 2),
    (MOON + MOON.replace("timestamp", "timestamps"), "unknown key `timestamps`; did you mean `timestamp`", 2),
    (MOON + '{"timestamp": 1, "input_length": 3, "hash_ids": []}\n', "a hole: `output_length` is missing", 2),
    (MOON + MOON.replace("0", "-5", 1), "timestamp is negative", 2),
    (MOON + MOON.replace("0,", "NaN,", 1), "timestamp is too large|timestamp is", 2),
    (MOON + MOON.replace("600", "600.5"), "input_length: expected an integer", 2),
    (MOON + MOON.replace("600", "true"), "input_length: expected an integer", 2),
    (MOON + MOON.replace("600", "null"), "a hole: input_length is empty", 2),
    (MOON + MOON.replace("600", "512"), "more block hashes than the prompt has blocks", 2),
    (MOON + MOON.replace("[1, 2]", "[1, -2]"), "hash_ids: expected a list", 2),
    (MOON + MOON.replace("[1, 2]", "3"), "hash_ids: expected a list", 2),
    (MOON + "[" * 5000 + "\n", "(?s)not a JSON object.*recursion", 2),
    (MOON + "9" * 5000 + "\n", "(?s)not a JSON object.*Exceeds the limit", 2),
    ("a,b,c\n1,2,3\n", "format of the trace is not known", 1),
    (AZURE.split("\n", maxsplit=1)[0] + "\n", "holds no requests", None),
    ("", "holds no requests", None),
]


@pytest.mark.parametrize(("text", "message", "line"), WRONG, ids=range(len(WRONG)))
def test_wrong_files_are_refused_by_line(text: str, message: str, line: int | None, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        read_trace(path)
    assert caught.value.problems[0].line == line
    assert caught.value.problems[0].file == str(path)


def test_all_wrong_lines_are_counted_and_some_are_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(VIDUR + "1.0,x,5\n" * 30)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert [problem.line for problem in caught.value.problems] == [*range(3, 11), None]
    assert "22 more lines" in str(caught.value)


def test_a_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"\xef\xbb\xbf" + AZURE.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    assert read_trace(path).input_tokens.tolist() == [10]


def test_sorting_is_asked_for_and_said(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(VIDUR + "3.0,1,1\n2.0,2,2\n4.0,3,3\n")
    requests = read_trace(path, sort=True)
    assert requests.arrival_ps.tolist() == [0, 2 * 10**12, 3 * 10**12, 4 * 10**12]
    assert requests.input_tokens.tolist() == [10, 2, 1, 3]
    assert "1 rows out of order were sorted" in requests.source


def test_sorted_hashes_stay_with_their_requests(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(MOON.replace("0", "9", 1) + MOON.replace("[1, 2]", "[7]"))
    requests = read_trace(path, sort=True)
    assert requests.blocks_of(0).tolist() == [7]
    assert requests.blocks_of(1).tolist() == [1, 2]


def test_lengths_without_arrivals(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n7,2,9,3.5\n")
    assert [column.tolist() for column in read_lengths(path)] == [[7], [2]]


# `railyard trace` as a user meets it.

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
