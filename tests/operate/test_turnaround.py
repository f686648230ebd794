"""Between two users of a node: erased where somebody else had it, attested at every start, and accounted."""

import json

import numpy as np
import pytest

from railyard.face.cli import guard
from railyard.work.operate.failures.fault import Effect, NodeFault
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.rules import RecoveryRules, Rules, Turnaround
from railyard.work.operate.saving import load, save

from .yard import Given, S, accounts_add_up, jobs, played, seconds, tree

ROWS = ((0, 100, 2), (1, 50, 2), (2, 30, 2))


def owned(*owners):
    names = tuple(dict.fromkeys(owners))
    return {"tenant": np.array([names.index(one) for one in owners], np.int32), "tenants": names}


def spent(run, what):
    """Accelerator-seconds of each job."""
    return [row[what] / S for row in run.state.spent]


def test_another_tenant_waits_for_the_erasure():
    """Both nodes go from blue to green at 100: 7 s, then green's 50 s, then green again at once."""
    table = jobs(*ROWS, **owned("blue", "green", "green"))
    run = played(table, nodes=2, backfill="none", turnaround=Turnaround(erase_us=7 * S))
    assert seconds(run.state.end_us) == [100, 157, 187]
    assert (run.state.erased, spent(run, 7)) == (2, [0, 7 * 16, 0])
    assert spent(run, 0) == [1600, 800, 480]
    accounts_add_up(run)


def test_between_jobs_every_other_job_waits():
    table = jobs(*ROWS, **owned("blue", "green", "green"))
    run = played(table, nodes=2, backfill="none", turnaround=Turnaround(erase_us=7 * S, between="jobs"))
    assert seconds(run.state.end_us) == [100, 157, 194]
    assert run.state.erased == 4


def test_a_verifier_judges_so_many_a_second_at_every_start():
    """16 accelerators at 5 a second, 2 s an answer: 2 + 15 / 5 = 5 s; setup of 3 s comes after it, apart."""
    asked = Turnaround(attest_us=2 * S, verifier_per_s=5.0)
    run = played(jobs((0, 100, 2)), turnaround=asked, setup_us=3 * S)
    assert seconds(run.state.end_us) == [108]
    assert (spent(run, 7), spent(run, 1)) == ([5 * 16], [3 * 16])
    assert asked.attested_us(1) == 2 * S
    assert Turnaround(attest_us=2 * S).attested_us(4096) == 2 * S
    accounts_add_up(run)


def test_a_spare_is_attested_before_it_takes_over():
    """A node dies at 20 s and is seen at 50; only the spare's 8 accelerators are asked about: 4 s, 11 s to resume."""
    fault = NodeFault(20 * S, (0,), Effect.OUT, 0, 30 * S, 10**9 * S)
    rules = RecoveryRules(interval_us=S, resume_us=11 * S, spares=1)
    asked = Turnaround(attest_us=4 * S)
    run = played(jobs((0, 96, 2)), nodes=3, faults=Given(fault), recovery=rules, turnaround=asked)
    assert seconds(run.state.end_us) == [4 + 96 + 30 + 4 + 11]
    assert spent(run, 7) == [(4 + 4) * 16]
    accounts_add_up(run)


def test_who_had_a_node_last_survives_a_kill(tmp_path):
    table, rules = jobs(*ROWS, **owned("blue", "green", "blue")), Rules(turnaround=Turnaround(erase_us=7 * S))
    first = ClusterRun(table, tree(2), rules)
    first.run(moments=4)
    save(first, tmp_path / "state")
    again = ClusterRun(table, tree(2), rules)
    assert load(again, tmp_path / "state")
    first.run()
    again.run()
    assert seconds(again.state.end_us) == seconds(first.state.end_us) == [100, 157, 194]
    assert again.state.spent == first.state.spent
    assert again.state.erased == first.state.erased == 4


DOCUMENT = """
cluster: {accelerators: 16, server: hgx-h100, back_end: {fabric: ideal}}
workload:
  operate:
    jobs: {synthetic: {count: 30, load: 0.8, sizes: {"8": 1.0}, tenants: 3}}
    turnaround: {SECTION}
"""


@pytest.mark.parametrize(
    ("section", "erase_s"),
    [
        ("{}", 5.0),  # the key of the drives; 2 TiB at 614.4 GB/s take 3.58 s
        ("{drives: none}", 2 * 1024**4 / 614.4e9),
        ("{drives: overwrite, reboot: 8 min}", 30.7e12 / 25e9 + 480),
        ("{drives: none, memory: false}", 0.0),
    ],
)
def test_times_are_the_catalogues(tmp_path, section, erase_s):
    from railyard.work.operate.prepare import prepare
    from railyard.work.scenario.load import from_text
    from railyard.work.scenario.variants import expand

    prepared = prepare(expand(from_text(DOCUMENT.replace("{SECTION}", section), tmp_path / "a.yaml"))[0])
    assert prepared.rules.turnaround.erase_us == round(erase_s * S)
    assert [f"is erased in {erase_s:.3g} s" in line for line in prepared.defaults] == [True] * (erase_s > 0)


def operated(tmp_path, section, *options):
    path = tmp_path / "a.yaml"
    path.write_text(DOCUMENT.replace("{SECTION}", section))
    return guard.run(["operate", str(path), "--out", str(tmp_path / "run"), "--quiet", *options])


def test_an_unknown_drive_is_named(tmp_path, capsys):
    assert operated(tmp_path, "{storage: local-nwme}") == 2
    words = capsys.readouterr().err
    assert "turnaround.storage" in words
    assert "local-nvme" in words


def test_the_result_has_its_share(tmp_path, capsys):
    assert operated(tmp_path, "{drives: overwrite}", "--json") == 0
    time = json.loads(capsys.readouterr().out)["variants"][0]["operate"]["time"]
    shares = {row["name"]: row["share"] for row in time}
    assert shares["turnaround"] > 0.01
    assert sum(shares.values()) == pytest.approx(1.0)
