"""Plans send what the patterns say, wait for nothing that waits for them, and hand on only what has come."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.collective import ALGORITHMS, Pattern, Shape
from railyard.engine.packet.plan import GATE
from railyard.engine.packet.plans import Grain, plan
from railyard.engine.packet.records import AT_RECEIVER
from railyard.graph import CollectiveKind
from railyard.work.scenario import load
from railyard.work.study.study import run as execute

SHAPES = (Shape.grid(4, 8), Shape.grid(1, 8), Shape.grid(8, 1), Shape.grid(3, 4))


def cases():
    for name, algorithm in ALGORITHMS.items():
        for kind in algorithm.kinds:
            for shape in SHAPES:
                if able(name, kind, shape):
                    yield name, kind, shape


def able(name, kind, shape):
    if name == "torus" or (name == "pat" and shape.per_domain > 1):
        return False
    if name in {"hierarchical", "hierarchical-all-to-all", "collnet-direct", "collnet-chain"}:
        return shape.domains > 1 and shape.per_domain > 1
    if name in {"nvls", "nvls-sharp", "nvls-tree"}:
        return shape.per_domain > 2 and (name == "nvls" or shape.domains > 1)
    power = shape.ranks & (shape.ranks - 1) == 0
    return name != "halving-doubling" or kind == CollectiveKind.ALL_REDUCE or power


@pytest.mark.parametrize("grain", [Grain(), Grain(4.0, 3)], ids=["fine", "coarse"])
@pytest.mark.parametrize(("name", "kind", "shape"), tuple(cases()))
def test_bytes_over_every_edge_are_those_of_the_pattern(name, kind, shape, grain):
    own = plan(name, kind, shape, grain)
    sends = own.steps > 0
    found = Pattern.of([(own.source[sends], own.target[sends], own.share[sends])])
    wanted = ALGORITHMS.get(name).pattern(kind, shape)
    if grain.merge > 1 and kind == CollectiveKind.ALL_TO_ALL:  # some peers stand for others
        assert found.loads(shape.ranks) == pytest.approx(wanted.loads(shape.ranks), rel=0.2)
        return
    assert (found.source == wanted.source).all()
    assert (found.target == wanted.target).all()
    assert found.share == pytest.approx(wanted.share)


def levels(own):
    """The longest way to each send, in sends; raises where waits go round in a circle."""
    waits = np.bincount(own.edges.after, minlength=len(own))
    level = np.zeros(len(own), int)
    after = [[] for _ in range(len(own))]
    for row, before in zip(own.edges.after.tolist(), own.edges.before.tolist(), strict=True):
        if before == GATE:
            waits[row] -= 1
        else:
            after[before].append(row)
    ready = np.flatnonzero(waits == 0).tolist()
    seen = 0
    while ready:
        row = ready.pop()
        seen += 1
        for later in after[row]:
            level[later] = max(level[later], level[row] + (own.steps[later] > 0))
            waits[later] -= 1
            if waits[later] == 0:
                ready.append(later)
    assert seen == len(own)
    return level


@pytest.mark.parametrize(("name", "kind", "shape"), tuple(cases()))
def test_no_send_waits_for_itself(name, kind, shape):
    levels(plan(name, kind, shape, Grain(2.0, 2)))


def test_a_ring_takes_a_step_for_every_rank():
    ring = plan("ring", CollectiveKind.ALL_REDUCE, Shape.grid(8, 1), Grain())
    assert levels(ring).max() == 2 * 7 - 1
    assert len(ring) == 2 * 7 * 8


def test_merged_steps_are_all_counted():
    ring = plan("ring", CollectiveKind.ALL_REDUCE, Shape.grid(8, 1), Grain(merge=4.0))
    edge = (ring.source == 0) & (ring.target == 1)
    assert ring.steps[edge].sum() == 14
    assert edge.sum() == 4


@pytest.mark.parametrize("name", ["ring", "tree", "halving-doubling", "hierarchical", "direct"])
def test_after_an_all_reduce_every_rank_depends_on_every_other(name):
    """Follows what each rank has seen through the waits: all of it must be there in the end."""
    shape = Shape.grid(4, 4)
    own = plan(name, CollectiveKind.ALL_REDUCE, shape, Grain())
    known = [{rank} for rank in range(shape.ranks)]
    carried: dict[int, set[int]] = {}
    order = np.argsort(levels(own), kind="stable")
    for row in order.tolist():
        source, target = int(own.source[row]), int(own.target[row])
        deps = own.edges.before[own.edges.after == row]
        at = own.edges.at[own.edges.after == row]
        brought = {source}.union(*(carried[dep] for dep, when in zip(deps, at, strict=True) if dep >= 0 and when))
        carried[row] = brought
        known[target] |= brought
    assert all(seen == set(range(shape.ranks)) for seen in known)
    assert (own.edges.at[own.edges.before == GATE] == AT_RECEIVER).all()


# Scenarios on the packet engine: what the result holds, and what is refused.

SMALL = {
    "name": "small",
    "cluster": {
        "accelerators": 16,
        "server": "hgx-h100",
        "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": 8}, "fabric": "uec"},
    },
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "global_batch": 16,
            "sequence": 1024,
            "parallelism": {"tp": 8, "zero": 0, "micro_batch": 1},
        }
    },
    "packet": {"budget_hops": "300 k"},
}


def executed(engine="packet", **changes):
    return execute(load.from_values(SMALL, changes), engine=engine, searched=False).result.plain()


def test_the_result_holds_flows_tails_and_queues():
    result = executed()
    packet = result["variants"][0]["packet"]
    assert result["provenance"]["engine"] == "packet"
    assert packet["flows_finished"] == packet["flows_total"] > 0
    assert packet["fct_us"]["min"] <= packet["fct_us"]["p99"] <= packet["fct_us"]["max"]
    assert [row["group"] for row in packet["tails"]][:1] == ["all"]
    assert len(packet["queues"]["rows"]) > 0
    assert any("slice" in said for said in packet["left_out"])
    rows = packet["queues"]["rows"]
    assert all(len(row["depth_bytes"]) == len(packet["queues"]["time_us"]) for row in rows)


def test_step_time_is_that_of_the_flow_engine_where_nothing_collides():
    packet, flow = (executed(name, **{"cluster.back_end.fabric": "ideal"}) for name in ("packet", "flow"))
    seconds = [result["variants"][0]["step"]["seconds"] for result in (packet, flow)]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.01)


def test_settings_reach_the_engine():
    plain, small = executed(), executed(**{"packet.set": {"window_packets": "8"}})
    assert small["provenance"]["digest"] != plain["provenance"]["digest"]


def test_queue_pairs_of_a_hashed_fabric_run_encrypted_or_not():
    roce = {"cluster.back_end.fabric": {"name": "roce", "qps": 3}}
    clear, hidden = (executed(**roce, **{"cluster.back_end.encryption": name}) for name in ("none", "psp"))
    seconds = [found["variants"][0]["step"]["seconds"] for found in (clear, hidden)]
    assert seconds[1] > seconds[0]
