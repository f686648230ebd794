"""Fabrics composed in YAML, and controls out of a user's file, as the command line takes them."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from railyard.face.cli.guard import run as railyard
from railyard.work.scenario.packet import PacketSettings, assign, chosen, fabric, names
from railyard.work.scenario.packet.settings import KEYS

ROOT = Path(__file__).parents[2]
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
