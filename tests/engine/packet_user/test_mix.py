"""Fabrics composed in YAML, and controls out of a user's file, as the command line takes them."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from railyard.engine import packet
from railyard.face.cli.guard import run as railyard
from railyard.work.scenario.packet import PacketSettings, assign, chosen, fabric, names
from railyard.work.scenario.packet.settings import KEYS

if TYPE_CHECKING:
    from railyard.graph import Record

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "packet" / "my_fabric.yaml"
CONTROL = ROOT / "examples" / "packet" / "my_control.py"


def written(folder: Path, text: str) -> Path:
    path = folder / "mix.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def incast(folder: Path) -> Path:
    rows = [f"{source},0,400000,0" for source in range(1, 9)]
    path = folder / "incast.csv"
    path.write_text("\n".join(["source,target,size_bytes,start_us", *rows, ""]))
    return path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert railyard(["packet", *words, "--json", "--quiet"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_file_changes_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    path = written(tmp_path, "base: roce\nmtu_bytes: 1064\ntrim: true\ndcqcn:\n  g: 0.004\n  additive: 10 Mb/s\n")
    made = chosen(str(path))
    base = fabric("roce").settings
    changed = {
        entry.name
        for entry in fields(PacketSettings)
        if getattr(made.settings, entry.name) != getattr(base, entry.name)
    }
    assert changed == {"mtu_bytes", "trim", "dcqcn_g", "dcqcn_additive_bps"} - {
        name for name, value in (("trim", True), ("dcqcn_g", 0.004)) if getattr(base, name) == value
    }
    assert made.settings.dcqcn_additive_bps == 10**7
    assert made.name == "mix"


@pytest.mark.parametrize("name", names())
def test_a_mix_that_only_names_its_base_is_the_base(tmp_path: Path, name: str) -> None:
    assert chosen(str(written(tmp_path, f"base: {name}\n"))).settings == fabric(name).settings


def test_keys_are_those_of_set(tmp_path: Path) -> None:
    said = {"hpcc_eta": "0.9", "swift_base_target": "30 us", "rdma_rto": "1 ms", "loss_recovery": "selective"}
    text = "base: roce\n" + "".join(f"{key}: {value}\n" for key, value in said.items())
    by_set = assign(fabric("roce").settings, [f"{key}={value}" for key, value in said.items()])
    assert chosen(str(written(tmp_path, text))).settings == by_set
    assert set(said) <= set(KEYS)


def test_the_example_runs_with_functions_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(
        capsys, "--traffic", str(incast(tmp_path)), "--fabric", str(EXAMPLE), "--trust", "--set", "hosts=16"
    )
    assert found["finished"] == 8


def test_the_command_line_takes_a_control_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same digest as the built-in control with the same constants."""
    common = ["--traffic", str(incast(tmp_path)), "--fabric", "roce", "--set", "hosts=16", "--set", "dcqcn_form=paper"]
    constants = [
        "dcqcn_g=0.00390625",
        "dcqcn_alpha_interval=55us",
        "dcqcn_decrease_interval=0us",
        "dcqcn_increase_interval=55us",
        "dcqcn_byte_counter=10MB",
        "dcqcn_fast_recovery=5",
        "dcqcn_additive=40Mb/s",
        "dcqcn_hyper=200Mb/s",
        "dcqcn_min_rate=10Mb/s",
        "dcqcn_initial_rate=1",
        "dcqcn_first_cnp_rate=1",
        "dcqcn_least_kept=0.5",
    ]
    sets = [word for text in constants for word in ("--set", text)]
    own = printed(capsys, *common, *sets, "--set", f"congestion_control=user:{CONTROL}:Dcqcn")
    built_in = printed(capsys, *common, *sets, "--set", "congestion_control=dcqcn")
    assert own["digest"] == built_in["digest"]
    assert own["packets"]["marked"] > 0


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("congestion_control=user:nowhere.py:Mine", "nowhere.py"),
        (f"congestion_control=user:{CONTROL}:Dcqn", "did you mean `Dcqcn`"),
        ("congestion_control=user:Dcqcn", "user:path/to/file.py:Name"),
        ("congestion_control=hpc", "did you mean `hpcc`"),
        ("load_balancing=adaptiv", "did you mean `adaptive`"),
    ],
)
def test_a_wrong_name_ends_with_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, said: str
) -> None:
    code = railyard(["packet", "--traffic", str(incast(tmp_path)), "--fabric", "roce", "--set", setting, "--quiet"])
    assert code == 2
    assert said in capsys.readouterr().err


