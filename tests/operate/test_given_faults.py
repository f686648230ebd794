"""Faults of a scenario in months of jobs: what each takes away, and for how long, by hand."""

from __future__ import annotations

import json

import pytest

import railyard
from railyard.kit.errors import InputError

SCENARIO = {
    "name": "given",
    "cluster": {
        "accelerators": 64,
        "server": "hgx-h100",
        "back_end": {"topology": {"kind": "rail-optimized"}, "fabric": "roce"},
    },
    "workload": {
        "operate": {"jobs": {"trace": "jobs.csv"}, "recovery": {"interval": "30 min", "checkpoint": "async"}},
    },
    "recovery": {"repair": "5 h"},
}
WORK_S = 48 * 3600
RESTART_S, ABORT_S = 400.0, 4.096e-6 * 2**20 * 7
COPY_S = 100e9 * 8 / 2e11  # 100 GB of each accelerator into the host's memory before work goes on
INTERVAL_S = 1800 + COPY_S


@pytest.fixture
def played(tmp_path):
    (tmp_path / "jobs.csv").write_text(f"submit_s,duration_s,accelerators\n0,{WORK_S},64\n")

    def play(*faults, **changes):
        file = tmp_path / "given.yaml"
        file.write_text(json.dumps({**SCENARIO, "faults": list(faults)}))
        run = railyard.run(file, overrides={key.replace("__", "."): value for key, value in changes.items()}, out=None)
        return run.result.plain()["variants"][0]["operate"]

    return play


def jct_s(figures):
    return figures["jct_s"]["mean"]


@pytest.mark.parametrize(
    ("fault", "away_s", "topology"),
    [
        # Its node is back five hours after it died; the job, which needs all nodes, starts again then.
        ({"kind": "host-down", "host": 3}, 5 * 3600, {}),
        ({"kind": "accelerator-down", "rank": 63}, 5 * 3600, {}),
        ({"kind": "nic-down", "host": 2, "nic": 1, "for": "3 h"}, 3 * 3600, {}),
        ({"kind": "switch-down", "switch": "leaf 7", "for": "2 h"}, 2 * 3600, {}),
        # One spine joins all leafs: without it nodes of different leafs do not reach one another.
        ({"kind": "switch-down", "switch": "spine 0"}, 5 * 3600, {"kind": "leaf-spine", "ports_per_leaf": 8}),
    ],
)
def test_a_death_sends_the_job_back_to_its_checkpoint_until_the_repair(played, fault, away_s, topology):
    """At 10 h: 36,000 s are 19.95 intervals of 1,804 s, so that 19 half hours of work are kept."""
    changes = {"cluster__back_end__topology": topology} if topology else {}
    figures = played({**fault, "at": "10 h"}, **changes)
    kept_s = 36_000 // INTERVAL_S * 1800
    left_s = (WORK_S - kept_s) * INTERVAL_S / 1800
    assert jct_s(figures) == pytest.approx(36_000 + away_s + RESTART_S + left_s, abs=5)
    assert figures["failures"]["jobs_hit"] == 1
    assert figures["draws"] is None


def test_deaths_that_the_network_leads_around_are_a_pause(played):
    """Rails need no spine: jobs wait for the routes of RoCE, 100 ms and the next of the senders' tries, 100.7 ms."""
    around = played({"kind": "switch-down", "switch": "spine 0", "at": "10 h"})
    copies_s = WORK_S * COPY_S / 1800
    assert jct_s(around) == pytest.approx(WORK_S + copies_s + 0.1, abs=0.2)
    waited = played({"kind": "nic-down", "host": 2, "nic": 1, "at": "10 h", "for": "20 s"})
    assert jct_s(waited) == pytest.approx(WORK_S + copies_s + 20, abs=0.2)


def test_a_slow_accelerator_halves_its_job_until_it_is_seen(played):
    """Two hours at half speed, then five of repair; the job saves its state before it leaves the node."""
    figures = played({"kind": "slow-accelerator", "rank": 3, "factor": 0.5, "at": "10 h"})
    assert jct_s(figures) == pytest.approx(WORK_S * INTERVAL_S / 1800 + 3600 + 5 * 3600 + RESTART_S, abs=10)


def test_a_fault_that_jobs_of_months_do_not_feel_is_refused_with_its_place(played):
    with pytest.raises(InputError, match="something is dead") as caught:
        played({"kind": "degrade-link", "tier": "nic", "factor": 0.5})
    assert caught.value.problems[0].key == "faults.0.kind"
