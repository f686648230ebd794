"""`railyard accept`: tests written from the model, and results of strangers and of made-up faults read back."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from railyard.ask.accept import folder
from railyard.ask.accept import results as perftest
from railyard.ask.accept.judge import common, judged
from railyard.ask.accept.planned import planned as accepted
from railyard.ask.accept.results import Results, collected
from railyard.ask.accept.tests import CABLE, NCCL, WRITE, groups, pairs, read, written
from railyard.collective.model_error import bands
from railyard.face.cli import guard
from railyard.kit.errors import InputError

from .scenarios import draft, planned

LOGS = Path(__file__).parents[3] / "validation" / "data" / "nccl"

SMALL = """\
name: two servers
cluster: {accelerators: 16, server: hgx-h100, back_end: {topology: leaf-spine, fabric: infiniband}}
workload:
  training: {model: llama-3.2-1b, tokens: 1 T, global_batch: 16, sequence: 2048, parallelism: {tp: 2}}
"""


def quiet(*_):
    pass


@pytest.fixture(scope="module")
def plan():
    return planned(draft(256, "leaf-spine", "roce"))


@pytest.fixture(scope="module")
def tests(plan):
    return accepted(plan, quiet)


@pytest.fixture(scope="module")
def members(plan):
    return folder.members_of(plan)


def as_expected(tests, change=lambda *_: 1.0):
    """Results that are just what is expected, but for a factor by test and size."""
    found = Results(files=1)
    for test in tests:
        for mark in test.marks:
            found.add(test.name, mark.size_bytes, mark.expected * change(test, mark))
    return found


def test_groups_are_nodes_leaves_rails_and_everything(plan):
    """32 servers of eight, four leaves of 64 NICs: eight servers below each."""
    found = list(groups(plan))
    assert Counter(one.scope for one in found) == {"all": 1, "rail": 8, "leaf": 4, "node": 32}
    assert [one.servers for one in found if one.name == "be-leaf1"] == [tuple(range(8, 16))]
    rail = next(one for one in found if one.name == "rail3")
    assert rail.ranks(8).tolist() == list(range(3, 256, 8))


def test_pods_are_what_spines_join_without_the_tier_above():
    plan = planned(draft(4096, "three-tier", "roce"))
    pods = [one for one in groups(plan) if one.scope == "pod"]
    assert len(pods) > 1
    assert sorted(server for pod in pods for server in pod.servers) == list(range(512))
    leaves = [set(one.servers) for one in groups(plan) if one.scope == "leaf"]
    assert all(any(leaf <= set(pod.servers) for pod in pods) for leaf in leaves)


def test_members_that_are_everything_are_tested_once():
    """Two servers below one leaf: no group of the leaf beside that of all."""
    assert Counter(one.scope for one in groups(planned(draft(16)))) == {"all": 1, "rail": 8, "node": 2}


@pytest.mark.parametrize(
    ("accelerators", "topology", "twice"),
    [(256, "leaf-spine", 0), (256, "rail-optimized", 0), (24, "leaf-spine", 0), (24, "rail-optimized", 8)],
)
def test_every_nic_is_paired_with_one_of_another_server(accelerators, topology, twice):
    """Three servers with a leaf a rail: one NIC of each rail is left over, and one is tested twice."""
    plan = planned(draft(accelerators, topology))
    found = list(pairs(plan))
    assert all(one.server != other.server and one.leaf == other.leaf for one, other in found)
    ends = Counter((end.server, end.nic) for pair in found for end in pair)
    assert (len(ends), sum(ends.values())) == (accelerators, accelerators + twice)


def test_bounds_are_the_models_within_its_band(tests):
    """A pair: 400 Gb/s by 4096/(4096+82) bytes by 0.987; all-reduces: the time by both ends of the shipped band."""
    write = next(one for one in tests if one.method == WRITE).marks[0]
    assert (write.expected, write.low, write.high) == pytest.approx((387.0514, 379.3104, 400.0), rel=1e-6)
    node = next(one for one in tests if one.name == "node00-all_reduce")
    assert [mark.size_bytes for mark in node.marks] == [1 << 16, 1 << 20, 1 << 24, 1 << 28, 1 << 32]
    mark = node.marks[3]
    band = bands()["all-reduce", "from 1 MiB"]
    assert (mark.expected / mark.low, mark.high / mark.expected) == pytest.approx((band.high, 1 / band.low))
    assert band.low < 1 < band.high
    assert mark.expected == pytest.approx(422.97, rel=0.002)
    scatter = next(one for one in tests if one.name == "node00-reduce_scatter").marks[3]
    everything = bands()["any", "from 1 MiB"]  # one operator alone measured a reduce-scatter after the first half year
    assert (scatter.expected / scatter.low, scatter.high / scatter.expected) == pytest.approx(
        (everything.high, 1 / everything.low)
    )


def test_a_rail_reaches_what_a_nic_carries(tests):
    """busbw of a ring with one NIC a server is the NIC's payload, 48.38 GB/s, less what filling costs."""
    mark = next(one for one in tests if one.name == "rail5-all_reduce").marks[-1]
    assert 0.9 * 48.38 < mark.expected < 48.38


