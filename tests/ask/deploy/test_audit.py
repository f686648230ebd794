"""Audits without a plan: the design is inferred, every fault found, none invented, each priced."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.tables import drawn_seeds

from railyard.ask.audit.audit import audit, audit_plan
from railyard.ask.audit.planned import PlanPricing, expected
from railyard.ask.audit.price import StepPricing, Wrong
from railyard.ask.deploy.cabling import dialects, drawn
from railyard.cluster.asbuilt import ibnetdiscover
from railyard.cluster.fault import DegradeLink
from railyard.cluster.fault.kinds import LinkDown
from railyard.cluster.network_table import DIALECTS
from railyard.graph import Job
from railyard.work.study.study import prepare

from .fabrics import leaf_spine, three_tier
from .scenarios import draft, planned

DGX = Path(__file__).parents[3] / "examples" / "network" / "ibnetdiscover.out"


def audited(drawn):
    found = ibnetdiscover.read(drawn.text(), "drawn")
    assert not found.problems
    return audit(found)


def kinds(found):
    return [(one.kind, *sorted((one.a, one.b))) for one in found.findings]


@pytest.fixture(scope="module")
def dgx():
    return audit(ibnetdiscover.read(DGX.read_text(encoding="utf-8"), DGX.name))


def test_the_public_fabric_lacks_26_cables_in_16_pairs(dgx):
    missing = [one for one in dgx.findings if one.kind == "missing"]
    assert len(missing) == 26
    assert len({(one.a.split("[")[0], one.b.split("[")[0]) for one in missing}) == 16
    (block,) = dgx.design["blocks"]
    assert (block["switches"], block["cables_a_pair"], block["found"], block["cables"]) == (
        [32, 9],
        2,
        532,
        576,
    )  # one leaf of 18 cables is absent altogether
    assert block["worst_shift_load"] == [3, 6]
    assert "?" not in "".join(one.a + one.b for one in missing)
    assert "MF0;A09-P1-IBLEAF-01-01:MQM9701/U1[40]" in {one.a for one in missing}


def test_the_public_fabric_is_priced_and_ranked(dgx):
    prices = [one.usd_per_month for one in dgx.findings]
    assert prices == sorted(prices, reverse=True)
    assert all(one.usd_per_month > 0 for one in dgx.findings if one.kind == "missing")
    assert dgx.design["loss"] > max(one.loss for one in dgx.findings)
    assert dgx.repairs[-1] == pytest.approx(0, abs=1e-12)
    assert dgx.design["usd_per_month"] == pytest.approx(dgx.design["loss"] * 542 * 2.46 * 730)


def test_the_public_fabric_lacks_a_leaf_and_has_two_ports_exchanged(dgx):
    (leaf,) = (one for one in dgx.findings if one.kind == "missing-switch")
    assert leaf.a == "A09-P1-IBLEAF-03-01"
    assert leaf.detail.startswith("ports 5 to 6 are free on all 9 spine switches, between those to its peers; 10 hosts")
    (swap,) = (one for one in dgx.findings if one.kind == "swapped")
    assert swap.a == "b08-p1-dgx-08-c01 HCA-5[1]"
    assert swap.other is not None
    assert swap.other[0] == "b08-p1-dgx-08-c01 HCA-6[1]"


@pytest.mark.parametrize("seed", drawn_seeds(9, 24))
def test_random_fabrics_whose_cables_are_pulled(seed):
    """All are named with both ports, or by what the design leaves open; nothing else is named."""
    dice = random.Random(seed)
    drawn = [
        lambda: leaf_spine(dice.randint(4, 20), dice.randint(3, 8), dice.randint(2, 16), dice.randint(1, 3)),
        lambda: leaf_spine(4 * dice.randint(2, 4), dice.randint(3, 8), dice.randint(4, 16), 1, rails=4),
        lambda: three_tier(dice.randint(3, 6), dice.randint(3, 6), dice.randint(3, 4), 3, hosts=dice.randint(2, 8)),
    ][seed % 3]()
    assert not audited(drawn).findings
    between = [at for at, cable in enumerate(drawn.cables) if "node" not in cable[0]]
    pulled = {("missing", *sorted(drawn.pull(at))) for at in dice.sample(between, max(1, len(between) // 40))}
    assert set(kinds(audited(drawn))) == pulled


def test_two_exchanged_cables_are_one_swap():
    drawn = leaf_spine(8, 4, 4, 2)
    one, other = drawn.between("leaf1", "spine0")[1], drawn.between("leaf5", "spine3")[0]
    drawn.swap(one, other)
    (found,) = audited(drawn).findings
    assert found.kind == "swapped"
    assert {found.a, found.b, *found.other} == {"leaf1[6]", "spine3[11]", "leaf5[11]", "spine0[4]"}
    assert found.usd_per_month > 0


def test_a_cable_in_the_wrong_spine_is_moved_back():
    drawn = leaf_spine(8, 4, 4, 1)
    at = drawn.between("leaf2", "spine1")[0]
    drawn.cables[at][2:4] = ["spine3", drawn.port("spine3")]
    (found,) = audited(drawn).findings
    assert (found.kind, found.a, found.b) == ("misplaced", "leaf2[6]", "spine3[9]")
    assert "spine1[3]" in found.detail


def test_a_slow_cable_is_degraded_and_costs_more_the_slower_it_is():
    prices = []
    for rate in ("4xHDR", "1xNDR"):
        drawn = leaf_spine(8, 4, 4, 1)
        drawn.cables[drawn.between("leaf2", "spine1")[0]][4] = rate
        (found,) = audited(drawn).findings
        assert (found.kind, found.a, found.b) == ("degraded", "leaf2[6]", "spine1[3]")
        prices.append(found.usd_per_month)
    assert 0 < prices[0] < prices[1]


def test_a_host_in_the_wrong_rail_and_one_without_a_rail():
    drawn = leaf_spine(8, 4, 12, 1, rails=4)
    one, other = drawn.between("node0002 mlx5_1", "leaf1")[0], drawn.between("node0002 mlx5_2", "leaf2")[0]
    drawn.swap(one, other)
    drawn.pull(drawn.between("node0015 mlx5_3", "leaf7")[0])
    swapped, missing = sorted(audited(drawn).findings, key=lambda one: one.kind, reverse=True)
    assert (swapped.kind, missing.kind) == ("swapped", "missing")
    assert {swapped.a, swapped.other[0]} == {"node0002 mlx5_1[1]", "node0002 mlx5_2[1]"}
    assert {swapped.b, swapped.other[1]} == {"leaf1[3]", "leaf2[3]"}
    assert (missing.a, missing.b) == ("node0015 mlx5_3[1]", "leaf7[4]")
    # Three rails of four carry what four did: communication takes 4/3, a fifth of the step: 1 - 1 / (1 + 0.2 / 3).
    assert missing.loss == pytest.approx(1 - 1 / (1 + 0.2 / 3))


def test_a_hole_among_the_hosts_of_a_leaf():
    drawn = leaf_spine(4, 2, 4, 2)
    drawn.pull(drawn.between("node0009", "leaf2")[0])
    (found,) = audited(drawn).findings
    assert (found.kind, found.a, found.b) == ("missing", "leaf2[2]", "?")
    assert found.loss == pytest.approx(1 / 15)


def test_a_leaf_of_another_kind_is_no_fault_but_a_doubt():
    drawn = leaf_spine(8, 4, 4, 2)
    for spine in range(4):
        drawn.pull(drawn.between("leaf3", f"spine{spine}")[1])
    found = audited(drawn)
    assert not found.findings
    assert "leaf3 has 1 cables to each spine where others have 2" in found.design["doubts"][0]


def test_a_ring_of_switches_is_no_fat_tree():
    drawn = leaf_spine(6, 0, 4)
    for leaf in range(6):
        drawn.join(f"leaf{leaf}", f"leaf{(leaf + 1) % 6}")
    found = audited(drawn)
    assert not found.findings
    assert not found.design["regular"]
    assert "not a fat tree" in found.design["doubts"][0]


# Audits against a plan: random faults are all found, none is invented, and prices are those of the engine.

KINDS = (
    "missing",
    "swapped",
    "wrong-speed",
    "wrong-length",
    "mislabelled",
    "wrong-mtu",
    "misplaced",
    "unknown-neighbour",
)


def injected(discovery, dice, count):
    """The network with faults; and what an audit has to say: kind and ends, of a swap those of both cables."""
    alike = discovery.switch[discovery.ends[:, 0]] == discovery.switch[discovery.ends[:, 1]]
    free = dice.sample(between := np.flatnonzero(alike).tolist(), min(len(between), 3 * count))
    names = {"key": "stranger", "name": "stranger", "label": "stranger", "part": "", "chassis": "", "sockets": 0}
    built = replace(
        discovery,
        **{column: [*getattr(discovery, column), value] for column, value in names.items()},
        kind=[*discovery.kind, discovery.kind[0]],
    )
    gone, want = set(), set()
    for at in range(count):
        number, kind = free.pop(), KINDS[at % len(KINDS)]
        (a, b), (port, _) = discovery.ends[number].tolist(), discovery.ports[number]
        if kind == "swapped":
            other = next(n for n in free if (discovery.ends[n] != (a, b)).all())
            free.remove(other)
            built = built.exchanged([number, other])
            want.add((kind, frozenset(built.both_ends(number) + built.both_ends(other))))
            continue
        if kind == "wrong-mtu" and not discovery.mtu[number, 0]:
            continue
        built = built.edited(
            **{
                "missing": {},
                "wrong-speed": {"rate_bps": {number: discovery.rate_bps[number] // 4}},
                "wrong-length": {"length_m": {number: discovery.length_m[number] * 1.2 + 1}},
                "mislabelled": {"ports": {number: (port, f"900{at}")}},
                "wrong-mtu": {"mtu": {number: (1500, discovery.mtu[number, 1])}},
                "misplaced": {"ends": {number: (a, _other(discovery, a, b))}, "ports": {number: (port, f"77{at}")}},
                "unknown-neighbour": {
                    "ends": {number: (a, len(discovery.name))},
                    "ports": {number: (port, f"{at}")},
                },
            }[kind]
        )
        gone |= {number} if kind == "missing" else set()
        want.add((kind, frozenset(built.both_ends(number))))
    return built.without(gone), want


def _other(discovery, a, b):
    stem = discovery.name[b][:5]
    return next(n for n, name in enumerate(discovery.name) if n not in (a, b) and name.startswith(stem))


def said(audit):
    return {(one.kind, frozenset((one.a, one.b)) | frozenset(one.other or ())) for one in audit.findings}


@pytest.mark.parametrize("seed", drawn_seeds(3, 6))
def test_random_faults_are_found_and_none_is_invented(seed):
    fabric, dialect = (("infiniband", "infiniband"), ("spectrum-x", "sonic"), ("roce", "eos"))[seed % 3]
    one = draft(256, "rail-optimized" if seed % 2 else "leaf-spine", fabric)
    found, want = injected(drawn(planned(one), 0, DIALECTS[dialect]), random.Random(seed), 24)
    assert len(want) >= 21
    assert said(audit_plan(found, one)) == want


def test_a_slow_cable_costs_what_the_engine_says_of_the_fault():
    """`degrade-link`, which scenarios have, is another road to the same step."""
    one = draft(128, "leaf-spine", "infiniband")
    plan = planned(one)
    discovery = drawn(plan, 0, DIALECTS["infiniband"])
    number = 9
    slow = discovery.edited(rate_bps={number: discovery.rate_bps[number] // 4})
    (finding,) = audit_plan(slow, one).findings
    job = prepare(one)[0]
    links = plan.cables.link[number] + np.arange(2)
    faults = [DegradeLink(factor=0.25, link=int(link)) for link in links]
    record = job.engine.simulate([Job(job.graphs.of(job.training, job.cluster))], job.cluster, faults=faults)
    assert finding.step_s == pytest.approx(record.makespan_ps * 1e-12, rel=1e-9)
    base = StepPricing(job)
    assert finding.loss == pytest.approx(1 - base.step_s / finding.step_s)
    assert finding.usd_per_month == pytest.approx(finding.loss * base.usd_per_month)
    assert finding.loss > 0.001


@pytest.mark.parametrize("fabric", ["infiniband", "roce", "spectrum-x"])
def test_missing_cables_cost_what_the_engine_says_of_dead_ones(fabric):
    """`link-down` from the beginning on, with fabrics that reroute at once: the engine withdraws routes by itself."""
    one = draft(64, fabric={"name": fabric, "reroute": "0 s"}, parts={"ports_per_leaf": 8, "spines": 2}, tp=32,
                server="gh200-node")  # fmt: skip
    plan = planned(one)
    discovery = drawn(plan, 0, dialects(plan, 0)[0])
    pair = {discovery.number("be-leaf2"), discovery.number("be-spine0")}
    pulled = [number for number, ends in enumerate(discovery.ends.tolist()) if set(ends) == pair]
    assert len(pulled) == 4
    found = audit_plan(discovery.without(pulled), one)
    job = prepare(one)[0]
    run = {"cluster": job.cluster, "seed": job.seeds[0]}
    graph = [Job(job.graphs.of(job.training, job.cluster))]
    whole = job.engine.simulate(graph, **run).makespan_ps
    dead = job.engine.simulate(graph, **run, faults=[LinkDown(cable="leaf 2 - spine 0", cables="all")]).makespan_ps
    pricing = PlanPricing(one, expected(one, discovery.without(pulled))).step
    gone = (plan.cables.link[np.concatenate(found.cables)][:, None] + np.arange(2)).ravel()
    assert pricing.cost(Wrong(np.sort(gone), {}, {})).loss == pytest.approx(1 - whole / dead, rel=1e-6)
    parts = pricing.parts_usd("back-end", {"leaf-spine": 4}) / pricing.usd_per_month
    assert found.design["loss"] == pytest.approx(max(1 - whole / dead, parts))
    assert found.design["loss"] > 1e-4


def test_a_host_without_a_cable_stands_idle():
    one = draft(128, "leaf-spine", "infiniband")
    discovery = drawn(planned(one), 0, DIALECTS["infiniband"])
    (finding,) = audit_plan(discovery.without([0]), one).findings
    assert (finding.kind, finding.a, finding.b) == ("missing", "node00 mlx5_0[1]", "be-leaf0[1]")
    assert finding.loss == pytest.approx(8 / 128)


def test_repairs_are_ordered_by_what_they_bring():
    one = draft(128, "leaf-spine", "infiniband")
    found, _ = injected(drawn(planned(one), 0, DIALECTS["infiniband"]), random.Random(3), 8)
    audit = audit_plan(found, one)
    prices = [finding.usd_per_month for finding in audit.findings]
    assert prices == sorted(prices, reverse=True)
    assert audit.repairs[-1] == 0
    assert all(after <= before + 1e-12 for before, after in zip(audit.repairs, audit.repairs[1:], strict=False))


def test_a_file_with_other_names_is_compared_with_the_regular_design(tmp_path):
    one = draft(128)
    discovery = drawn(planned(one), 0, DIALECTS["infiniband"])
    names = [f"x{number}" for number in range(len(discovery.name))]
    renamed = replace(discovery, name=names, label=names, part=[""] * len(names))
    audit = audit_plan(renamed.without([len(discovery.ports) - 1]), one)
    assert audit.design["source"] == "inferred"
    assert "no name of a device" in audit.design["doubts"][0]
    assert [finding.kind for finding in audit.findings] == ["missing"]
