"""`run` tries what `explain` tries, and its bottleneck agrees with its breakdown."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from tests.tables import drawn_seeds

import railyard
from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.fault import (
    AcceleratorDown,
    DegradeLink,
    HostDown,
    LinkDown,
    NicDown,
    SlowAccelerator,
    SwitchDown,
)
from railyard.cluster.fault.recovery import Recovery
from railyard.cluster.topology import LeafSpine, RailOptimized
from railyard.engine.fluid import FluidEngine
from railyard.face import api
from railyard.measure.result.variants import StepVariant
from railyard.work.remedies import proposals
from railyard.work.scenario.load import expand, from_values, load
from railyard.work.study import study
from railyard.work.training import simulate, trying
from railyard.work.training.fastest import Fastest, closed_faults

EXAMPLES = Path(__file__).parents[3] / "examples"

COLLIDING = {
    "name": "colliding",
    "cluster": {
        "accelerators": 32,
        "server": "hgx-h100",
        "placement": "scattered",
        "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": 8}, "fabric": {"name": "roce", "qps": 1}},
    },
    "workload": {
        "training": {
            "model": "llama-3.2-1b",
            "tokens": "1 B",
            "global_batch": 32,
            "sequence": 2048,
            "parallelism": {"zero": 3},
        }
    },
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return api.run(COLLIDING, out=tmp_path_factory.mktemp("runs"))


def test_the_run_tries_what_a_user_can_change(run):
    (variant,) = run.result.of(StepVariant)
    changes = variant.bottleneck.changes
    families = {row.family for row in changes}
    assert {"fabric", "queue pairs", "placement", "precision", "collectives"} <= families
    sold = [row.cpmt_gain for row in changes if not row.bound]
    assert sold == sorted(sold, reverse=True)
    for row in changes:
        assert row.gain == pytest.approx(1 - row.step_seconds / variant.step.seconds)
        if not row.bound:
            assert row.cpmt_gain == pytest.approx(1 - row.cpmt_usd / variant.cpmt.typical)
    bound = next(row for row in changes if row.bound)
    assert (bound.name, bound.cpmt_usd, bound.capex_change_usd) == ("fabric ideal", None, None)
    assert bound.gain > 0.1
    assert changes[-1] is bound


@pytest.fixture
def untried(monkeypatch):
    """No remedies are tried, which changes no figure of the step itself."""
    monkeypatch.setattr(trying, "TASKS", 0)


def delivered(draft, changes):
    """The variant of the scenario with the settings of a remedy typed into it; nothing that would help it is tried."""
    (variant,) = study.run(draft.with_values(changes, "a remedy"), searched=False).result.of(StepVariant)
    return variant


def test_a_remedy_is_bought_at_its_price(run):
    """Another placement buys nothing; InfiniBand's switches and interfaces have prices of their own."""
    (variant,) = run.result.of(StepVariant)
    capital = {row.name: row.capex_change_usd for row in variant.bottleneck.changes}
    assert capital["placement packed"] == 0.0
    other = delivered(from_values(COLLIDING), {"cluster.back_end.fabric": "infiniband"})
    assert capital["fabric infiniband"] == pytest.approx(
        other.capex.total_usd.typical - variant.capex.total_usd.typical
    )


def test_hardware_that_nobody_sells_is_no_remedy(run):
    (variant,) = run.result.of(StepVariant)
    headline = variant.bottleneck.headline
    assert "1.25 x" not in headline
    assert "Changes, tried one at a time" in headline
    assert "1.25 x" in variant.bottleneck.sensitivity


def test_explain_gives_the_same_figures(run):
    (variant,) = run.result.of(StepVariant)
    explained = {one.name: one for one in railyard.explain(run.folder).remedies}
    for row in variant.bottleneck.changes:
        assert explained[row.name].step_s == pytest.approx(row.step_seconds, rel=1e-9)
        assert explained[row.name].gain == pytest.approx(row.gain, rel=1e-6)


def test_every_remedy_delivers_what_it_promised(run):
    """Its settings typed into the scenario give its step and its cost, to the last digit."""
    (variant,) = run.result.of(StepVariant)
    for row in variant.bottleneck.changes:
        alone = delivered(from_values(COLLIDING), row.settings)
        assert alone.step.seconds == pytest.approx(row.step_seconds, rel=1e-12), row.name
        if not row.bound:
            assert alone.cpmt.typical == pytest.approx(row.cpmt_usd, rel=1e-12), row.name


