"""Traces that are damaged, of wrong types, or contradict themselves: refused with file, line or key, exit code 2."""

import gzip
import json
import re
from random import Random

import pytest
from tests.ask.scale.traces import CLUSTER, call, kernel, write

from railyard.ask.scale.forecast import scaled_step as scale
from railyard.face.cli import guard
from railyard.kit.errors import InputError

GROUP = '"[0, 1]"'


def events():
    return [kernel("gemm", 0, 100), call("allreduce", 100, 50, [0, 1], 1 << 20), kernel("gemm", 150, 77)]


@pytest.fixture
def good(tmp_path):
    """The text of a trace with an event a line: lines 2 to 13, of which 2, 6 and 10 begin steps."""
    text = write(tmp_path / "made-0.json", 0, 2, events(), period=250).read_text()
    (tmp_path / "made-0.json").unlink()
    return text.replace('{"ph"', '\n{"ph"').replace('{"cat"', '\n{"cat"')


@pytest.mark.parametrize(
    ("change", "line", "key", "found"),
    [
        (('"dur": 77', '"dur": 1e400'), 5, "traceEvents[3].dur", "inf"),
        (('"dur": 77', '"dur": -5'), 5, "traceEvents[3].dur", "-5"),
        (('"dur": 77', '"dur": "long"'), 5, "traceEvents[3].dur", "long"),
        (('"dur": 77', '"dur": NaN'), 5, "traceEvents[3].dur", "nan"),
        (('"dur": 77', '"dur": true'), 5, "traceEvents[3].dur", "True"),
        (('"dur": 77', '"no": 77'), 5, "traceEvents[3].dur", "None"),
        (('"ts": 150', '"ts": [4]'), 5, "traceEvents[3].ts", r"\[4\]"),
        (('"args": {"device": 0, "correlation": 3', '"args": [], "x": {"c": 3'), 5, "traceEvents[3].args", r"\[\]"),
        (('"stream": 20', '"stream": "x"'), 4, "traceEvents[2].args.stream", "x"),
        (('"correlation": 3', '"correlation": {}'), 5, "traceEvents[3].args.correlation", "{}"),
        (('"In msg nelems": 1048576', '"In msg nelems": "many"'), 4, "traceEvents[2].args.In msg nelems", "many"),
        (('"Out msg nelems": 1048576', '"Out msg nelems": -4'), 4, "traceEvents[2].args.Out msg nelems", "-4"),
        ((GROUP, '"[0, 1, 1]"'), 4, "traceEvents[2].args.Process Group Ranks", r"\[0, 1, 1\]"),
        ((GROUP, '"[0, 2]"'), 4, "traceEvents[2].args.Process Group Ranks", r"\[0, 2\]"),
        (('"dur": 250', '"dur": 1e30'), 2, "traceEvents[0].dur", "1e\\+30"),
        (("ProfilerStep#6", "ProfilerStep#5"), 6, "traceEvents[4].name", "ProfilerStep#5"),
        (('"rank": 0', '"rank": "zero"'), None, "distributedInfo.rank", "zero"),
        (('"world_size": 2', '"world_size": 1e400'), None, "distributedInfo.world_size", "inf"),
    ],
)
def test_a_fault_is_named_with_its_line_and_key(tmp_path, mine, good, change, line, key, found):  # noqa: PLR0917
    path = tmp_path / "rank-0.json"
    path.write_text(good)
    assert scale(path, mine).step.seconds > 0
    assert change[0] in good
    path.write_text(good.replace(*change, 1))
    with pytest.raises(InputError) as refused:
        scale(path, mine)
    first = refused.value.problems[0]
    assert (first.file, first.line, first.key) == (str(path), line, key)
    assert re.fullmatch(found, str(first.found))


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_ends_early_is_refused(tmp_path, mine, good, part, packed, capsys):  # noqa: PLR0917
    whole = gzip.compress(good.encode()) if packed else good.encode()
    path = tmp_path / ("rank-0.json.gz" if packed else "rank-0.json")
    path.write_bytes(whole[: int(len(whole) * part)])
    assert guard.run(("scale", str(path), "--cluster", str(mine), "--accelerators", "2")) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert str(path) in printed.err


def test_a_packed_file_with_a_wrong_sum_is_refused(tmp_path, mine, good):
    packed = bytearray(gzip.compress(good.encode()))
    packed[-5] ^= 1
    (tmp_path / "rank-0.json.gz").write_bytes(packed)
    with pytest.raises(InputError, match=r"the file is damaged: CRC check failed(?s:.)*rank-0\.json\.gz"):
        scale(tmp_path / "rank-0.json.gz", mine)


def test_traces_of_a_folder_agree_or_are_refused(tmp_path, good):
    (tmp_path / "mine.yaml").write_text(CLUSTER)
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "a.json").write_text(good)
    (folder / "README.md").write_text("what the traces are of\n")
    assert scale(folder, tmp_path / "mine.yaml").traced.ranks == (0,)
    for text, words in (
        (good, r"rank 0 already exists, from \S+a\.json"),
        (good.replace('"rank": 0', '"rank": 1')[:900], "ends in the middle of an event"),
        ('{"schemaVersion": 1, "traceEvents": "x"}', "no list `traceEvents`"),
        ('{"schemaVersion": 1, "traceEvents": {"a": []}}', "no list `traceEvents`"),
    ):
        (folder / "b.json").write_text(text)
        with pytest.raises(InputError, match=rf"{words}(?s:.)*b\.json"):
            scale(folder, tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "3"}, "two nodes of the trace have the same number"),
        ({"durationMicros": "1e400"}, "duration: expected an integer"),
        ({"durationMicros": "-7"}, "duration: expected an integer"),
        ({"attr": {"name": 7}}, "attr"),
    ],
)
def test_a_faulty_chakra_trace_is_refused(tmp_path, mine, change, words):
    nodes = [{"id": number, "name": "gemm", "type": "COMP_NODE", "durationMicros": "17"} for number in "34"]
    text = "".join(json.dumps(one) for one in ({"version": "0.0.4"}, nodes[0], nodes[1] | change))
    (tmp_path / "step.0.json").write_text(text)
    with pytest.raises(InputError, match=rf"{words}(?s:.)*step\.0\.json|step\.0\.json(?s:.)*{words}"):
        scale(tmp_path / "step.0.json", mine)


CHANGES = (
    "1e400",
    "-1",
    "null",
    '"x"',
    "[]",
    "{}",
    "true",
    "NaN",
    "1e30",
    "99999999999999999999",
    '""',
    "[[1, 2]]",
    "0",
)


def test_random_changes_end_in_an_answer_or_a_refusal(tmp_path, mine, good):
    random, places = Random(1), [one.span() for one in re.finditer(r'(?<=: )(-?[\d.]+|"[^"]*"|\[[^\[\]]*\])', good)]
    ended = {True: 0, False: 0}
    for _ in range(60):
        text = good
        for begin, end in sorted(random.sample(places, random.choice((1, 1, 3))), reverse=True):
            text = text[:begin] + random.choice(CHANGES) + text[end:]
        (tmp_path / "rank-0.json").write_text(text)
        try:
            ended[scale(tmp_path / "rank-0.json", mine, accelerators=4, engine="analytic").step.seconds > 0] += 1
        except InputError:
            ended[False] += 1
    assert min(ended.values()) > 10