def test_what_is_as_expected_passes(tests, members):
    assert {one.verdict for one in judged(tests, as_expected(tests), members)} == {"passed"}


def test_a_slow_server_is_named_by_all_that_it_slows(tests, members):
    found = judged(
        tests,
        as_expected(tests, lambda test, _: 0.6 if test.name.startswith(("node07-", "be-leaf0-", "all-")) else 1.0),
        members,
    )
    failed = {one.test.name: one.look_at for one in found if one.verdict == "failed"}
    assert {name.rpartition("-")[0] for name in failed} == {"node07", "be-leaf0", "all"}
    assert failed["node07-all_reduce"][0] == "node07"
    assert failed["be-leaf0-all_reduce"] == ("node07",)
    assert failed["all-all_gather"] == ("node07",)


def test_two_partners_that_fail_are_told_apart_by_nothing_and_both_named(tests, members):
    name = next(one.name for one in tests if one.method == WRITE)
    found = judged(tests, as_expected(tests, lambda test, _: 0.5 if test.name == name else 1.0), members)
    (one,) = [one for one in found if one.verdict == "failed"]
    assert one.look_at[:2] == one.test.parts
    assert one.why == "50% below what the model expects"


def test_one_behind_its_like_fails_within_the_band(tests, members):
    """Six per cent behind 31 others, at 256 MiB, where the band alone would let thirteen pass."""
    change = {("node03-all_reduce", 1 << 28): 0.94, ("node04-all_reduce", 1 << 28): 0.96}
    found = judged(tests, as_expected(tests, lambda test, mark: change.get((test.name, mark.size_bytes), 1.0)), members)
    failed = [one for one in found if one.verdict == "failed"]
    assert [(one.test.name, one.why) for one in failed] == [("node03-all_reduce", "6% below the median of its kind")]


def test_what_all_alike_lack_is_no_part(tests, members):
    found = judged(tests, as_expected(tests, lambda test, _: 0.6 if test.scope == "node" else 1.0), members)
    assert len([words for words in common(found) if words.startswith("node all_reduce")]) == 5
    assert "32 of 32 are below the band, with a median of 0.60" in common(found)[0]


def test_wrong_values_faults_and_slow_cables_fail(tests, members):
    results = as_expected(tests)
    cable = next(one.name for one in tests if one.method == CABLE)
    results.values[cable, 0] = [200.0]
    results.values["burn-node02", 0] = [2.0]
    results.wrong["node09-all_gather"] = 12
    found = {one.test.name: one for one in judged(tests, results, members) if one.verdict == "failed"}
    assert set(found) == {cable, "burn-node02", "node09-all_gather"}
    assert found["burn-node02"].why == "2 faults"
    assert found["node09-all_gather"].why == "12 values came out wrong"


def test_faster_than_a_link_is_outside(tests, members):
    results = as_expected(tests, lambda test, _: 1.2 if test.method == WRITE else 1.0)
    assert {one.why for one in judged(tests, results, members) if one.verdict == "outside"} == {"faster than its link"}


