"""The tree of a step adds up, for every example, every engine, and random small jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard.graph import Job
from railyard.work.scenario import load
from railyard.work.study.study import prepare
from railyard.work.training.explain_leaf import TimeNode, TimeTree, shared_out
from railyard.work.training.explain_tree import COMMUNICATION, COMPUTATION, HOST, OPTIMIZER, SPREAD, tree_of
from railyard.work.training.graphs import Graphs

EXAMPLES = Path(__file__).parents[2] / "examples"


def explained(values: dict[str, object] | Path, *, engine: str | None = None, changes: dict[str, object] | None = None):
    draft = load.load(values) if isinstance(values, Path) else load.from_values(values)
    if changes:
        draft = load.from_values(draft.scenario, changes)
    job = prepare(draft, engine=engine)[0]
    graph = Graphs().of(job.training, job.cluster)
    timeline = job.engine.simulate([Job(graph)], job.cluster, policy=job.policy, faults=job.faults, jitter=job.jitter)
    return job, timeline, tree_of(timeline, job.cluster, job.training, job.policy)


def small(**parallelism: object) -> dict[str, object]:
    return {
        "name": "small",
        "cluster": {
            "accelerators": 16,
            "server": "hgx-h100",
            "back_end": {"topology": "rail-optimized", "fabric": "roce"},
        },
        "workload": {
            "training": {"model": "llama-3.2-1b", "global_batch": 32, "sequence": 2048, "parallelism": parallelism}
        },
    }


@pytest.mark.parametrize("name", ["first", "straggler", "lockstep", "oversubscription"])
@pytest.mark.parametrize("engine", ["flow", "analytic"])
def test_examples_add_up(name: str, engine: str) -> None:
    _, timeline, tree = explained(EXAMPLES / f"{name}.yaml", engine=engine)
    tree.check()
    assert tree.step_ps == timeline.makespan_ps
    assert sum(leaf.amount_ps for leaf in tree.root.leaves()) == timeline.makespan_ps * tree.ranks
    assert sum(row["share"] for row in tree.rows() if row["leaf"]) == pytest.approx(1)


def test_the_packet_engine_adds_up() -> None:
    values = small(tp=8, micro_batch=1)
    values["cluster"]["accelerators"] = 16  # type: ignore[index]
    values["workload"]["training"]["global_batch"] = 2  # type: ignore[index]
    values["workload"]["training"]["sequence"] = 512  # type: ignore[index]
    _, timeline, tree = explained(values, engine="packet")
    assert tree.root.amount_ps == timeline.makespan_ps * 16


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    tp=st.sampled_from([1, 2, 4]),
    pp=st.sampled_from([1, 2, 4]),
    zero=st.sampled_from([0, 1, 3]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    vp=st.sampled_from([1, 2]),
    fabric=st.sampled_from(["roce", "ideal", "uec"]),
    sigma=st.sampled_from([0.0, 0.02]),
    precision=st.sampled_from(["bf16", "fp8"]),
)
def test_random_jobs_add_up(
    *, tp: int, pp: int, zero: int, recompute: str, vp: int, fabric: str, sigma: float, precision: str
) -> None:
    values = small(
        tp=tp, pp=pp, vp=vp if pp > 1 else 1, zero=zero if pp == 1 else min(zero, 1), recompute=recompute, micro_batch=1
    )
    values["cluster"]["back_end"]["fabric"] = fabric  # type: ignore[index]
    values["workload"]["training"]["precision"] = precision  # type: ignore[index]
    values["jitter"] = {"sigma": sigma}
    job, timeline, tree = explained(values)
    tree.check()
    assert tree.root.amount_ps == timeline.makespan_ps * 16
    assert (tree.find(SPREAD) is not None) == (sigma > 0)
    # What the operators take is what the graph planned: nothing is left for the host of so large kernels.
    host = tree.find(HOST)
    assert host is None or tree.share(host) < 0.2
    compute = tree.find(COMPUTATION)
    assert compute is not None
    phases = {path[4] for path, node in tree.root.walk() if len(path) > 4 and path[1] == COMPUTATION}
    assert ("recompute" in phases) == (job.training.layout.recompute != "none")
    assert all(leaf.by is not None for leaf in tree.root.leaves())


def test_operators_are_the_durations_of_the_graph() -> None:
    """Without a host in the way the operators' own times are the computation, to a part in a million."""
    _, _, tree = explained(small(tp=2, pp=2, recompute="full"))
    compute, host = tree.find(COMPUTATION), tree.find(HOST)
    assert compute is not None
    assert host is None or host.amount_ps < 1e-6 * compute.amount_ps


def test_a_slow_host_is_named() -> None:
    values = small(tp=1, pp=1)
    values["workload"]["training"]["software"] = {"launch": "200 us"}  # type: ignore[index]
    _, _, tree = explained(values)
    host = tree.find(HOST)
    assert host is not None
    assert tree.share(host) > 0.1
    (law,) = {leaf.by for leaf in host.children}
    assert law is not None
    assert "launch_ps" in [constant.name for constant in law.constants]


def test_communication_says_group_collective_cause_and_tier() -> None:
    _, _, tree = explained(small(tp=2, pp=2, micro_batch=1))
    found = tree.find(COMMUNICATION, "tensor parallel (tp)")
    assert found is not None
    paths = [path for path, node in tree.root.walk() if not node.children and path[1] == COMMUNICATION]
    assert {path[4] for path in paths} <= {"bandwidth", "latency", "contention"}
    assert all(path[5] for path in paths)


def test_experts_and_the_optimizer_have_their_branches() -> None:
    values = small(ep=8, zero=1, recompute="full")
    values["workload"]["training"]["model"] = "mixtral-8x7b"  # type: ignore[index]
    values["cluster"]["accelerators"] = 64  # type: ignore[index]
    values["workload"]["training"]["global_batch"] = 64  # type: ignore[index]
    _, _, tree = explained(values)
    assert tree.find(COMPUTATION, "experts", "grouped GEMM") is not None
    assert tree.find(COMMUNICATION, "expert parallel (ep)") is not None
    assert tree.find(OPTIMIZER) is not None


@given(
    amount=st.integers(-(10**18), 10**18),
    weights=st.lists(st.floats(0, 1e9, allow_nan=False), min_size=1, max_size=20),
)
def test_shared_out_adds_up(amount: int, weights: list[float]) -> None:
    assert sum(shared_out(amount, weights)) == amount


@pytest.mark.parametrize(
    ("amount", "weights", "parts"),
    [
        # 10 of 3 : 4 : 4 is 2.73, 3.64, 3.64: the remainder of 2 goes where most was cut off.
        (10, [3.0, 4.0, 4.0], [3, 4, 3]),
        (-10, [3.0, 4.0, 4.0], [-3, -4, -3]),
        (7, [0.0, 0.0], [7, 0]),
        (7, [1.0, 0.0, 1.0], [4, 0, 3]),
    ],
)
def test_shared_out_by_the_largest_remainder(amount: int, weights: list[float], parts: list[int]) -> None:
    assert shared_out(amount, weights) == parts


def test_a_tree_that_does_not_add_up_is_refused() -> None:
    from railyard.kit.errors import RailyardError

    wrong = TimeTree("", 10, 2, TimeNode("step", 20, children=(TimeNode("a", 9), TimeNode("b", 12))))
    with pytest.raises(RailyardError, match="not the sum"):
        wrong.check()
    with pytest.raises(RailyardError, match="holds"):
        TimeTree("", 10, 2, TimeNode("step", 19)).check()
