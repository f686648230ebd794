"""Diagnosis of simulated runs: the part is named, in the words of faults, and nobody where nothing is wrong."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from railyard.cli import guard
from railyard.graph.parquet import read_record, write_record
from railyard.observe.diagnosis.compute import slow_ranks
from railyard.observe.diagnosis.simulated import slow_hosts
from railyard.observe.diagnosis.verdict import Diagnosis

HERE = Path(__file__).parent / "data"
SCENARIO = """
name: small
cluster:
  accelerators: 32
  server: hgx-h100
  back_end: {topology: rail-optimized, fabric: roce}
workload:
  training:
    model: llama-3-8b
    tokens: 1 T
    global_batch: 32
    sequence: 2048
    parallelism: {tp: 2, pp: 4, micro_batch: 1}
"""


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory):
    """Runs a scenario with faults and diagnoses its record, out of which every word of faults was taken."""
    folder = tmp_path_factory.mktemp("diagnosis")
    scenario, cluster = folder / "small.yaml", folder / "cluster.yaml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    cluster.write_text(SCENARIO.split("workload:", maxsplit=1)[0], encoding="utf-8")

    def call(capsys, faults="", *, known=True):
        out = folder / f"runs-{abs(hash(faults))}"
        sets = ["--set", f"faults={faults}"] if faults else []
        assert guard.run(["run", str(scenario), "-q", "--out", str(out), *sets]) == 0
        record = read_record(next(out.glob("*/timeline.parquet")))
        clean = out / "clean.parquet"
        write_record(replace(record, meta={"engine": "flow"}), clean)
        capsys.readouterr()
        arguments = ["diagnose", str(clean), "--json", *(["--cluster", str(cluster)] if known else [])]
        assert guard.run(arguments) == 0
        return json.loads(capsys.readouterr().out)

    return call


def test_nothing_is_wrong(diagnosed, capsys):
    answer = diagnosed(capsys)
    assert set(answer) == {"verdict", "unknown", "what_if"}
    assert answer["verdict"] == []
    assert answer["unknown"] is False
    assert answer["what_if"]["S"] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("faults", "part", "kind"),
    [
        ("[{kind: slow-accelerator, rank: 13, factor: 90 %}]", "rank 13", "accelerator"),
        ("[{kind: degrade-link, cable: server 2 nic 3 - leaf 3, factor: 45 %}]", "server 2 nic 3", "nic"),
        (
            "[" + ", ".join(f"{{kind: slow-accelerator, rank: {rank}, factor: 80 %}}" for rank in range(8, 16)) + "]",
            "server 1",
            "host",
        ),
    ],
)
def test_the_part_is_named(diagnosed, capsys, faults, part, kind):
    answer = diagnosed(capsys, faults)
    assert [(one["part"], one["kind"]) for one in answer["verdict"]] == [(part, kind)]
    (suspect,) = answer["verdict"]
    assert set(suspect) == {"part", "kind", "confidence", "evidence", "usd_per_hour"}
    assert 0.5 < suspect["confidence"] < 1
    assert suspect["usd_per_hour"] > 0


def test_without_a_cluster_only_accelerators_are_named(diagnosed, capsys):
    slow_nic = "[{kind: degrade-link, cable: server 2 nic 3 - leaf 3, factor: 45 %}]"
    assert diagnosed(capsys, slow_nic, known=False)["verdict"] == []


def test_a_rank_is_slow_beyond_the_spread_of_the_others():
    pace = np.array([1.0, 1.001, 0.999, 1.0, 1.2, np.nan, 1.0])
    assert slow_ranks(pace) == {4: pytest.approx(1.2)}
    noisy = np.random.default_rng(5).normal(1, 0.05, 400)
    assert slow_ranks(noisy) == {}
    assert slow_ranks(np.array([1.0, 2.0])) == {}


def test_a_slow_host_is_one_part_however_slow_and_uneven():
    """Paces of 4.96 to 5.04 are one host; one accelerator that keeps pace, or 5 % between them, are not."""
    rng = np.random.default_rng(3)
    slow = {rank: 5 + 0.04 * rng.uniform(-1, 1) for rank in range(8, 16)}
    assert slow_hosts(slow, 8) == [1]
    assert slow_hosts({**slow, 9: 5.3}, 8) == []
    assert slow_hosts({rank: ratio for rank, ratio in slow.items() if rank != 9}, 8) == []
    assert slow_hosts(slow, 0) == []


def test_numbers_that_are_not_there_are_null():
    assert Diagnosis(what_if={"M_W": float("nan")}).plain()["what_if"] == {"M_W": None}


def test_operations_are_replayed(capsys):
    assert guard.run(["diagnose", str(HERE / "operations-ST.parquet"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["what_if"]["S"] == pytest.approx(1.1787021836556841, rel=1e-12)
    assert [one["part"] for one in answer["verdict"]] == ["stage 3"]


def test_garbage_ends_with_code_2(tmp_path, capsys):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"noise")
    for command in ("observe", "diagnose"):
        assert guard.run([command, str(path)]) == 2
        assert "x.parquet" in capsys.readouterr().err