def test_python_that_a_file_names_runs_only_when_it_is_trusted(tmp_path, capsys):
    """The module leaves a mark when it is imported: nothing of it runs before `--trust`."""
    mark = tmp_path / "ran"
    (tmp_path / "mine.py").write_text(f"open({str(mark)!r}, 'w').close()\n", encoding="utf-8")
    text = "base: roce\ncongestion_control: user:mine.py:Absent\nload_balancing: user:mine.py:Absent\n"
    path = written(tmp_path, text)
    arguments = ["packet", "--traffic", str(incast(tmp_path)), "--fabric", str(path)]
    assert railyard(arguments) == 2
    said = capsys.readouterr().err
    assert said.count("this file would run Python") == 2
    assert "--trust" in said
    assert f"{path}:2" in said
    assert not mark.exists()
    assert railyard([*arguments, "--trust"]) == 2
    assert "Absent" in capsys.readouterr().err
    assert mark.exists()


# HPCC and Swift in the engine: shares, queues and bounds.

RATE_BPS = 400 * 10**9
MTU, HEADER = 4160, 64
WIRE = MTU / (MTU - HEADER)


def go(traffic: packet.Traffic, control: str, **changed: Any) -> Record:
    base: dict[str, Any] = {
        "transport": "rdma",
        "load_balancing": "ecmp",
        "trim": False,
        "mtu_bytes": MTU,
        "queue_packets": 20_000,
        "rdma_control": control,
    }
    network = packet.crossbar(traffic.hosts, rate_bps=RATE_BPS)
    return packet.run(network, traffic, packet.Settings(**{**base, **changed}))


def seconds(size_bytes: float) -> float:
    return size_bytes * WIRE * 8 / RATE_BPS


@pytest.mark.parametrize(("control", "utilization"), [("hpcc", 0.95), ("swift", 1.0)])
@pytest.mark.parametrize("flows", [2, 5])
def test_flows_that_begin_together_share_alike(control: str, utilization: float, flows: int) -> None:
    size = 20_000_000
    found = go(packet.Traffic.of(flows + 1, np.arange(1, flows + 1), 0, size), control)
    times = found.duration_ps * 1e-12
    expected = flows * seconds(size) / utilization
    assert times.max() == pytest.approx(expected, rel=0.05)
    assert times.min() > 0.85 * times.max()
    assert found.meta["packets"]["dropped"] == 0


@pytest.mark.parametrize(("control", "changed"), [("hpcc", {"hpcc_increase_share": 0.01}), ("swift", {})])
def test_a_flow_that_comes_later_gets_its_half(control: str, changed: dict[str, Any]) -> None:
    """The first has the link for itself, then both have half of it: what is left over is small against the whole."""
    size, later_s = 80_000_000, 200e-6
    traffic = packet.Traffic.of(3, [1, 2], 0, size, start_ps=[0, int(later_s * 1e12)])
    times = go(traffic, control, **changed).end_ps * 1e-12
    whole = 2 * seconds(size)
    first = later_s + 2 * (seconds(size) - later_s)
    assert times[0] == pytest.approx(first, rel=0.12)
    assert times[1] == pytest.approx(whole, rel=0.12)


def test_hpcc_keeps_the_queue_short_where_line_rate_fills_it() -> None:
    traffic = packet.Traffic.of(9, np.arange(1, 9), 0, 4_000_000)
    marks = {
        control: go(traffic, control, ecn_low_packets=150, ecn_high_packets=151).meta["packets"]["marked"]
        for control in ("hpcc", "line-rate")
    }
    assert marks["hpcc"] < 0.25 * marks["line-rate"]


def test_swift_holds_the_delay_at_its_target() -> None:
    """Two windows on one link settle where the round trip is the target: base and hops, as windows are large."""
    target_ps, hop_ps = 12_000_000, 1_000_000
    traffic = packet.Traffic.of(3, [1, 2], 0, 40_000_000)
    found = go(
        traffic,
        "swift",
        swift_base_target_ps=target_ps,
        swift_hop_target_ps=hop_ps,
        swift_scaling_range_ps=0,
        sample_ps=1_000_000,
        sample_links=(2 * 3 - 3,),
    )
    depth = found.table("queue_series")["depth_bytes"]
    settled = depth[len(depth) // 3 : 2 * len(depth) // 3]
    queueing_ps = settled.mean() * 8 / RATE_BPS * 1e12
    base_ps = 4_000_000 + 8 * (2 * MTU + 2 * 64) / RATE_BPS * 1e12
    assert base_ps + queueing_ps == pytest.approx(target_ps + 2 * hop_ps, rel=0.1)


@pytest.mark.parametrize("control", ["hpcc", "swift"])
def test_nothing_is_faster_than_light_and_line(control: str) -> None:
    size = 1_000_000
    found = go(packet.Traffic.of(2, 1, 0, size), control)
    assert found.duration_ps[0] * 1e-12 >= seconds(size) + 4e-6
