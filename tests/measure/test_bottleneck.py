"""The bottleneck on steps whose dependence on every resource is known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.measure import bottleneck
from railyard.measure.bottleneck import FLOPS, LATENCY, MEMORY, NIC, SCALE_UP, UNLIMITED, Bottleneck, Resource, Trial
from railyard.result.bottleneck import ChangeRow
from railyard.result.step import TimeShare

SPINE = Resource("leaf-spine", "network", tiers=("leaf-spine",))


def amdahl(parts, fixed):
    """A step of parts that shrink with a resource, and one that does not; the whole network shrinks its own parts."""
    asked = []

    def simulate(resource, factor):
        asked.append((resource.name, factor))
        better = {resource.name} | (
            {NIC.name, SPINE.name, LATENCY.name} if resource.name == "the whole network" else set()
        )
        return fixed + sum(seconds / (factor if name in better else 1) for name, seconds in parts.items())

    return simulate, asked


def test_the_largest_part_is_the_bottleneck_and_the_gain_is_exact():
    parts = {FLOPS.name: 2.0, SPINE.name: 5.0, LATENCY.name: 1.0}
    simulate, _ = amdahl(parts, fixed=2.0)
    found = bottleneck.find(10.0, [FLOPS, MEMORY, SPINE, LATENCY], simulate)
    assert found.name == "leaf-spine"
    assert [trial.resource.name for trial in found.ranking] == [SPINE.name, FLOPS.name, LATENCY.name, MEMORY.name]
    assert found.ranking[0].gain == pytest.approx(5.0 * (1 - 1 / 1.25) / 10)
    assert found.ranking[0].bound_gain == pytest.approx(0.5, abs=1e-5)
    assert found.network_gain == pytest.approx(0.6, abs=1e-5)
    assert found.sensitivity == "1.25 x leaf-spine shortens the step by 10.0%, without limit by 50.0%."


def test_it_is_said_when_nothing_in_the_network_helps():
    simulate, _ = amdahl({FLOPS.name: 9.99, NIC.name: 0.01}, fixed=0.0)
    found = bottleneck.find(10.0, [FLOPS, NIC, LATENCY], simulate)
    assert found.name == FLOPS.name
    assert found.sensitivity.endswith("Nothing in the network helps, even all of it without limit.")


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
    assert asked == [(FLOPS.name, 1.25), (NIC.name, 1.25), (FLOPS.name, UNLIMITED), ("the whole network", UNLIMITED)]


def test_scaling_arguments_are_those_of_the_cluster():
    """Every resource can be given to a real cluster, whose rates and latencies then change by the factor."""
    machine = cluster.build(cluster.ClusterSpec(accelerators=64, server="hgx-h100"), catalog.load())
    assert NIC.scaled(machine, 1.25).nic.rate_bps == pytest.approx(1.25 * machine.nic.rate_bps)
    assert FLOPS.scaled(machine, 2.0).accelerator.flops["bf16"] == 2 * machine.accelerator.flops["bf16"]
    scale_up = SCALE_UP.scaled(machine, 1.5).scale_up.rate_bps
    assert scale_up == pytest.approx(1.5 * machine.scale_up.rate_bps)
    sooner = LATENCY.scaled(machine, 2.0)
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
    assert names(["scale-up"]) == [FLOPS.name, MEMORY.name, SCALE_UP.name, LATENCY.name]
    assert NIC.name in names(["nic"])


def share(cause, value):
    return TimeShare(cause=cause, group="", phase="", seconds=value, share=value)


def test_the_sentence_names_the_largest_cause_of_the_breakdown():
    """Contention takes 12.0 + 16.8 = 28.8 % in two communicators; latency, which shortens most, 3.2 %."""
    plain = Bottleneck("network latency", "1.25 x network latency shortens the step by 3.2%.")
    found = plain.led_by(
        [share("compute", 0.6), share("contention", 0.12), share("contention", 0.168), share("latency", 0.112)]
    )
    assert found.headline == "The largest wait is contention in the network, 28.8% of the step."
    assert found.section().headline == found.headline
    assert found.section().sensitivity == "1.25 x network latency shortens the step by 3.2%."


def test_without_waits_the_sentence_stays():
    plain = Bottleneck("none", "Nothing helps.")
    assert plain.led_by([share("compute", 0.996), share("latency", 0.004)]) == plain
    assert plain.led_by([share("compute", 1.0)]) == plain


def trial(resource, gain):
    return Trial(resource, 1.25, 10 * (1 - gain), gain)


def test_a_wait_longer_than_what_any_resource_saves_is_the_bottleneck():
    """28.8 % of contention is not network latency, though a quarter less of that saves most, 3.2 %."""
    ranking = (trial(LATENCY, 0.032), trial(SPINE, 0.02), trial(NIC, 0.01), trial(FLOPS, -0.01))
    plain = Bottleneck("network latency", "", ranking)
    rest = [share("compute", 0.6), share("bandwidth", 0.112)]
    assert plain.led_by([*rest, share("contention", 0.288)]).name == "contention at leaf-spine"
    assert plain.led_by([*rest, share("straggler", 0.288)]).name == "stragglers"
    assert plain.led_by([*rest, share("bubble", 0.288)]).name == "pipeline bubble"
    assert plain.led_by([*rest, share("latency", 0.288)]).name == "network latency"
    assert plain.led_by([share("compute", 0.888), share("bandwidth", 0.112)]).name == "bandwidth over round trips"
    near = dataclasses.replace(plain, ranking=ranking[1:])
    assert near.led_by([share("compute", 0.888), share("bandwidth", 0.112)]).name == "leaf-spine"
    without = dataclasses.replace(plain, ranking=ranking[:1])
    assert without.led_by([*rest, share("contention", 0.288)]).name == "contention"
    assert dataclasses.replace(plain, ranking=()).led_by([share("bandwidth", 0.112)]).name == "network bandwidth"


def test_a_wait_shorter_than_what_a_resource_saves_is_not():
    plain = Bottleneck(FLOPS.name, "", (trial(FLOPS, 0.13), trial(SPINE, 0.02)))
    assert plain.led_by([share("compute", 0.872), share("contention", 0.128)]).name == FLOPS.name
    assert plain.led_by([share("compute", 0.868), share("contention", 0.132)]).name == "contention at leaf-spine"


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
        changed("FP8 products", "precision", 0.50, assumes="the loss converges"),
        changed("4 queue pairs", "queue pairs", 0.16), changed("placement packed", "placement", 0.074),
        changed("fabric ideal", "fabric", 0.31, bound=True),
    )  # fmt: skip
    found = Bottleneck("none", "Rest.", changes=rows).led_by([share("compute", 1.0)])
    assert found.headline == (
        "What you can change, each by itself: fabric uec lowers the cost of a token by 30.0%"
        " (step 30.0% shorter, $1.25M less capital); 4 queue pairs by 16.0%;"
        " FP8 products lowers it by 50.0% if the loss converges."
    )
    assert found.section().changes == rows
    none = Bottleneck("none", "Rest.", changes=(changed("fabric uec", "fabric", 0.004),)).led_by([])
    assert none.headline == "Nothing that you can change was found to lower the cost of a token by more than 0.5%."
