"""Input that once ended in a fault, a hang or silence: one clear message, exit code 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from railyard.face import api
from railyard.face.cli import guard
from railyard.kit import files
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.scenario.problems import MOST

PLAIN = """
name: plain
cluster: {accelerators: 16, server: hgx-h100}
workload: {training: {model: llama-3.2-1b, global_batch: 16, sequence: 512, tokens: 1 B, parallelism: {dp: 16}}}
"""


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "plain.yaml"
    path.write_text(PLAIN, encoding="utf-8")
    return path


def refused(capsys, *arguments):
    assert guard.run([str(one) for one in arguments]) == 2
    return capsys.readouterr().err


def test_a_short_name_that_is_misspelled_gets_its_right_spelling(plain, capsys):
    assert "did you mean `fabric`?" in refused(capsys, "compare", plain, "--vary", "fabrik=roce,uec")
    assert "did you mean `micro_batch`?" in refused(capsys, "run", plain, "--set", "microbatch=2")


def test_in_a_file_short_names_are_no_spelling(plain):
    plain.write_text(PLAIN + "fabrik: roce\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load.load(plain)
    assert "did you mean" not in str(caught.value)


def test_a_rate_beyond_the_nic_names_servers_that_have_it(plain, capsys):
    said = refused(capsys, "run", plain, "--set", "link_rate=800 Gb/s")
    assert "servers whose NICs do: " in said
    assert "hgx-b300 (cx8-800g)" in said
    assert "servers whose NICs do" not in refused(capsys, "run", plain, "--set", "link_rate=9 Tb/s")


def test_more_uplinks_than_nics_fill_are_said(plain):
    topology = {"kind": "leaf-spine", "oversubscription": "1:3", "ports_per_leaf": 8}
    (odd,) = api.run(plain, out=None, overrides={"topology": topology}).result.steps
    assert any("oversubscription 1:3 of the back-end network buys 3 times" in line for line in odd.warnings)
    even = {**topology, "oversubscription": "1:1"}
    (usual,) = api.run(plain, out=None, overrides={"topology": even}).result.steps
    assert not any("oversubscription" in line for line in usual.warnings)


def test_explain_of_a_scenario_says_to_run_it(plain, capsys):
    assert f"run it first: `railyard run {plain}`" in refused(capsys, "explain", plain)


def test_ten_thousand_unknown_keys_are_counted(plain, capsys):
    plain.write_text(PLAIN + "".join(f"key{number}: 1\n" for number in range(10_000)), encoding="utf-8")
    said = refused(capsys, "run", plain)
    assert said.count("unknown key") == MOST
    assert f"{10_000 - MOST:,} more faults are not shown" in said


def test_keys_of_thousands_of_parts(plain, capsys):
    assert "a key has at most 40 dots" in refused(capsys, "run", plain, "--set", f"a.{'b.' * 2000}c=1")


def test_a_folder_with_a_name_that_no_disk_takes(plain, tmp_path, capsys):
    assert "File name too long" in refused(capsys, "run", plain, "--out", tmp_path / ("o" * 300))


@pytest.mark.parametrize("arguments", [("run",), ("explain",), ("packet", "--traffic"), ("compare",)])
def test_a_device_that_never_ends(arguments, capsys, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    refused(capsys, *arguments, "/dev/zero")


def test_a_pipe_without_a_writer(tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "a regular file is due" in refused(capsys, "run", pipe)
    assert "a regular file is due" in refused(capsys, "packet", "--traffic", pipe)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"x" * 100)
    assert files.read_bytes(path, 100) == b"x" * 100
    with pytest.raises(InputError, match="larger"):
        files.read_bytes(path, 99)


def test_a_seed_beyond_64_bits(capsys):
    traffic = Path(__file__).parents[1] / "packet" / "data" / "perm_16n_16c_2MB.cm"
    assert "less than or equal to 18446744073709551615" in refused(
        capsys, "packet", "--traffic", traffic, "--seed", 1 << 64
    )
