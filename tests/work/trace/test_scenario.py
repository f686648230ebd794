"""`workload: {trace: FILE}`: the same work on every engine, hand-computed times, what a trace lacks."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from railyard.engine.packet import CONSTANTS
from railyard.face import api
from railyard.face.cli.guard import run as railyard
from railyard.graph import parquet
from railyard.kit.errors import InputError
from railyard.measure.result.reading import result_from
from railyard.work.scenario import load
from railyard.work.scenario.packet import assign, fabric, names
from railyard.work.scenario.packet.settings import KEYS, PacketSettings, differences
from railyard.work.study import study
from railyard.work.trace import formats

EXAMPLES = Path(__file__).parents[3] / "examples" / "traces"
CLUSTER = {"accelerators": 32, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "ideal"}}
ENGINES = ("analytic", "flow", "packet")


def scenario(trace, **more):
    return {"name": "t", "cluster": CLUSTER, "workload": {"trace": trace}, **more}


def ran(folder, trace, engine="flow", **more):
    """The variant of a run, and its record."""
    draft = load.from_values(scenario(trace, **more))
    finished = study.run(draft, engine=engine, out=folder)
    record = parquet.read_record(next(finished.folder.rglob("timeline.parquet")))
    result_from(json.dumps(finished.result.plain()))
    return finished.result.plain()["variants"][0], record


@pytest.mark.parametrize("engine", ENGINES)
def test_releases_delays_and_shares_of_a_link_are_those_computed_by_hand(tmp_path, engine):
    """Four hosts on servers of their own, 400 Gb/s NICs: two flows into host 3 from 7.5 us on share its NIC.

    The third starts 2.5 us after the first has arrived. Times of bytes: size x 8 / 400e9 over the payload's share.
    """
    file = tmp_path / "f.csv"
    head = "source,target,size_bytes,start_us,after,delay_us"
    rows = [head, "0,3,3000000,7.5,,", "1,3,6000000,7.5,,", "3,2,1000000,,1,2.5"]
    file.write_text("\n".join(rows))
    variant, record = ran(tmp_path / "out", {"file": str(file), "ranks_per_server": 1}, engine)
    assert variant["trace"]["ranks"] == 4
    assert record.work.ranks == 4
    assert record.start_ps[:2].tolist() == [7_500_000, 7_500_000]
    assert record.start_ps[2] == record.end_ps[0] + 2_500_000
    took = (record.end_ps - record.start_ps) * 1e-12 - record.column("latency_ps") * 1e-12
    line = 400e9 * 0.97  # headers take 2 to 4 %
    assert took[:2] == pytest.approx([8 * 6e6 / line, 8 * 9e6 / line], rel=0.06)
    assert took[2] == pytest.approx(8e6 / line, rel=0.06)
    waits = {row["cause"] for row in variant["time"]}
    assert "release" in waits


def test_some_of_many_dependencies_start_a_flow_on_flow_and_packet(tmp_path):
    file = tmp_path / "m.cm"
    lines = ["Nodes 8", "Connections 5", "Triggers 1"]
    sizes = {1: 90_000_000, 2: 300_000, 3: 5_000_000}  # host 1 is on the server of host 0
    lines += [f"{k}->0 id {k} start 0 size {size} send_done_trigger 1" for k, size in sizes.items()]
    lines += ["4->5 id 7 trigger 1 size 9000", "4->6 id 8 trigger 1 size 9000", "trigger id 1 multishot"]
    file.write_text("\n".join(lines))
    order = {}
    for engine in ENGINES:
        _, record = ran(tmp_path / engine, {"file": str(file), "ranks_per_server": 2}, engine)
        ends = np.sort(record.end_ps[:3])
        assert record.start_ps[3] == ends[0]
        assert record.start_ps[4] == ends[1]
        order[engine] = np.argsort(record.end_ps[:3]).tolist()
    assert order == {engine: [1, 2, 0] for engine in ENGINES}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_examples_run(tmp_path, engine):
    for name in ("goal", "htsim"):
        finished = study.run(load.load(EXAMPLES / f"{name}.yaml"), engine=engine, out=tmp_path)
        result_from(json.dumps(finished.result.plain()))
        for variant in finished.result.plain()["variants"]:
            assert variant["cpmt"] is None
            assert variant["cost"]["usd_per_h"]["typical"] > 0
            assert variant["trace"]["transfers"] > 0
        assert (finished.folder / "inputs").is_dir()


@pytest.mark.parametrize(("trigger", "said"), [("send_done_trigger", True), ("recv_done_trigger", False)])
def test_waiting_for_a_sender_lacks_the_way_back(tmp_path, trigger, said):
    file = tmp_path / "m.cm"
    rows = ["Nodes 4", "Connections 2", "Triggers 1", f"0->1 id 1 start 0 size 9000 {trigger} 1"]
    file.write_text("\n".join([*rows, "1->2 id 2 trigger 1 size 9000", "trigger id 1 oneshot"]))
    draft = load.from_values(scenario({"file": str(file), "ranks_per_server": 1}))
    left_out = study.run(draft, engine="flow").result.plain()["provenance"]["left_out"]
    assert any("acknowledgements on their way back" in line for line in left_out) is said


def test_flow_and_packet_agree_on_the_schedule(tmp_path):
    lengths = [
        study.run(load.load(EXAMPLES / "goal.yaml"), engine=engine).result.plain()["variants"][0]["step"]["seconds"]
        for engine in ("flow", "packet")
    ]
    assert lengths[1] == pytest.approx(lengths[0], rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_trace_of_pytorch_runs_and_says_what_it_lacks(tmp_path, engine):
    finished = study.run(load.load(EXAMPLES / "chakra.yaml"), engine=engine, out=tmp_path)
    variant = finished.result.plain()["variants"][0]
    result_from(json.dumps(finished.result.plain()))
    assert variant["trace"]["collectives"] == 7
    assert variant["trace"]["ranks"] == 8
    assert any("no process group" in line for line in variant["warnings"])
    assert 0.045 < variant["step"]["seconds"] < 0.06


def test_computations_take_as_long_as_they_are_scaled(tmp_path):
    file = tmp_path / "s.goal"
    file.write_text("num_ranks 3\nrank 1 {\n a: calc 7000\n b: calc 1100\n b requires a\n}\n")
    _, record = ran(tmp_path / "o", {"file": str(file), "compute_scale": 1.5})
    assert record.end_ps.tolist() == [10_500_000, 12_150_000]


def test_a_graph_in_parquet_is_a_trace(tmp_path):
    graph = formats.read(EXAMPLES / "ring.goal").graph
    parquet.write_graph(graph, tmp_path / "graph.parquet")
    again = parquet.read_graph(tmp_path / "graph.parquet")
    for name in ("rank", "peer", "dep_ptr", "dep_idx", "dep_at", "duration_ps", "stream"):
        assert np.array_equal(getattr(again, name), getattr(graph, name))
    first, _ = ran(tmp_path / "a", {"file": str(tmp_path / "graph.parquet")})
    second, _ = ran(tmp_path / "b", {"file": str(EXAMPLES / "ring.goal")})
    assert first["digest"] == second["digest"]
    assert (first["trace"]["format"], second["trace"]["format"]) == ("parquet", "goal")


def test_formats_are_told_by_content(tmp_path):
    found = {}
    for name in ("ring.goal", "incast.cm", "mlcommons-pytorch.tar.gz"):
        shutil.copy(EXAMPLES / name, tmp_path / "trace")
        found[name] = formats.format_of(tmp_path / "trace")
    assert found == {"ring.goal": "goal", "incast.cm": "htsim", "mlcommons-pytorch.tar.gz": "chakra"}
    (tmp_path / "trace").write_text(json.dumps({"workload_graph": []}))
    assert formats.format_of(tmp_path / "trace") == "chakra"
    (tmp_path / "trace").write_text("# flows\nsource,target,size_bytes\n0,1,5\n")
    assert formats.format_of(tmp_path / "trace") == "csv"
    (tmp_path / "trace").write_bytes(b"\x00\x01nothing")
    with pytest.raises(InputError, match="not known"):
        formats.format_of(tmp_path / "trace")


def test_a_run_is_told_in_words(tmp_path):
    run = api.execute(load.load(EXAMPLES / "htsim.yaml"), (), out=tmp_path)
    assert " per hour (" in str(run)
    assert run.report_path.is_file()


# `railyard packet` from outside: the object that it prints, and what it says of bad input.

DATA = Path(__file__).parents[2] / "engine" / "packet" / "data"


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
        "hosts", "flows", "finished", "fct_us", "last_finish_us", "packets", "events", "repeats", "cpu_s",
        "peak_rss_mb", "digest",
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
    assert "1 flows wait for events that never happen (lines 5)" in err


def test_a_file_of_no_known_kind_is_refused(capsys):
    code, _, err = packet(capsys, "--traffic", DATA / "README.md")
    assert code == 2
    assert ".goal" in err


BASE = PacketSettings()


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("congestion_control=rccc", "congestion_control", "rccc"),
        ("load_balancing=ecmp", "load_balancing", "ecmp"),
        ("link_rate=100Gb/s", "link_rate_bps", 100 * 10**9),
        ("link_latency=0.5 us", "link_latency_ps", 500_000),
        ("trim=false", "trim", False),
        ("pull_rate=0.9", "pull_rate", 0.9),
        ("pull_rate=90 %", "pull_rate", 0.9),
        ("start_unit=ps", "start_unit", "ps"),
        ("paths=128", "paths", 128),
        ("end=3 ms", "end_ps", 3 * 10**9),
    ],
)
def test_one_part_is_changed_and_nothing_else(text, name, value):
    assert differences(assign(BASE, [text]), BASE) == {name: value}


def test_every_preset_names_its_sources_and_what_it_leaves_out():
    for preset in map(fabric, names()):
        assert preset.sources
        assert preset.left_out
    with pytest.raises(InputError, match="did you mean"):
        fabric("uec-htsm")


def test_every_setting_has_a_key_but_those_that_the_run_decides():
    by_the_run = {name for name, one in CONSTANTS.items() if not one.key}
    assert by_the_run == {"base_rtt_ps", "failed_fraction", "oversubscription", "sample_ps"}
    other = {"seed", "failed_links", "faults", "sample_links", "sample_flows"}
    # `loss_recovery` is a word for `rdma_out_of_order`.
    assert len(set(KEYS) - {"loss_recovery"}) == len(set(PacketSettings.__dataclass_fields__) - by_the_run - other)