QUICK = ("first",)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if path.stem in QUICK else pytest.mark.slow, id=path.stem)
        for path in sorted(EXAMPLES.glob("*.yaml"))
    ],
)
def test_the_best_remedies_of_an_example_deliver(path):
    """The two best of its first variant, in runs of their own."""
    draft = expand(load(path))[0].draft
    if draft.kind != "training" or draft.scenario.repeat > 1:
        pytest.skip("no training step of one draw")
    if draft.scenario.engine == "packet":
        pytest.skip("remedies of a packet run are tried on the flow engine, and the result says so")
    (variant,) = api.execute(draft, [], out=None).result.of(StepVariant)
    for row in [row for row in variant.bottleneck.changes or () if not row.bound][:2]:
        alone = delivered(draft, row.settings)
        assert alone.step.seconds == pytest.approx(row.step_seconds, rel=1e-9), row.name
        assert alone.cpmt.typical == pytest.approx(row.cpmt_usd, rel=1e-9), row.name


def test_an_interval_between_checkpoints_is_a_remedy():
    """Daly's interval beats one that stalls the job a third of the time; the step itself gets no shorter by magic."""
    training = {**COLLIDING["workload"]["training"], "checkpoint": {"interval_steps": 3, "asynchronous": False}}
    cluster = {**COLLIDING["cluster"], "storage": {"name": "nvme-file-server", "servers": 2, "network": "back_end"}}
    scenario = {**COLLIDING, "cluster": cluster, "workload": {"training": training}}
    (variant,) = api.run(scenario, out=None).result.of(StepVariant)
    (row,) = [row for row in variant.bottleneck.changes if row.family == "checkpoint interval"]
    assert row.settings == {
        "workload.training.checkpoint.interval_steps": variant.storage.checkpoint.best_interval_steps
    }
    assert row.cpmt_gain > 0.05
    alone = delivered(from_values(scenario), row.settings)
    assert alone.cpmt.typical == pytest.approx(row.cpmt_usd, rel=1e-12)


def test_where_the_network_costs_nothing_no_other_network_is_tried():
    plain = {**COLLIDING["workload"]["training"], "global_batch": 1024, "parallelism": {"zero": 1}}
    scenario = {
        **COLLIDING,
        "cluster": {**COLLIDING["cluster"], "placement": "packed"},
        "workload": {"training": plain},
    }
    (variant,) = api.run(scenario, out=None).result.of(StepVariant)
    assert variant.tax.tokens_lost < trying.WORTH
    families = {row.family for row in variant.bottleneck.changes}
    assert not families & {"fabric", "queue pairs", "placement", "collectives", "link rate"}
    # A network that costs no time may be cheaper.
    (wider,) = [row for row in variant.bottleneck.changes if row.family == "oversubscription"]
    assert wider.settings == {"cluster.back_end.topology.oversubscription": "2:1"}
    assert wider.capex_change_usd < 0


def test_a_layout_that_was_searched_is_not_written_out_into_another_search(monkeypatch):
    """With `auto`, another fabric keeps the layout."""
    training = {**COLLIDING["workload"]["training"], "parallelism": "auto"}
    scenario = {**COLLIDING, "workload": {"training": training}}
    searches = []
    once = Fastest._searched
    monkeypatch.setattr(Fastest, "_searched", lambda self, found: searches.append(1) or once(self, found))
    monkeypatch.setattr(trying, "WORTH", -1.0)
    (variant,) = api.run(scenario, out=None).result.of(StepVariant)
    assert len(searches) == 1
    assert "layout" not in {row.family for row in variant.bottleneck.changes}


def test_no_step_of_a_run_is_played_twice(monkeypatch):
    played, once = [], FluidEngine.simulate
    monkeypatch.setattr(FluidEngine, "simulate", lambda *what, **how: played.append((what, how)) or once(*what, **how))
    api.run(COLLIDING, out=None)
    steps = {(id(jobs[0].work.rank), id(cluster), how["jitter"], how["faults"]) for (_, jobs, cluster), how in played}
    assert len(steps) == len(played) > 10


def test_every_kind_of_remedy_is_registered():
    assert proposals.names() == [
        "checkpoint interval", "collectives", "fabric", "layout", "link rate", "other layout", "oversubscription",
        "placement", "precision", "queue pairs", "repair", "software"
    ]  # fmt: skip


