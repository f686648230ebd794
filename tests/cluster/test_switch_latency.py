"""What a switch states of its latency reaches messages: as far as it differs from the fabric's usual switch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from railyard.work.scenario import load
from railyard.work.study import compose, study

US = 10**6


def built(back_end: dict[str, Any], **cluster: Any):
    values = {
        "name": "p",
        "cluster": {
            **{"accelerators": 128, "server": "hgx-h100"},
            "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": 32}, "fabric": "roce", **back_end},
            **cluster,
        },
        "workload": {
            "training": {
                **{"model": "llama-3-8b", "global_batch": 128, "sequence": 2048},
                "parallelism": {"tp": 2, "pp": 1},
            }
        },
    }
    draft = load.from_values(values)
    return draft, compose.cluster_of(draft, compose.catalog_of(draft))


def paths_ps(cluster) -> tuple[int, int]:
    """From the first NIC to its neighbour under the same leaf, and to the last of all."""
    ports = cluster.back_end.port_of_rank[:, 0]
    found = cluster.back_end.path_latency_ps(ports[[0, 0]], ports[[8, -1]])
    return int(np.atleast_1d(found)[0]), int(np.atleast_1d(found)[-1])


USUAL = built({})[1]
HOP = USUAL.fabric.hop_latency_ps


@pytest.mark.parametrize(
    ("back_end", "cluster", "leaf_us", "spine_us"),
    [
        ({"switch": "tomahawk-ultra"}, {}, 0.25 - 1.0, 0.25 - 1.0),
        ({"spine_switch": "arista-7800r4"}, {}, 0.0, 3.0 - 1.0),
        ({}, {"overrides": {"switch": {"latency": "1.6 us"}}}, 0.6, 0.6),
        ({"switch": "tomahawk-5"}, {}, 0.0, 0.0),
        ({"switch": "tomahawk-ultra", "fabric": {"name": "roce", "hop_latency": "2 us"}}, {}, 1.1, 1.1),
    ],
)
def test_a_message_takes_as_much_longer_as_its_switches_do(back_end, cluster, leaf_us, spine_us):
    """Under one leaf a message meets that leaf; over a spine two leafs and the spine."""
    _, machine = built(back_end, **cluster)
    cables = [np.array([run.delay_ps for run in one.plans["back_end"].runs]) for one in (USUAL, machine)]
    more = (cables[1] - cables[0]).tolist()  # other boxes may take other cables
    near, far = (now - before for now, before in zip(paths_ps(machine), paths_ps(USUAL), strict=True))
    assert near == pytest.approx(leaf_us * US + 2 * more[0], abs=1)
    assert far == pytest.approx((2 * leaf_us + spine_us) * US + 2 * more[0] + 2 * more[1], abs=1)


def test_the_fabrics_hop_is_that_of_its_usual_switches():
    plan = USUAL.plans["back_end"]
    assert set(plan.hop_ps.tolist()) == {HOP}
    assert HOP == 900_000


def test_steps_of_flow_have_it():
    """Tensor parallelism across servers: one small message after another."""
    steps = []
    for switch in ("tomahawk-ultra", "tomahawk-5", "arista-7800r4"):
        draft, _ = built({"switch": switch, "spine_switch": switch}, accelerators=32)
        values = {"workload.training.parallelism": {"tp": 16, "pp": 1}, "workload.training.global_batch": 4}
        found = study.run(draft.with_values(values, "test"), searched=False).result.variants[0]
        steps.append(found.step.seconds)
    assert steps[0] < steps[1] < steps[2]
    hops = (steps[2] - steps[1]) / 2.0, (steps[1] - steps[0]) / 0.75
    assert hops[0] == pytest.approx(hops[1], rel=0.05)  # so much a microsecond
