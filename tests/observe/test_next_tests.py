"""The test that would settle a verdict: expected values are the model's, and every kind of part has its steps."""

import json
import re

import pytest

from railyard.ask.observe.answer import cluster_of
from railyard.ask.observe.diagnosis.verdict import Diagnosis, Suspect
from railyard.ask.observe.expected import expected_s
from railyard.ask.observe.next_tests import SYMPTOMS, after, of_symptom
from railyard.face.cli import guard

CLUSTER = """
cluster:
  accelerators: 32
  server: hgx-h100
  back_end: {topology: {kind: leaf-spine, ports_per_leaf: 8, spines: 4}, fabric: infiniband}
"""


@pytest.fixture
def cluster(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER, encoding="utf-8")
    return cluster_of(file)


def test_a_link_is_tested_at_what_its_rate_leaves(cluster):
    """400 Gb/s less headers is between 47 and 50 GB/s; the collective's value is the model's on two hosts."""
    steps = after(Diagnosis([Suspect("server 1 nic 3", "nic", 0.9, "")]), cluster)
    assert len(steps) == 4
    assert all("server 1 nic 3" in step.run for step in steps)
    assert 47 < float(re.findall(r"about ([\d.]+) GB/s", steps[1].expected)[0]) < 50
    rate = (1 << 30) * 2 * 15 / 16 / expected_s(cluster, "all_reduce", 1 << 30, 16) / 1e9
    assert steps[2].expected.startswith(f"about {rate:.0f} GB/s busbw on 16 ranks, at least {0.8 * rate:.0f}")


def test_where_nothing_can_be_named_hosts_are_halved(cluster):
    """Four hosts are two rounds."""
    steps = after(Diagnosis(unknown=True), cluster)
    assert "2 rounds" in steps[-1].run
    assert "16 ranks" in steps[-1].expected
    assert after(Diagnosis(), cluster) == []


def test_where_traces_are_short_more_are_recorded_first(cluster):
    steps = after(Diagnosis(unknown=True, short=True), cluster)
    assert "on all ranks" in steps[0].run
    assert steps[1:] == after(Diagnosis(unknown=True), cluster)


@pytest.mark.parametrize(
    "kind", ["cable", "nic", "switch", "host", "accelerator", "stage", "rank", "software", "sequences", "experts"]
)
def test_every_kind_has_steps_without_a_cluster_too(kind):
    steps = after(Diagnosis([Suspect("part 7", kind, 0.9, "")]), None)
    assert steps
    assert any("part 7" in step.run + step.otherwise for step in steps)


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_symptoms(symptom, cluster, tmp_path, capsys):
    assert of_symptom(symptom, cluster)
    assert guard.run(["diagnose", "--symptom", symptom, "--json", "--cluster", str(tmp_path / "cluster.yaml")]) == 0
    assert set(json.loads(capsys.readouterr().out)["steps"][0]) == {"run", "expected", "otherwise"}


@pytest.mark.parametrize("arguments", [[], ["--symptom", "slwo"], ["x", "--symptom", "slow"]])
def test_neither_both_nor_a_misspelt_symptom(arguments, capsys):
    assert guard.run(["diagnose", *arguments]) == 2
    err = capsys.readouterr().err
    assert "slow" in err or "symptom" in err