def test_the_table_comes_back_as_it_was_with_bounds_that_somebody_moved(tests, tmp_path):
    file = tmp_path / "tests.csv"
    file.write_text(written(tests).replace("387.051,379.31,400", "387.051,350,400"))
    back = read(file)
    assert [(one.name, one.scope, one.ranks, one.parts) for one in back] == [
        (one.name, one.scope, one.ranks, one.parts) for one in tests
    ]
    assert {one.marks[0].low for one in back if one.method == WRITE} == {350.0}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("387.051,379.31", "387.051,379.31x", "low: expected a number"),
        ("387.051,379.31", "387.051,500", "above the upper one"),
        ("pair,ib_write_bw", "pair,ib_read_bw", "`ib_read_bw` is not one of the allowed words"),
        ("expected", "expectd", "unknown column `expectd`; required: "),
    ],
)
def test_a_damaged_table_is_refused_with_its_line(tests, tmp_path, old, new, words):
    file = tmp_path / "tests.csv"
    file.write_text(written(tests).replace(old, new, 1))
    with pytest.raises(InputError, match=words):
        read(file)


def test_units_of_perftest():
    """MB/s are MiB/s there: 11,444.09 of them are 96 Gb/s."""
    head = (
        " #bytes     #iterations    BW peak[{0}]    BW average[{0}]   MsgRate[Mpps]\n 65536      5000   {1} {1} 0.1\n"
    )
    assert perftest.averages(head.format("MB/sec", 11444.0918), "x") == {65536: pytest.approx(96e9)}
    assert perftest.averages(head.format("Gb/sec", 92.4), "x") == {65536: pytest.approx(92.4e9)}
    with pytest.raises(InputError, match="unknown unit"):
        perftest.averages(head.format("furlongs", 92.4), "x")


def test_scripts_are_shell_and_lists_are_whole(plan, tests):
    shell = shutil.which("sh")
    made = dict(folder.files(plan, tests, "x <&>"))
    assert "x &lt;&amp;&gt;" in made["index.html"]
    for name, text in made.items():
        if name.endswith(".sh"):
            assert subprocess.run([shell, "-n"], input=text, text=True, check=False).returncode == 0
    assert made["hosts/be-leaf1.8"].splitlines() == [f"node{server:02d} slots=8" for server in range(8, 16)]
    assert made["hosts/all.1"].count("\n") == 32
    named = {name.partition(".")[0] for name in made if name.startswith("hosts/")}
    assert named == {"hosts/all", *(f"hosts/be-leaf{leaf}" for leaf in range(4))}
    run = "".join(text for name, text in made.items() if name.endswith(".sh"))
    assert all(f"results/{one.name}.txt" in run for one in tests if one.method in (NCCL, WRITE))
    assert "CUDA_VISIBLE_DEVICES=5" in made["5-rail.sh"]
    assert " -x 3 " in made["2-pair.sh"]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A scenario of two servers, the folder that the command writes for it, and one for results."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "two.yaml").write_text(SMALL)
    (folder / "results").mkdir()
    assert guard.run(["accept", str(folder / "two.yaml"), "--out", str(folder / "plan"), "-q"]) == 0
    return folder


@pytest.fixture
def two(first, tmp_path):
    return shutil.copytree(first, tmp_path, dirs_exist_ok=True)


def test_logs_of_strangers_pass_and_fail(two, capsys):
    """H100 over InfiniBand and in a DGX as expected, but 64 KiB of the DGX are 8 % faster; EFA is up to 62 % below."""
    results = two / "results"
    shutil.copy(LOGS / "16_h100x16_2node_allreduce_nebius_ib.txt", results / "all-all_reduce.txt")
    shutil.copy(LOGS / "01_h100x8_1node_allreduce_dgx.txt", results / "node0-all_reduce.txt")
    capsys.readouterr()
    code = guard.run(["accept", str(two / "plan"), "--results", str(results), "--json", "--junit", str(two / "x.xml")])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["holds"], found["counts"]["failed"], found["counts"]["passed"]) == (1, False, 0, 9)
    suite = ElementTree.parse(two / "x.xml").getroot().find("testsuite")
    assert int(suite.get("failures")) == found["counts"]["missing"]
    shutil.copy(LOGS / "14_h100x16_2node_allreduce_aws_p5_eks.txt", results / "all-all_reduce.txt")
    assert guard.run(["accept", str(two / "two.yaml"), "--results", str(results)]) == 1
    out = capsys.readouterr().out
    # 13.4 % below at 256 MiB, where 8 of 10 logs of strangers are at most 14 % below: only smaller sizes fail.
    failed = [line.split("  failed")[0].strip() for line in out.splitlines() if "  failed " in line]
    assert failed == [f"all-all_reduce at {size}" for size in ("64 KiB", "1 MiB", "16 MiB")]
    assert "62% below" in out


