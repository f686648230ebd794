"""NCCL RAS: ranks that are dead, silent or behind; states with broken commas."""

import json
from pathlib import Path

import pytest

from railyard.ask.observe.diagnose import diagnose
from railyard.ask.observe.gather import gather
from railyard.kit.errors import InputError


def state(counts, missing=()):
    ranks = [{"rank": rank, "host": "n1", "collective_counts": {"AllReduce": n}} for rank, n in enumerate(counts)]
    return {
        "nccl_version": "2.28.9",
        "communicators": [{"hash": "0xa", "ranks": ranks, "missing_ranks": list(missing)}],
    }


def put(folder, *states):
    for number, one in enumerate(states):
        text = one if isinstance(one, str) else json.dumps(one)
        (folder / f"ras-{number}.json").write_text(text, encoding="utf-8")
    return diagnose(folder)


def named(answer):
    return [(one.part, one.confidence) for one in answer.verdict]


@pytest.mark.parametrize(
    ("missing", "confidence"),
    [
        ({"rank": 3, "status": {"unresponsive": True, "considered_dead": True}}, 0.95),
        ({"rank": 3, "unresponsive": True, "considered_dead": False}, 0.8),
    ],
)
def test_missing_ranks(tmp_path, missing, confidence):
    assert named(put(tmp_path, state([5, 5, 5], [missing]))) == [("rank 3", confidence)]


def test_a_rank_that_is_behind_is_surer_when_nothing_grows(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert named(put(tmp_path / "a", state([9, 9, 8, 9]))) == [("rank 2", 0.5)]
    assert named(put(tmp_path / "b", state([9, 9, 8, 9]), state([9, 9, 8, 9]))) == [("rank 2", 0.9)]


def test_equal_counts_name_nobody_and_halves_are_unknown(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    even = put(tmp_path / "a", state([9, 9, 9]))
    assert (even.verdict, even.unknown) == ([], False)
    halves = put(tmp_path / "b", state([9, 9, 8, 8]))
    assert (halves.verdict, halves.unknown) == ([], True)


def test_broken_commas_and_a_banner_are_passed_over(tmp_path):
    text = json.dumps(state([4, 4, 3, 4])).replace("}, {", "} {").replace("]}]}", "],}]}")
    assert named(put(tmp_path, "SERVER PROTOCOL 2\nOK\n" + text)) == [("rank 2", 0.5)]
    assert any("commas" in remark for remark in gather(tmp_path).remarks)


def test_what_is_no_state_is_refused(tmp_path):
    with pytest.raises(InputError, match="could be read"):
        put(tmp_path, '{"communicators": 3}')


@pytest.mark.parametrize(
    ("file", "ranks", "unknown"),
    [
        ("nccl-issue-1730.txt", [], False),
        ("nccl-issue-1911.txt", [], True),
        ("ray-dead-rank.json", ["rank 1"], False),
        ("ray-three-communicators.json", ["rank 1"], False),
    ],
)
def test_captures_of_public_repositories(file, ranks, unknown):
    """Of NCCL's issues and of Ray's tests; two ranks one call ahead of thirty name nobody."""
    answer = diagnose(Path(__file__).parent / "data" / "captures" / file)
    assert [one.part for one in answer.verdict] == ranks
    assert answer.unknown is unknown
    if unknown:
        assert "ahead: rank 12, 13" in " ".join(answer.notes)


def test_one_ahead_of_one_is_unknown_and_seven_are_not(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert put(tmp_path / "a", state([9, 8])).unknown
    assert named(put(tmp_path / "b", state([10, 3]))) == [("rank 1", 0.5)]
