"""Tenants that share a cluster, in the queue: each has its servers, its line and its errors."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.tenancy import NOBODY, TenancySpec, TenantSpec, tenancy_of
from railyard.work.operate.discipline import backfills, policies
from railyard.work.operate.failures.fault import Effect, NodeFault
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.rules import RecoveryRules, Rules, Turnaround
from railyard.work.operate.saving import load, save

from .yard import Given, S, accounts_add_up, jobs, seconds, tree


def shared(nodes=5, **owned):
    """A tree of which tenants have spans of nodes."""
    asked = TenancySpec("vrf", tuple(TenantSpec(name, (span,)) for name, span in owned.items()))
    tenancy = tenancy_of(asked, nodes, 1)
    return replace(tree(nodes), tenancy=tenancy, owner=tenancy.owner[:, 0].astype(np.int32))


def of(*owners):
    names = tuple(dict.fromkeys(owners))
    return {"tenant": np.array([names.index(one) for one in owners], np.int32), "tenants": names}


def played(table, there, faults=None, **rules):
    run = ClusterRun(table, there, Rules(**rules), faults=faults)
    assert run.run()
    accounts_add_up(run)
    return run


@pytest.mark.parametrize("backfill", backfills.names())
def test_a_tenant_waits_for_its_servers_and_for_nobody_elses(backfill):
    """Blue's second job waits for its first although green's servers idle; green's comes at 10 and waits for none."""
    table = jobs((0, 100, 2), (0, 50, 2), (10, 30, 2), (20, 5, 1), **of("blue", "blue", "green", "all"))
    run = played(table, shared(blue=(0, 1), green=(2, 3)), backfill=backfill)
    assert seconds(run.state.end_us) == [100, 150, 40, 25]


def test_without_tenants_the_same_jobs_take_any_servers():
    table = jobs((0, 100, 2), (0, 50, 2), (10, 30, 2), (20, 5, 1), **of("blue", "blue", "green", "all"))
    assert seconds(played(table, tree(5)).state.end_us) == [100, 50, 80, 25]


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_the_first_of_each_tenant_is_delayed_by_nobody(backfill):
    """Blue's pair waits until 100; a job of 1 server and 120 s may not overtake it, one of 80 s may; so with green."""
    rows = (0, 100, 1), (1, 10, 2), (2, 120, 1), (3, 80, 1), (0, 60, 1), (1, 10, 2), (2, 70, 1), (3, 40, 1)
    owners = ["blue"] * 4 + ["green"] * 4
    table = jobs(*rows, **of(*owners))
    run = played(table, shared(4, blue=(0, 1), green=(2, 3)), backfill=backfill)
    assert seconds(run.state.end_us) == [100, 60, 110, 70, 230, 140, 83, 43]


def test_depth_counts_by_tenant():
    """The queue's first three places are blue's, which waits; green's is looked at although only two are."""
    table = jobs(
        (0, 100, 2), (1, 9, 2), (2, 9, 2), (3, 9, 2), (4, 30, 2), **of("blue", "blue", "blue", "blue", "green")
    )
    run = played(table, shared(4, blue=(0, 1), green=(2, 3)), depth=2)
    assert seconds(run.state.end_us) == [100, 109, 118, 127, 34]


LOSSES = (
    NodeFault(20 * S, (0,), Effect.OUT, 0, 30 * S, 100 * S),
    NodeFault(300 * S, (2,), Effect.OUT, 0, 30 * S, 100 * S),
)
SPARED = {
    "recovery": RecoveryRules(interval_us=S, resume_us=11 * S, spares=1),
    "turnaround": Turnaround(erase_us=7 * S),
}


def test_a_spare_passes_from_nobody_to_a_tenant_and_on_erased():
    """Blue loses n0 at 20, seen at 50, goes on at 61 on the clean spare n4. n0, back at 120, is the spare that green,
    which loses n2 at 300, seen at 330, gets with 7 s of erasure, and 11 s to resume."""
    table = jobs((0, 96, 2), (290, 100, 2), **of("blue", "green"))
    run = played(table, shared(blue=(0, 1), green=(2, 3)), Given(*LOSSES), **SPARED)
    assert seconds(run.state.end_us) == [96 + 41, 290 + 100 + 30 + 7 + 11]
    assert run.state.erased == 1
    assert run.state.owner.tolist() == [1, 0, NOBODY, 1, 0]
    assert run.spares == [2]


def test_a_tenants_broken_server_comes_back_to_it_where_no_spare_stood_in():
    """Both of blue's servers break: one spare is too few, so that the job waits until the second is back, at
    181, and no server changes hands; 20 of its 96 s were done."""
    both = (
        NodeFault(20 * S, (0,), Effect.OUT, 0, 30 * S, 100 * S),
        NodeFault(21 * S, (1,), Effect.OUT, 0, 30 * S, 160 * S),
    )
    table = jobs((0, 96, 2), **of("blue"))
    run = played(table, shared(blue=(0, 1), green=(2, 3)), Given(*both), **SPARED)
    assert run.state.owner.tolist() == run.state.tree.owner.tolist()
    assert (run.spares, seconds(run.state.end_us)) == ([4], [181 + 76])