PARTS = "round trips|NIC rate|leaf|spine|core|torus|long"
LOSSES = {
    "contention in the scale-out network": "contention",
    "waiting for bandwidth of the scale-out network": f"scale-out bandwidth|{PARTS}",
    "waiting for latency of the scale-out network": "scale-out latency",
    "kernels slowed by communication over the scale-out network": "kernels slowed by scale-out communication",
    "waiting for bandwidth of the scale-up network": "scale-up bandwidth",
    "waiting for latency of the scale-up network": "scale-up latency",
    "contention in the scale-up network": "scale-up contention",
    "kernels slowed by communication over the scale-up network": "kernels slowed by scale-up communication",
    "waiting for stragglers": "stragglers",
    "the pipeline's bubble": "pipeline bubble",
    "checkpoints": "checkpoints",
    "waiting for data": "data loading",
    "contention": "^contention$",  # outside of the networks: for a memory pool
}


def agrees(variant):
    """The sentence names the largest loss and its share, the table that or a resource that saves more."""
    losses = [share for cause, share in variant.tax.rest.items() if cause != "compute"]
    for one in (variant.tax, variant.tax.scale_up):
        losses += [*one.exposed.values(), one.slowed_kernels]
    largest = max(losses)
    found = re.search(r"The largest single loss is ([^,]+), ([0-9.]+) % of the step", variant.bottleneck.headline)
    if found is None:
        assert largest < 0.005
        return
    assert float(found.group(2)) == pytest.approx(100 * largest, abs=0.051)
    saved = {row.resource: row.gain for row in variant.bottleneck.ranking}
    if max(saved.values()) >= largest:
        assert saved[variant.bottleneck.name] == max(saved.values())
    else:
        assert re.search(LOSSES[found.group(1)], variant.bottleneck.name), (variant.bottleneck.name, found.group(1))


def drawn(seed):
    draw = random.Random(seed)
    layout = draw.choice([{"zero": 3}, {"tp": 2, "pp": 2}, {"pp": 4}, {"tp": 4}, {"tp": 8, "micro_batch": 2}])
    topology = {"kind": draw.choice(["leaf-spine", "rail-optimized"])}
    if topology["kind"] == "leaf-spine":
        topology |= {"ports_per_leaf": 8, "oversubscription": draw.choice(["1:1", "2:1", "4:1"])}
    fabric = draw.choice(["roce", "infiniband", "uec", "ideal"])
    faults = [{"kind": "slow-accelerator", "rank": 3, "factor": 0.7}] if draw.random() < 0.2 else []
    return {
        **COLLIDING,
        "seed": seed,
        "cluster": {
            "accelerators": 16,
            "server": "hgx-h100",
            "placement": draw.choice(["packed", "scattered"]),
            "back_end": {"topology": topology, "fabric": fabric},
        },
        "workload": {"training": {**COLLIDING["workload"]["training"], "global_batch": 16, "parallelism": layout}},
        "faults": faults,
    }


@pytest.mark.parametrize("seed", drawn_seeds(5, 200))
def test_the_bottleneck_agrees_with_the_breakdown(seed, untried):
    (variant,) = api.run(drawn(seed), out=None).result.of(StepVariant)
    agrees(variant)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_bottleneck_of_every_example_agrees(path):
    for variant in api.run(path, out=None).result.of(StepVariant):
        agrees(variant)


PIPELINED = {
    "name": "pipelined",
    "engine": "analytic",
    "cluster": {
        "accelerators": 64,
        "server": "hgx-h100",
        "back_end": {"topology": {"kind": "leaf-spine", "oversubscription": "4:1", "ports_per_leaf": 16}},
    },
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "global_batch": 128,
            "sequence": 4096,
            "parallelism": {"tp": 4, "pp": 2, "vp": 2, "micro_batch": 1},
        }
    },
}


def test_large_steps_are_tried_in_closed_form_which_agrees_with_the_engine(monkeypatch, untried):
    """What each resource saves, to a hundredth of the step; no bound, where closed forms are far off."""
    simulated = api.run(PIPELINED, out=None)
    monkeypatch.setattr(simulate, "LARGE", 0)
    closed = api.run(PIPELINED, out=None)
    engine, form = (run.result.of(StepVariant)[0].bottleneck for run in (simulated, closed))
    assert (engine.engine, form.engine) == ("analytic", "closed form")
    found = {row.resource: row.gain for row in form.ranking}
    assert found == pytest.approx({row.resource: row.gain for row in engine.ranking}, abs=0.01)
    assert max(found.values()) > 0.1
    assert engine.ranking[0].resource == form.ranking[0].resource
    assert all(row.bound_gain is None for row in form.ranking)
    assert engine.ranking[0].bound_gain is not None