def test_a_table_of_values_says_of_which_size(two, capsys):
    """A test of five sizes has five values; one that has a single size needs none."""
    rows = ["node0-all_reduce,,400", "node0-all_reduce,268435456,420", "node0-all_reduce,7,400", "burn-node0,,0"]
    rows += ["node1-all_reduce,,400"] * 30
    (two / "results" / "all.csv").write_text("test,size_bytes,value\n" + "\n".join(rows) + "\n")
    found = collected(two / "results", folder.folder_of(two / "plan")[0])
    assert sorted(found.values) == [("burn-node0", 0), ("node0-all_reduce", 268435456)]
    assert [problem.line for problem in found.problems] == [2, 4, *range(6, 25), None]
    assert "several sizes" in found.problems[0].message
    assert "268435456" in found.problems[0].allowed
    assert found.problems[-1].message.endswith(": 11 more of these are not listed")


def test_slow_collectives_are_judged_by_their_time(two):
    """0.0346 GB/s is printed as 0.03; 64 KiB in 3,550.9 microseconds over 16 ranks say what it is."""
    lines = [
        "# nThread 1 nGpus 1 minBytes 65536 maxBytes 268435456 step: 4(factor) warmup iters: 5 iters: 20 validation: 1",
        "# Using devices",
        *(
            f"#  Rank {n:2d} Group  0 Pid {n} on node{n // 8} device {n % 8} [0x{n % 8:02x}] NVIDIA H100"
            for n in range(16)
        ),
        "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong",
        "#  (B)  (elements)  (us)  (GB/s)  (GB/s)  (us)  (GB/s)  (GB/s)",
    ]
    row = "65536 16384 float sum -1 3550.9 0.02 0.03 0 3550.9 0.02 0.03 0"
    big = "268435456 67108864 float sum -1 2000.0 134.22 251.66 0 2000.0 134.22 251.66 0"
    (two / "results" / "all-all_reduce.txt").write_text("\n".join([*lines, row, big]) + "\n")
    found = collected(two / "results", folder.folder_of(two / "plan")[0])
    assert found.values["all-all_reduce", 65536][0] == pytest.approx(65536 * 1.875 / 3550.9e-6 / 1e9)
    assert found.values["all-all_reduce", 268435456][0] == pytest.approx(251.66)


def test_results_that_fit_no_test_or_several_are_named_and_the_rest_is_judged(two, capsys):
    results = two / "results"
    shutil.copy(LOGS / "16_h100x16_2node_allreduce_nebius_ib.txt", results / "node1-all_gather.txt")
    shutil.copy(LOGS / "65_perftest_ib_write_bw_cx5_roce100_dgx1.txt", results / "write.txt")
    (results / "more.csv").write_text("test,value\nburn-node0,0\nburn-nod1,0\nburn-node1,many\n")
    (results / "notes").write_text("remember the milk\n")
    capsys.readouterr()
    code = guard.run(["accept", str(two / "plan"), "--results", str(results)])
    out, err = capsys.readouterr()
    assert code == 2  # a test that there is not
    assert re.match(r"Do not accept the cluster yet: 1 of \d+ results passed", out)
    assert err.count("allowed: ") >= 1
    assert "more (" in err  # of many tests the first, and how many
    for words in (
        "does not belong to the test that it is named after",
        "fit 8 tests: name the file after its test",
        "did you mean `burn-node1`?",
        "more.csv:4",
        "the file is not a test result",
    ):
        assert words in err


def test_bad_calls_are_refused(two, capsys):
    for words in (
        ["accept", str(two / "two.yaml")],
        ["accept", str(two / "results"), "--results", str(two / "results")],
        ["accept", str(two / "plan"), "--results", str(two / "results")],
        ["accept", str(two / "plan"), "--out", str(two / "again")],
        ["accept", str(two / "two.yaml"), "--out", str(two / "results" / ".."), "-q"],
    ):
        assert guard.run(words) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_nothing_measured_is_no_result(two):
    with pytest.raises(InputError, match="no result"):
        collected(two / "results", [])