def test_whose_servers_are_survives_a_kill(tmp_path):
    table = jobs((0, 96, 2), (290, 100, 2), **of("blue", "green"))
    there, rules = shared(blue=(0, 1), green=(2, 3)), Rules(**SPARED)
    first = ClusterRun(table, there, rules, faults=Given(*LOSSES))
    first.run(moments=5)
    save(first, tmp_path / "state")
    again = ClusterRun(table, there, rules, faults=Given(*LOSSES))
    assert load(again, tmp_path / "state")
    assert again.state.owner.tolist() == first.state.owner.tolist() != there.owner.tolist()
    first.run()
    again.run()
    assert again.state.end_us == first.state.end_us
    assert again.state.parts[1].room.tolist() == first.state.parts[1].room.tolist() == [8, 0, 0, 8, 0]


ROW = st.tuples(st.integers(0, 60), st.integers(1, 90), st.integers(1, 3), st.sampled_from(["blue", "green", "all"]))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=12),
    backfill=st.sampled_from(backfills.names()),
    policy=st.sampled_from([name for name in policies.names() if name != "compatible"]),
    discipline=st.sampled_from(["fifo", "priority", "fair-share"]),
)
def test_nobody_is_ever_on_anothers_server_and_each_plays_as_if_alone(rows, backfill, policy, discipline):
    """What a tenant's jobs do is what they would do if the others' were not there."""
    there = shared(9, blue=(0, 2), green=(3, 5))
    rules = {"backfill": backfill, "policy": policy, "discipline": discipline}
    rows = sorted(rows, key=lambda row: row[0])
    run = ClusterRun(jobs(*(row[:3] for row in rows), **of(*(row[3] for row in rows))), there, Rules(**rules))
    while not run.run(moments=1):
        for job, nodes in run.state.placed.items():
            assert (there.owner[nodes] == run.state.owner_of_job(job)).all()
    accounts_add_up(run)
    for tenant in {row[3] for row in rows}:
        theirs = [row for row in rows if row[3] == tenant]
        start = theirs[0][0]
        alone = [(row[0] - start, *row[1:3]) for row in theirs]
        ends = np.array(run.state.end_us)[[row[3] == tenant for row in rows]]
        assert (
            np.where(ends < 0, -1, ends - start * S).tolist()
            == played(jobs(*alone, **of(*[tenant] * len(alone))), there, **rules).state.end_us
        )


DOCUMENT = """
cluster:
  accelerators: 48
  server: hgx-h100
  back_end: {topology: {kind: leaf-spine, ports_per_leaf: 16}, fabric: roce}
  tenancy: {by: vrf, tenants: [{name: blue, servers: 0-1}, {name: green, servers: "2-4"NICS}]}
workload:
  operate:
    jobs: JOBS
    MORE
"""
DRAWN = '{synthetic: {count: 40, load: 0.5, sizes: {"8": 1.0}}}'
TRACE = "{trace: a.csv}"


def prepared(folder, drawn=DRAWN, more="", nics="", rows=()):
    from railyard.work.operate.prepare import prepare
    from railyard.work.scenario.load import from_text
    from railyard.work.scenario.variants import expand

    (folder / "a.csv").write_text("\n".join(["submit_s,duration_s,accelerators,tenant", *rows]) + "\n")
    text = DOCUMENT.replace("JOBS", drawn).replace("MORE", more).replace("NICS", nics)
    return prepare(expand(from_text(text, folder / "a.yaml"))[0])


def test_drawn_jobs_are_those_of_the_clusters_tenants(tmp_path):
    found = prepared(tmp_path)
    assert found.jobs.tenants == ("blue", "green")
    assert found.tree.owner.tolist() == [0, 0, 1, 1, 1, NOBODY]
    assert 10 < int((found.jobs.tenant == 1).sum()) < 30


def test_kinds_may_say_whose_all_jobs_are(tmp_path):
    kinds = DRAWN[:-2] + ", kinds: [{tenant: green, share: 3}, {tenant: blue}]}}"
    found = prepared(tmp_path, kinds)
    assert found.jobs.tenants == ("green", "blue")
    assert 20 < int((found.jobs.tenant == 0).sum()) < 40


def test_a_job_that_is_too_large_shrinks_to_its_tenants_servers(tmp_path):
    rows = "0,60,48,blue", "1,60,48,green", "2,60,48,"
    found = prepared(tmp_path, "{trace: a.csv, shrink: true}", rows=rows)
    assert found.jobs.nodes.tolist() == [2, 3, 1]


def test_fairness_is_by_a_tenants_servers(tmp_path):
    from railyard.work.operate.steady import columns
    from railyard.work.operate.summary import finish_time_fairness

    found = prepared(tmp_path, TRACE, rows=("0,60,16,blue", "0,60,16,blue", "0,60,8,green"))
    run = found.operation()
    assert run.run()
    assert finish_time_fairness(run, columns(run)).tolist() == [1.0, 2.0, 1.0]


def test_that_no_server_changes_hands_is_said(tmp_path):
    assert prepared(tmp_path).notes == ()
    [note] = prepared(tmp_path, more="turnaround: {}").notes
    assert "none is erased between tenants" in note
    assert prepared(tmp_path, more="turnaround: {between: jobs}").notes == ()
    more = "turnaround: {}\n    failures: {profile: llama3}\n    recovery: {spares: 1}"
    [note] = prepared(tmp_path, more=more).notes
    assert "only spares that take over pass between them" in note