# A cluster under faults as closed forms see it: what is left of each tier, and who dies, by hand.

KNOWN = catalog.load()
RECOVERY = Recovery()
HOUR_PS = 3600 * 10**12
RESTART_S = RECOVERY.diagnosis_s + RECOVERY.init_s


def machine(fabric="roce", topology=None, accelerators=64):
    """Four leafs of 16 ports with 16 uplinks each, four to each of four spines."""
    topology = topology or LeafSpine(ports_per_leaf=16, spines=4)
    return build(ClusterSpec(accelerators, "hgx-h100", NetworkSpec(topology, FabricSpec(fabric))), KNOWN)


def kept(cluster, *faults):
    """What is left of each tier, of NICs, of accelerators."""
    found = closed_faults(cluster, faults, RECOVERY)
    assert found.ended == ""
    links, before = found.cluster.links, cluster.links
    share = links.rate_bps / before.rate_bps
    return {
        **{name: float(share[before.tier == number].min()) for number, name in enumerate(before.tiers) if number},
        "pace": found.cluster.accelerator.flops["bf16"] / cluster.accelerator.flops["bf16"],
    }


@pytest.mark.parametrize(
    ("fabric", "fault", "nic", "spine", "pace"),
    [
        # Hashed: whoever shares the slow cable is as slow as that.
        ("roce", DegradeLink(factor=0.25, cable="leaf 0 - spine 0"), 1.0, 0.25, 1.0),
        # A cable of sixteen uplinks is dead: 15 are left to the leaf, and as many to the spine.
        ("roce", LinkDown(cable="leaf 0 - spine 0"), 1.0, 15 / 16, 1.0),
        # One spine of four.
        ("roce", SwitchDown(switch="spine 0"), 1.0, 0.75, 1.0),
        ("roce", DegradeLink(factor=0.5, cable="server 3 nic 2 - leaf 1"), 0.5, 1.0, 1.0),
        ("uec", SlowAccelerator(rank=5, factor=0.8), 1.0, 1.0, 0.8),
        # What passes is not in every step.
        ("uec", DegradeLink(factor=0.5, tier="nic", for_ps=HOUR_PS), 1.0, 1.0, 1.0),
    ],
)
def test_a_tier_is_as_slow_as_its_slowest_link(fabric, fault, nic, spine, pace):
    found = kept(machine(fabric), fault)
    assert found == {"nic": pytest.approx(nic), "leaf-spine": pytest.approx(spine), "pace": pytest.approx(pace)}


def test_what_is_sprayed_over_a_bundle_loses_what_the_bundle_loses():
    """Of a bundle of 16 cables one at a quarter: between all at a quarter and 15.25 of 16, the fabric says where."""
    found = kept(machine("scheduled"), DegradeLink(factor=0.25, cable="leaf 0 - spine 0"))
    assert 0.25 < found["leaf-spine"] <= 1.0


@pytest.mark.parametrize(
    ("fault", "lost_s"),
    [
        (HostDown(host=1), RECOVERY.process_s + RESTART_S + RECOVERY.repair_s),
        (AcceleratorDown(rank=9, for_ps=2 * HOUR_PS), RECOVERY.process_s + RESTART_S + 7200 - RECOVERY.abort_s - 600),
        (NicDown(host=1, nic=3), RECOVERY.abort_s + RESTART_S + RECOVERY.repair_s),
        (SwitchDown(switch="leaf 0"), RECOVERY.abort_s + RESTART_S + RECOVERY.repair_s),
    ],
)
def test_who_dies_and_what_that_takes(fault, lost_s):
    found = closed_faults(machine(), [fault], RECOVERY)
    assert found.ended.startswith(fault.kind)
    assert found.lost_s == pytest.approx(lost_s)


def test_a_network_that_falls_apart_ends_the_job_unless_its_rails_hold():
    spine = SwitchDown(switch="spine 0")
    assert closed_faults(machine(topology=LeafSpine(ports_per_leaf=16, spines=1)), [spine], RECOVERY).ended
    assert not closed_faults(machine(topology=RailOptimized(spines=1)), [spine], RECOVERY).ended
    assert not closed_faults(machine("ideal", LeafSpine(ports_per_leaf=16, spines=1)), [spine], RECOVERY).ended
    waits = NicDown(host=1, nic=3, for_ps=20 * 10**12)
    assert not closed_faults(machine(), [waits], RECOVERY).ended
