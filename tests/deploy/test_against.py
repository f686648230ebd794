"""Audits against a plan: random faults are all found, none is invented, and prices are those of the engine."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from railyard.ask.audit.audit import audit_plan
from railyard.ask.audit.planned import PlanPricing, expected
from railyard.ask.audit.price import StepPricing, Wrong
from railyard.ask.deploy.cabling import dialects, drawn
from railyard.cluster.fault import DegradeLink
from railyard.cluster.fault.downs import LinkDown
from railyard.cluster.network_table import DIALECTS, NetworkTable
from railyard.graph import Job
from railyard.work.study.study import prepare

from .scenarios import draft, planned

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


def end(discovery, device, port):
    return f"{discovery.devices[device].described}[{port}]"


def ends(discovery, cable):
    return frozenset((end(discovery, cable.a, cable.a_port), end(discovery, cable.b, cable.b_port)))


def injected(discovery, dice, count):
    """The network with faults; and what an audit has to say: kind and ends, of a swap those of both cables."""
    cables, want = list(discovery.cables), set()
    between = [n for n, c in enumerate(cables) if discovery.devices[c.a].kind == discovery.devices[c.b].kind]
    free = dice.sample(between, min(len(between), 3 * count))
    devices = [*discovery.devices, replace(discovery.devices[0], key="stranger", name="stranger", label="stranger")]
    for at in range(count):
        number = free.pop()
        cable, kind = cables[number], KINDS[at % len(KINDS)]
        if kind == "swapped":
            other = next(n for n in free if cables[n].a != cable.a and cables[n].b != cable.b)
            free.remove(other)
            far = cables[other]
            cables[number] = replace(cable, b=far.b, b_port=far.b_port)
            cables[other] = replace(far, b=cable.b, b_port=cable.b_port)
            want.add((kind, ends(discovery, cables[number]) | ends(discovery, cables[other])))
            continue
        changed = {
            "missing": lambda c: None,
            "wrong-speed": lambda c: replace(c, rate_bps=c.rate_bps // 4),
            "wrong-length": lambda c: replace(c, length_m=c.length_m * 1.2 + 1),
            "mislabelled": lambda c, at=at: replace(c, b_port=f"900{at}"),
            "wrong-mtu": lambda c: replace(c, a_mtu=1500),
            "misplaced": lambda c, at=at: replace(c, b=_other(discovery, c), b_port=f"77{at}"),
            "unknown-neighbour": lambda c, at=at: replace(c, b=len(devices) - 1, b_port=f"{at}"),
        }[kind](cable)
        if kind == "wrong-mtu" and not cable.a_mtu:
            continue
        cables[number] = changed
        there = NetworkTable("built", tuple(devices), ())
        want.add((kind, ends(there, changed or cable) if kind != "wrong-speed" else ends(there, cable)))
    return NetworkTable("built", tuple(devices), tuple(cable for cable in cables if cable)), want


def _other(discovery, cable):
    kind = discovery.devices[cable.b].name[:5]
    return next(n for n, d in enumerate(discovery.devices) if n not in (cable.a, cable.b) and d.name.startswith(kind))


def said(audit):
    return {(one.kind, frozenset((one.a, one.b)) | frozenset(one.other or ())) for one in audit.findings}


@pytest.mark.parametrize("seed", range(6))
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
    cables = list(discovery.cables)
    cables[number] = replace(cables[number], rate_bps=cables[number].rate_bps // 4)
    (finding,) = audit_plan(replace(discovery, cables=tuple(cables)), one).findings
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
    names = [device.described for device in discovery.devices]
    left = tuple(c for c in discovery.cables if {names[c.a], names[c.b]} != {"be-leaf2", "be-spine0"})
    assert len(discovery.cables) - len(left) == 4
    found = audit_plan(replace(discovery, cables=left), one)
    job = prepare(one)[0]
    run = {"cluster": job.cluster, "seed": job.seeds[0]}
    graph = [Job(job.graphs.of(job.training, job.cluster))]
    whole = job.engine.simulate(graph, **run).makespan_ps
    dead = job.engine.simulate(graph, **run, faults=[LinkDown(cable="leaf 2 - spine 0", cables="all")]).makespan_ps
    pricing = PlanPricing(one, expected(one, replace(discovery, cables=left))).step
    gone = (plan.cables.link[np.concatenate(found.cables)][:, None] + np.arange(2)).ravel()
    assert pricing.cost(Wrong(np.sort(gone), {}, {})).loss == pytest.approx(1 - whole / dead, rel=1e-6)
    parts = pricing.parts_usd("back-end", {"leaf-spine": 4}) / pricing.usd_per_month
    assert found.design["loss"] == pytest.approx(max(1 - whole / dead, parts))
    assert found.design["loss"] > 1e-4


def test_a_host_without_a_cable_stands_idle():
    one = draft(128, "leaf-spine", "infiniband")
    discovery = drawn(planned(one), 0, DIALECTS["infiniband"])
    (finding,) = audit_plan(replace(discovery, cables=discovery.cables[1:]), one).findings
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
    devices = tuple(replace(d, name=f"x{n}", label=f"x{n}", part="") for n, d in enumerate(discovery.devices))
    audit = audit_plan(replace(discovery, devices=devices, cables=discovery.cables[:-1]), one)
    assert audit.design["source"] == "inferred"
    assert "by name" in audit.design["doubts"][0]
    assert [finding.kind for finding in audit.findings] == ["missing"]
