"""`railyard packet` from outside: the object that it prints, and what it says of bad input."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from railyard.face.cli.guard import run as railyard

DATA = Path(__file__).parents[1] / "packet" / "data"


def packet(capsys, *arguments):
    code = railyard(["packet", *map(str, arguments)])
    found = capsys.readouterr()
    return code, found.out, found.err


def figures(capsys, *arguments):
    code, out, err = packet(capsys, *arguments, "--json", "--quiet")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_object_is_that_of_the_contract(capsys):
    found = figures(capsys, "--traffic", DATA / "bidir.cm", "--fabric", "uec", "--link-rate", "100Gb/s")
    assert list(found) == [
        "flows", "finished", "fct_us", "last_finish_us", "packets", "events", "cpu_s", "peak_rss_mb", "digest",
    ]  # fmt: skip
    assert list(found["fct_us"]) == ["min", "mean", "p50", "p99", "max"]
    assert list(found["packets"]) == ["new", "retransmitted", "trimmed", "dropped", "marked"]
    assert (found["flows"], found["finished"], found["packets"]["new"]) == (2, 2, 978)


def test_one_flow_takes_the_time_that_can_be_reckoned(capsys):
    # 488 packets of 4,218 bytes and one of 1,274 at 100 Gb/s over six links of 1 us. The last one waits behind a full
    # packet on each of the five links after the first; its acknowledgement of 122 bytes comes back over six.
    found = figures(capsys, "--traffic", DATA / "one.cm", "--link-rate", "100Gb/s")
    bits = 8 * ((488 + 5) * 4218 + 1274 + 6 * 122)
    assert found["fct_us"]["max"] == pytest.approx(bits / 100e9 * 1e6 + 12, abs=1e-6)


def test_the_same_seed_gives_the_same_digest_and_another_does_not(capsys):
    common = ("--traffic", DATA / "perm_16n_16c_2MB.cm")
    first, again = (figures(capsys, *common, "--seed", 3) for _ in range(2))
    threads = figures(capsys, *common, "--seed", 3, "--threads", 2)
    other = figures(capsys, *common, "--seed", 4)
    assert first["digest"] == again["digest"] == threads["digest"] != other["digest"]


def test_a_row_a_flow_agrees_with_the_figures(capsys, tmp_path):
    file = tmp_path / "fct.csv"
    found = figures(capsys, "--traffic", DATA / "incast.cm", "--fct", file)
    with file.open() as handle:
        rows = list(csv.DictReader(handle))
    times = np.array([float(row["fct_us"]) for row in rows])
    assert len(rows) == found["flows"] == 15
    assert times.max() == pytest.approx(found["fct_us"]["max"])
    assert times.mean() == pytest.approx(found["fct_us"]["mean"])
    assert [row["line"] for row in rows[:2]] == ["3", "4"]
    for row in rows:
        assert float(row["receiver_finish_us"]) < float(row["finish_us"])


def test_start_unit_moves_the_late_flows(capsys):
    common = ("--traffic", DATA / "incast_3-1_overlapped.tm", "--link-rate", "100Gb/s")
    late, early = (figures(capsys, *common, "--set", f"start_unit={unit}") for unit in ("us", "ps"))
    assert late["last_finish_us"] != early["last_finish_us"]


def test_triggers_run_one_flow_after_another(capsys):
    found = figures(capsys, "--traffic", DATA / "foo2.cm")
    alone = figures(capsys, "--traffic", DATA / "foo2.cm", "--set", "load_balancing=adaptive")
    assert found["finished"] == 12
    assert found["last_finish_us"] >= 3 * 44.8  # three flows of 2 MB in a row at 400 Gb/s
    assert alone["finished"] == 12


def test_a_topology_of_another_size_and_traffic_of_no_tree_are_refused(capsys):
    code, _, err = packet(capsys, "--traffic", DATA / "g_perm128_2MB.cm", "--topology", DATA / "leaf_spine_tiny.topo")
    assert code == 2
    assert "128 hosts in the traffic, 32 in the topology" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--fabric", "uecc"), "did you mean"),
        (("--set", "paths=0"), "paths"),
        (("--set", "path=3"), "did you mean `paths`"),
        (("--link-rate", "fast"), "--link-rate: `fast` is not a data rate"),
        (("--topology", "missing.topo"), "there is no such file"),
        (("--fct", "no/such/folder.csv"), "cannot be written"),
    ],
)
def test_bad_options_are_explained(capsys, arguments, words):
    code, out, err = packet(capsys, "--traffic", DATA / "one.cm", *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_a_malformed_matrix_shows_its_line(capsys, tmp_path):
    file = tmp_path / "bad.cm"
    file.write_text("Nodes 16\nConnections 1\n0->16 start 0 size 9\n")
    code, _, err = packet(capsys, "--traffic", file)
    assert code == 2
    assert f"{file}:3" in err
    assert "0->16 start 0 size 9" in err


def test_flows_that_nothing_starts_are_said(capsys, tmp_path):
    file = tmp_path / "wait.cm"
    lines = ["Nodes 16", "Connections 2", "Triggers 1", "0->1 id 1 start 0 size 5000", "1->2 id 2 trigger 1 size 5000"]
    file.write_text("\n".join([*lines, "trigger id 1 oneshot"]))
    code, out, err = packet(capsys, "--traffic", file, "--json")
    assert code == 0
    assert (json.loads(out)["flows"], json.loads(out)["finished"]) == (2, 1)
    assert "1 flows wait for what never happens (lines 5)" in err


def test_a_file_of_no_known_kind_is_refused(capsys):
    code, _, err = packet(capsys, "--traffic", DATA / "README.md")
    assert code == 2
    assert ".goal" in err
