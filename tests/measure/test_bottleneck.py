"""The bottleneck on steps whose dependence on every resource is known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.measure import bottleneck
from railyard.measure.bottleneck import (
    FLOPS,
    LATENCY,
    MEMORY,
    NIC,
    SCALE_UP,
    SCALE_UP_LATENCY,
    UNLIMITED,
    Bottleneck,
    Resource,
    Trial,
)
from railyard.measure.result.step import EXPOSED, ChangeRow, TaxFigures

SPINE = Resource("leaf-spine", "network", tiers=("leaf-spine",))


def amdahl(parts, fixed):
    """A step of parts that shrink with a resource, and one that does not."""
    asked = []

    def simulate(resource, factor):
        asked.append((resource.name, factor))
        return fixed + sum(seconds / (factor if name == resource.name else 1) for name, seconds in parts.items())

    return simulate, asked


def test_the_largest_part_is_the_bottleneck_and_the_gain_is_exact():
    parts = {FLOPS.name: 2.0, SPINE.name: 5.0, LATENCY.name: 1.0}
    simulate, _ = amdahl(parts, fixed=2.0)
    found = bottleneck.find(10.0, [FLOPS, MEMORY, SPINE, LATENCY], simulate)
    assert found.name == "leaf-spine"
    assert [trial.resource.name for trial in found.ranking] == [SPINE.name, FLOPS.name, LATENCY.name, MEMORY.name]
    assert found.ranking[0].gain == pytest.approx(5.0 * (1 - 1 / 1.25) / 10)
    assert found.ranking[0].bound_gain == pytest.approx(0.5, abs=1e-5)
    assert found.sensitivity == "1.25 x leaf-spine shortens the step by 10.0 %, without limit by 50.0 %."


def test_the_part_of_the_networks_that_helps_most_is_named():
    simulate, _ = amdahl({FLOPS.name: 9.0, NIC.name: 0.6, LATENCY.name: 0.4}, fixed=0.0)
    found = bottleneck.find(10.0, [FLOPS, LATENCY, NIC], simulate)
    assert found.name == FLOPS.name
    assert found.sensitivity.endswith("without limit by 90.0 %. Of the networks, NIC rate helps most (1.2 %).")
    simulate, _ = amdahl({FLOPS.name: 9.99, NIC.name: 0.01}, fixed=0.0)
    assert "networks" not in bottleneck.find(10.0, [FLOPS, NIC], simulate).sensitivity


def test_it_is_said_when_nothing_at_all_helps():
    simulate, _ = amdahl({}, fixed=10.0)
    found = bottleneck.find(10.0, [FLOPS, NIC], simulate)
    assert found.name == "none"
    assert "No single resource" in found.sensitivity


def test_only_what_is_needed_is_simulated():
    simulate, asked = amdahl({FLOPS.name: 5.0}, fixed=5.0)
    bottleneck.find(10.0, [FLOPS, NIC], simulate, bounds="none")
    assert asked == [(FLOPS.name, 1.25), (NIC.name, 1.25)]
    asked.clear()
    bottleneck.find(10.0, [FLOPS, NIC], simulate)
    assert asked == [(FLOPS.name, 1.25), (NIC.name, 1.25), (FLOPS.name, UNLIMITED)]


def test_scaling_arguments_are_those_of_the_cluster():
    """Every resource can be given to a real cluster, whose rates and latencies then change by the factor."""
    machine = cluster.build(cluster.ClusterSpec(accelerators=64, server="hgx-h100"), catalog.load())
    assert NIC.scaled(machine, 1.25).nic.rate_bps == pytest.approx(1.25 * machine.nic.rate_bps)
    assert FLOPS.scaled(machine, 2.0).accelerator.flops["bf16"] == 2 * machine.accelerator.flops["bf16"]
    scale_up = SCALE_UP.scaled(machine, 1.5).scale_up.rate_bps
    assert scale_up == pytest.approx(1.5 * machine.scale_up.rate_bps)
    sooner = LATENCY.scaled(machine, 2.0)
    assert sooner.fabric.nic_latency_ps == pytest.approx(machine.fabric.nic_latency_ps / 2, abs=1)
    assert sooner.scale_up.latency_ps == machine.scale_up.latency_ps
    sooner = SCALE_UP_LATENCY.scaled(machine, 2.0)
    assert sooner.fabric.nic_latency_ps == pytest.approx(machine.fabric.nic_latency_ps, abs=1)
    assert sooner.scale_up.latency_ps == pytest.approx(machine.scale_up.latency_ps / 2, abs=1)


def test_resources_that_the_job_does_not_use_are_left_out(yard):
    machine = cluster.build(cluster.ClusterSpec(accelerators=64, server="hgx-h100"), catalog.load())
    job = yard(64)
    job.compute(0, 1000)
    line = job.play()

    def names(used_tiers):
        carried = np.isin(machine.links.tier, [machine.links.tiers.index(tier) for tier in used_tiers]).astype(float)
        ran = dataclasses.replace(line, tables={"links": {"bytes": carried}})
        return [resource.name for resource in bottleneck.resources(machine, ran)]

    assert names([]) == [FLOPS.name, MEMORY.name]
    assert names(["scale-up"]) == [FLOPS.name, MEMORY.name, SCALE_UP.name, SCALE_UP_LATENCY.name]
    assert names(["nic"]) == [FLOPS.name, MEMORY.name, NIC.name, LATENCY.name]


def taxed(lost=None, inside=None, rest=None):
    """Shares of a step by cause: lost to the scale-out network, to scale-up, and neither."""
    lost, inside, rest = ({**given} if given else {} for given in (lost, inside, rest))
    rest["compute"] = 1 - sum(lost.values()) - sum(inside.values()) - sum(rest.values())
    more = {"step_without_scale_out_s": 1.0, "step_without_networks_s": 1.0, "engine": "flow"}
    return TaxFigures(**shares(lost), scale_up=shares(inside), rest=rest, **more)


def shares(lost):
    exposed = {cause: lost.get(cause, 0.0) for cause in EXPOSED}
    return {"tokens_lost": sum(lost.values()), "exposed": exposed, "slowed_kernels": lost.get("compute", 0.0)}


@pytest.mark.parametrize(
    ("tax", "words"),
    [
        (taxed({"contention": 0.288, "latency": 0.112}), "contention in the scale-out network"),
        (taxed({"latency": 0.1}, {"latency": 0.288}), "waiting for latency of the scale-up network"),
        (taxed({"compute": 0.288}), "kernels slowed by communication over the scale-out network"),
        (taxed({"compute": 0.1}, {}, {"bubble": 0.288}), "the pipeline's bubble"),
    ],
)
def test_the_sentence_names_the_largest_loss_and_its_network(tax, words):
    plain = Bottleneck("scale-out latency", "1.25 x scale-out latency shortens the step by 3.2 %.")
    found = plain.led_by(tax)
    assert found.headline == f"The largest single loss is {words}, 28.8 % of the step."
    assert found.section().headline == found.headline
    assert found.section().sensitivity == "1.25 x scale-out latency shortens the step by 3.2 %."


def test_without_losses_the_sentence_stays():
    plain = Bottleneck("none", "Nothing helps.")
    assert plain.led_by(taxed({"latency": 0.004})) == plain
    assert plain.led_by(taxed()) == plain


def trial(resource, gain):
    return Trial(resource, 1.25, 10 * (1 - gain), gain)


def test_a_loss_larger_than_what_any_resource_saves_is_the_bottleneck():
    """28.8 % of contention is not scale-out latency, though a quarter less of that saves most, 3.2 %."""
    ranking = (trial(LATENCY, 0.032), trial(SPINE, 0.02), trial(NIC, 0.01), trial(FLOPS, -0.01))
    plain = Bottleneck("scale-out latency", "", ranking)

    def named(tax, found=plain):
        return found.led_by(tax).name

    assert named(taxed({"bandwidth": 0.112, "contention": 0.288})) == "contention at leaf-spine"
    assert named(taxed({"bandwidth": 0.112}, {}, {"straggler": 0.288})) == "stragglers"
    assert named(taxed({"bandwidth": 0.112}, {}, {"bubble": 0.288})) == "pipeline bubble"
    assert named(taxed({"bandwidth": 0.112}, {"bandwidth": 0.288})) == "scale-up bandwidth"
    assert named(taxed({"compute": 0.288})) == "kernels slowed by scale-out communication"
    assert named(taxed({"bandwidth": 0.112})) == "bandwidth over round trips"
    assert named(taxed({"bandwidth": 0.112}), dataclasses.replace(plain, ranking=ranking[1:])) == "leaf-spine"
    assert (
        named(taxed({"contention": 0.288}), dataclasses.replace(plain, ranking=ranking[:1])) == "scale-out contention"
    )
    assert named(taxed({"bandwidth": 0.112}), dataclasses.replace(plain, ranking=())) == "scale-out bandwidth"


def test_a_loss_smaller_than_what_a_resource_saves_is_not():
    plain = Bottleneck(FLOPS.name, "", (trial(FLOPS, 0.13), trial(SPINE, 0.02)))
    assert plain.led_by(taxed({"contention": 0.128})).name == FLOPS.name
    assert plain.led_by(taxed({"contention": 0.132})).name == "contention at leaf-spine"


def changed(name, family, gain, *, bound=False, capex=0.0, assumes=""):
    return ChangeRow(
        name=name,
        family=family,
        settings={},
        assumes=assumes,
        step_seconds=1 - gain,
        gain=gain,
        cpmt_usd=None if bound else 1 - gain,
        cpmt_gain=None if bound else gain,
        capex_change_usd=None if bound else capex,
        bound=bound,
    )


def test_the_sentence_names_the_best_remedy_of_each_family():
    """A bound is no remedy, a quarter of the best is the least that is named, and what assumes something comes last."""
    rows = (
        changed("fabric uec", "fabric", 0.30, capex=-1_250_000.0), changed("fabric scheduled", "fabric", 0.29),
        changed("FP8 precision", "precision", 0.50, assumes="the loss converges"),
        changed("4 queue pairs", "queue pairs", 0.16), changed("placement packed", "placement", 0.074),
        changed("fabric ideal", "fabric", 0.31, bound=True),
    )  # fmt: skip
    found = Bottleneck("none", "Rest.", changes=rows).led_by(taxed())
    assert found.headline == (
        "Changes, tried one at a time: fabric uec lowers the cost of a token by 30.0 %"
        " (step 30.0 % shorter, $1.25M less capital); 4 queue pairs by 16.0 %;"
        " FP8 precision by 50.0 %, if the loss converges."
    )
    assert found.section().changes == rows
    none = Bottleneck("none", "Rest.", changes=(changed("fabric uec", "fabric", 0.004),)).led_by(taxed())
    assert none.headline == "No change that was tried lowers the cost of a token by more than 0.5 %."
