"""Uses what the installed package adds, from the command line as a user would."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
CSV = "source,target,size_bytes\n0,5,2000000\n1,5,2000000\n"


def railyard(*words, code=0):
    """Returns what a command printed, on stdout or, where it refuses, on stderr."""
    done = subprocess.run([sys.executable, "-m", "railyard", *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name in ("star.yaml", "step.arrows"):
        (tmp_path / name).write_text((HERE / name).read_text())
    (tmp_path / "flows.csv").write_text(CSV)
    monkeypatch.chdir(tmp_path)


def packet(*words):
    return json.loads(railyard("packet", "--traffic", "flows.csv", "--set", "hosts=16", *words, "--json", "-q"))


@pytest.mark.parametrize("engine", ["flow", "packet"])
def test_the_scenario_uses_topology_and_reader(engine):
    variant = json.loads(railyard("run", "star.yaml", "--json", "--engine", engine, "-q"))["variants"][0]
    assert variant["trace"]["format"] == "arrows"
    longest_s = 5_000_000 * 8 / 400e9  # both flows start at once, in opposite directions of one path
    assert 1.0 < variant["step"]["seconds"] / longest_s < 1.4


def test_the_topology_states_its_limits():
    key = "cluster.back_end.topology"
    assert "too few ports" in railyard("run", "star.yaml", "--set", f"{key}.spare_ports=115", code=2)
    assert "star" in railyard("run", "star.yaml", "--set", f"{key}.kind=strar", code=2)
    schema = json.loads(railyard("schema"))
    assert schema["$defs"]["StarTopology"]["properties"]["spare_ports"]["description"] == "Ports that stay free"


@pytest.mark.parametrize("text", ["arrows\n0 > 9: 5\n0 -> 9: 5\n", "arrows\n\n0 > 9: much\n"])
def test_a_line_that_is_no_flow_is_named(text):
    Path("step.arrows").write_text(text)
    assert "this is no flow\n  --> step.arrows:3\n" in railyard("run", "star.yaml", code=2)


def test_a_format_is_recognized_without_its_suffix():
    Path("step.arrows").rename("step")
    found = json.loads(railyard("packet", "--traffic", "step", "--set", "hosts=16", "--json", "-q"))
    assert found["finished"] == 2


def test_the_control_keeps_to_half_the_line_rate():
    found = packet("--fabric", "roce", "--set", "congestion_control=gentle")
    half_rate_us = 2_000_000 * 8 / 200e9 * 1e6
    assert half_rate_us < found["fct_us"]["min"] <= found["fct_us"]["max"] < 1.2 * half_rate_us
    words = ("--traffic", "flows.csv", "--set", "congestion_control=gentel")
    assert "gentle" in railyard("packet", *words, code=2)
