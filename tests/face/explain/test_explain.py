"""The tree of a step adds up, for every example, every engine, and random small jobs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import railyard
from railyard import catalog, cluster
from railyard.face.cli import guard
from railyard.graph import Job
from railyard.work.scenario import load
from railyard.work.study.presentation import WIDTH
from railyard.work.study.study import prepare
from railyard.work.training import Layout, Training
from railyard.work.training.explain_leaf import Laws, TimeNode, TimeTree, shared_out
from railyard.work.training.explain_tree import COMMUNICATION, COMPUTATION, HOST, OPTIMIZER, SPREAD, tree_of
from railyard.work.training.explain_work import CAST, CORE, GAP, GEMM, GROUPED, PASS, TracedWork
from railyard.work.training.graphs import Graphs
from railyard.work.training.spec import SoftwareProfile

EXAMPLES = Path(__file__).parents[3] / "examples"


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


# `railyard explain` and `railyard.explain`: kept runs, remedies, JSON, and what is said of bad input.

SCENARIO: dict[str, Any] = {
    "name": "explained",
    "cluster": {
        "accelerators": 32,
        "server": "hgx-h100",
        "back_end": {"topology": "rail-optimized", "fabric": "roce"},
        "storage": {"name": "nvme-file-server", "servers": 2, "network": "back_end"},
    },
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "tokens": "1 T",
            "global_batch": 64,
            "sequence": 4096,
            "parallelism": {"tp": 2, "pp": 2, "zero": 1, "micro_batch": 1, "recompute": "full"},
            "checkpoint": {"interval_steps": 100},
            "software": {"profile": "megatron-2024", "launch": "300 us"},
        }
    },
    "compare": {"vary": {"fabric": ["roce", "infiniband"]}},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = railyard.run(SCENARIO, out=tmp_path_factory.mktemp("runs")).folder
    assert folder is not None
    return folder


@pytest.fixture(scope="module")
def found(run: Path) -> Any:
    """With every remedy tried."""
    return railyard.explain(run)


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = guard.run(["explain", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_every_remedy_is_simulated_and_ranked(found: Any) -> None:
    names = [tried.name for tried in found.remedies]
    assert {"CUDA graphs", "FP8 precision", "no recomputation", "selective recomputation", "micro-batch 2"} <= set(
        names
    )
    assert {"tensor-parallel overlap", "2 virtual stages"} <= set(names)
    assert "zero-bubble schedule" not in names  # Megatron's main line does not have it
    gains = [tried.gain for tried in found.remedies if tried.gain is not None]
    assert gains == sorted(gains, reverse=True)
    for tried in found.remedies:
        assert (tried.step_s is None) == bool(tried.reason)
        assert tried.family != "hardware"
    assert "1.25 x accelerator FLOPS" in {tried.name for tried in found.sensitivity}
    assert all(tried.cpmt_usd is None for tried in found.sensitivity)
    base = found.tree.step_ps * 1e-12
    graphs = next(tried for tried in found.remedies if tried.name == "CUDA graphs")
    assert graphs.step_s is not None
    assert graphs.gain == pytest.approx(1 - graphs.step_s / base)
    assert graphs.gain > 0.05


def test_a_remedy_gives_what_a_run_with_it_gives(found: Any) -> None:
    tried = next(tried for tried in found.remedies if tried.name == "no recomputation")
    changed = {"workload.training.parallelism.recompute": "none", "compare": {}}
    (plain,) = railyard.run(SCENARIO, overrides=changed, out=None).result.plain()["variants"]
    assert tried.step_s == pytest.approx(plain["step"]["seconds"], rel=1e-6)
    assert tried.cpmt_usd == pytest.approx(plain["cpmt"]["typical"], rel=1e-9)
    # A remedy that changes nothing costs what the run costs, stalls of checkpoints and all.
    idle = [one for one in found.remedies if one.gain is not None and abs(one.gain) < 1e-9]
    assert all(one.step_s == pytest.approx(found.tree.step_ps * 1e-12, rel=1e-9) for one in idle)


def test_a_constant_is_charged_to_the_profile_that_gave_it(found: Any) -> None:
    told = [one for leaf in found.tree.root.leaves() if leaf.by for one in leaf.by.constants]
    sources = {one.name: one.source for one in told}
    assert sources["gemm_fraction"] == "fitted on published runs of all software"
    assert sources["launch_ps"] == "the job, on profile megatron-2024"


def test_the_tree_is_the_step_of_the_result(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    for number, name in enumerate(["roce", "infiniband"]):
        found = railyard.explain(run, variant=name, remedies=False)
        found.tree.check()
        assert found.tree.step_ps * 1e-12 == pytest.approx(result["variants"][number]["step"]["seconds"], rel=1e-12)
    assert not found.remedies
    frame = found.to_frame()
    assert frame.filter(frame["leaf"])["amount_ps"].sum() == found.tree.root.amount_ps


def test_json_and_terminal(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, str(run), "--json", "--no-remedies")
    assert code == 0
    content = json.loads(out)
    assert content["format"] == "railyard/explain-1"
    assert set(content) == {
        "format", "name", "run", "engine", "variants", "variant", "step_s", "step_ps", "ranks", "tree", "notes",
        "tax", "cpmt_usd", "remedies", "sensitivity",
    }  # fmt: skip
    _adds_up(content["tree"])
    assert content["tree"]["amount_ps"] == content["step_ps"] * content["ranks"]
    code, out, _ = called(capsys, str(run), "--variant", "infiniband", "--depth", "9")
    assert code == 0
    assert "CUDA graphs" in out
    assert "waiting for the host" in out
    assert [line for line in out.splitlines() if len(line) > WIDTH] == []


def _adds_up(node: dict[str, Any]) -> None:
    assert set(node) == {"name", "amount_ps", "seconds", "share", "count", "by", "children"}
    assert (node["by"] is None) == bool(node["children"])
    if node["children"]:
        assert sum(child["amount_ps"] for child in node["children"]) == node["amount_ps"]
    for child in node["children"]:
        _adds_up(child)


def test_a_result_alone_is_simulated_again(run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "result.json", tmp_path / "alone.json")
    alone = railyard.explain(tmp_path / "alone.json", remedies=False)
    assert alone.tree.root == railyard.explain(run, remedies=False).tree.root
    assert any("simulated again" in note for note in alone.tree.notes)


def test_bad_input_says_what_is_wrong(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (run / "result.json").read_text()
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.json").write_text(whole[: len(whole) // 2])
    (tmp_path / "other.json").write_text('{"format": "railyard/9"}')
    (tmp_path / "list.json").write_text("[]")
    lacking = json.loads(whole)
    del lacking["variants"][0]["time"]
    (tmp_path / "lacking.json").write_text(json.dumps(lacking))
    for name, said in (
        ("missing", "there is no such run"),
        ("empty", "no result.json"),
        ("cut.json", "not complete JSON"),
        ("other.json", "not the result of a run"),
        ("list.json", "not the result of a run"),
        ("lacking.json", "the key is missing"),
    ):
        code, out, err = called(capsys, str(tmp_path / name))
        assert (code, out) == (2, "")
        assert said in err
        assert name in err
    code, _, err = called(capsys, str(run), "--variant", "infinibad")
    assert code == 2
    assert "infiniband" in err
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    (broken / "timeline.parquet").write_bytes((run / "timeline.parquet").read_bytes()[:1000])
    code, _, err = called(capsys, str(broken))
    assert code == 2
    assert "timeline.parquet" in err


# Each kind of work has its formula and its constants.

KNOWN = catalog.load()


def law(kind, phase="forward", operator="up", precision="bf16"):
    job = Training(
        model=KNOWN.model("mixtral-8x7b"), layout=Layout(dp=8, ep=8, global_batch=24), seq_len=3000,
        precision=precision, software=SoftwareProfile(name="test"),
    )  # fmt: skip
    machine = cluster.build(cluster.ClusterSpec(accelerators=8, server="hgx-h100"), KNOWN)
    found = Laws(job, machine, "flow").work(TracedWork("MLP", kind, phase, operator, 0.37, 5.0))
    return found.formula, [constant.name for constant in found.constants]


@pytest.mark.parametrize(
    ("kind", "formula", "constants"),
    [
        (GAP, "device gap", ["launch_ps"]),
        (CAST, "cast_bytes x elements", ["cast_bytes", "memory_fraction", "memory_efficiency"]),
        (PASS, "bytes read and written", ["memory_fraction", "memory_efficiency"]),
        (CORE, "causal FLOPs", ["attention_forward", "attention_efficiency", "flops bf16"]),
        (GEMM, "", ["gemm_fraction", "gemm_efficiency", "flops bf16"]),
        (GROUPED, "", ["gemm_fraction", "grouped_fraction", "gemm_efficiency", "flops bf16"]),
    ],
)
def test_the_law_of_each_kind_of_work(kind, formula, constants):
    found = law(kind)
    assert found[0].startswith(formula)
    assert found[1] == constants


@pytest.mark.parametrize(
    ("phase", "rate"),
    [("forward", "attention_forward"), ("recompute", "attention_forward"), ("backward", "attention_backward")],
)
def test_attention_has_a_rate_for_each_way(phase, rate):
    assert law(CORE, phase)[1][0] == rate


@pytest.mark.parametrize(
    ("operator", "constants"),
    [
        ("up", ["fp8_fraction", "gemm_efficiency_8bit", "flops fp8"]),
        ("logits", ["gemm_fraction", "gemm_efficiency", "flops bf16"]),
        ("router", ["gemm_fraction", "gemm_efficiency", "flops bf16"]),
    ],
)
def test_of_a_job_in_8_bits_logits_and_router_stay_in_16(operator, constants):
    assert law(GEMM, operator=operator, precision="fp8")[1] == constants
