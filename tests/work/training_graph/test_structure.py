"""What holds for the graph of every layout."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.ask.audit.price import StepPricing
from railyard.face.cli import guard
from railyard.graph import Kind, Stream, parquet
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.study.study import prepare
from railyard.work.training.slots import Lattice
from railyard.work.training.spec import Checkpoint, Layout


@st.composite
def layouts(draw):
    """Layouts of at most 64 ranks over 8 layers."""
    tp, cp, pp = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2, 4]))
    dp = draw(st.sampled_from([1, 2, 3, 4]).filter(lambda dp: dp * tp * cp * pp <= 64))
    stage = tp * cp * dp
    ep = draw(st.sampled_from([e for e in (1, 2, 4, 8) if stage % e == 0]))
    schedule = draw(st.sampled_from(["1f1b", "interleaved", "zero-bubble"]))
    vp = 1 if schedule == "1f1b" else draw(st.sampled_from([v for v in (1, 2) if pp * v <= 8]))
    replicas = dp * cp
    return {
        "tp": tp,
        "cp": cp,
        "pp": pp,
        "dp": dp,
        "ep": ep,
        "vp": vp,
        "schedule": schedule,
        "global_batch": dp * draw(st.integers(1, 6)),
        "zero": draw(st.integers(0, 3)),
        "fsdp_shard": draw(st.sampled_from([0, *(s for s in range(1, replicas + 1) if replicas % s == 0)])),
        "reshard": draw(st.booleans()),
        "sequence_parallel": draw(st.booleans()),
        "recompute": draw(st.sampled_from(["none", "selective", "full"])),
        "bucket_bytes": draw(st.sampled_from([0, 50_000, 10_000_000])),
    } | {f"overlap_{what}": draw(st.booleans()) for what in ("gradient", "parameter", "tensor", "expert")}


@settings(max_examples=60, deadline=None)
@given(layout=layouts(), experts=st.booleans())
def test_every_layout_gives_a_sound_graph(jobs, yard, layout, experts):
    if not experts:
        layout["ep"] = 1
    training = jobs.training(yard.experts if experts else yard.dense, **layout)
    graph = jobs.graph(training)
    start, end = yard.play(graph)  # fails where a task waits for a later one
    assert (end >= start).all()
    _waits_once(graph)
    _every_rank_works_alike(graph, yard, training)
    _groups_cover_each_rank_once(graph, training)
    _collectives_join_several(graph)
    _transfers_go_one_stage_on(graph, training)


def _waits_once(graph):
    """No task names the same forerunner twice: an engine would count and follow each of them."""
    waiting = np.repeat(np.arange(len(graph), dtype=np.int64), np.diff(graph.dep_ptr))
    assert len(np.unique(waiting << 32 | graph.dep_idx)) == len(graph.dep_idx)


def _every_rank_works_alike(graph, yard, training):
    """Ranks of one stage compute the same; every rank passes every micro-batch through every chunk both ways."""
    layout = training.layout
    by_stage = yard.computed(graph).reshape(layout.pp, -1)
    assert (by_stage == by_stage[:, :1]).all()
    for phase in ("forward", "backward"):
        found = Counter()
        for task in yard.chosen(graph, phase=phase, op="compute"):
            label = graph.labels[graph.label[task]]
            found[label.layer, label.micro_batch, int(graph.rank[task])] += 1
        width = layout.tp * layout.cp * layout.dp
        wanted = {
            (stage, micro, rank)
            for stage in range(layout.pp * layout.vp)
            for micro in range(layout.micro_batches)
            for rank in range(stage % layout.pp * width, (stage % layout.pp + 1) * width)
        }
        assert set(found) == wanted


def _groups_cover_each_rank_once(graph, training):
    groups = graph.communicators
    counted: dict[str, Counter] = {}
    for number, name in enumerate(groups.group):
        counted.setdefault(name, Counter()).update(groups.members(number).tolist())
    for name, ranks in counted.items():
        assert set(ranks.values()) == {1}, name
        if name != "pp":
            assert len(ranks) == training.layout.ranks, name


def _collectives_join_several(graph):
    collective = graph.kind == Kind.COLLECTIVE
    sizes = np.diff(graph.communicators.ptr)
    assert (sizes[graph.rank[collective]] > 1).all()
    assert (graph.size_bytes[collective] > 0).all()


def _transfers_go_one_stage_on(graph, training):
    layout = training.layout
    width, sent = layout.tp * layout.cp * layout.dp, graph.kind == Kind.TRANSFER
    source, target = graph.rank[sent], graph.peer[sent]
    assert (source % width == target % width).all()
    step = np.where(graph.stream[sent] == Stream.FORWARD, 1, -1)
    assert ((source // width + step) % layout.pp == target // width).all()
    assert (graph.peer[~sent] == -1).all()


def test_streams_hold_what_their_names_say(jobs, yard):
    graph = jobs.graph(
        jobs.training(yard.experts, tp=2, pp=2, dp=4, cp=2, ep=4, vp=2, schedule="interleaved", overlap_expert=True)
    )
    held = {
        (Stream(stream).name, graph.labels[label].group or graph.labels[label].phase)
        for stream, label in zip(graph.stream.tolist(), graph.label.tolist(), strict=True)
    }
    beside = {pair for pair in held if pair[0] != "COMPUTE"}
    assert beside == {
        ("TENSOR", "tp"), ("CONTEXT", "cp"), ("EXPERT", "ep"), ("FORWARD", "pp"), ("BACKWARD", "pp"),
        ("GRADIENT", "dp"), ("GRADIENT", "edp"), ("PARAMETER", "dp"), ("PARAMETER", "edp"), ("HOST", "host"),
    }  # fmt: skip


def test_building_twice_gives_the_same_graph(jobs, yard, tmp_path):
    training = jobs.training(yard.experts, tp=2, pp=2, dp=2, ep=2)
    first, second = jobs.graph(training), jobs.graph(training)
    assert first.labels == second.labels
    for name in ("kind", "rank", "peer", "duration_ps", "size_bytes", "count", "stream", "label", "dep_ptr", "dep_idx"):
        assert np.array_equal(getattr(first, name), getattr(second, name))
    parquet.write_graph(first, tmp_path / "graph.parquet")
    again = parquet.read_graph(tmp_path / "graph.parquet")
    assert np.array_equal(again.dep_idx, first.dep_idx)
    assert again.labels == first.labels


def test_labels_are_unique(jobs, yard):
    graph = jobs.graph(jobs.training(yard.experts, tp=2, pp=2, dp=2, ep=2, recompute="full"))
    assert len(set(graph.labels)) == len(graph.labels)
    assert set(graph.label.tolist()) == set(range(len(graph.labels)))


def test_one_rank_alone_only_computes(jobs, yard):
    graph = jobs.graph(jobs.training(yard.dense, global_batch=3), times_of=yard.even())
    assert set(graph.kind.tolist()) == {Kind.COMPUTE}
    assert len(graph) == 3 * 2 + 1


@pytest.mark.parametrize(
    ("layout", "key"),
    [
        ({"dp": 4, "global_batch": 6}, "global_batch"),
        ({"dp": 4, "tp": 2, "ep": 3}, "parallelism.ep"),
        ({"dp": 4, "zero": 3, "fsdp_shard": 3}, "parallelism.fsdp_shard"),
    ],
)
def test_what_does_not_divide_is_refused(jobs, yard, layout, key):
    with pytest.raises(InputError) as caught:
        jobs.graph(jobs.training(yard.experts, **layout))
    assert [problem.key for problem in caught.value.problems] == [key]


def test_another_number_of_ranks_is_refused(jobs, yard):
    from railyard.work.training.graphs import build

    training = jobs.training(yard.dense, dp=4)
    with pytest.raises(InputError, match="another number of ranks"):
        build(training, jobs.cluster(8))


# Checkpoints: what is written when, and what waits for it.


@pytest.fixture
def shape():
    return {"tp": 2, "pp": 2, "dp": 2}


def written(graph):
    return int(graph.size_bytes[graph.kind == Kind.WRITE].sum())


def state_bytes(jobs, yard, shape):
    """Fourteen bytes a parameter; norms and the router, which every tp rank holds, are counted as often."""
    from railyard.work.training.compute import stage_parameters
    from railyard.work.training.stages import virtual_stages

    training = jobs.training(yard.dense, **shape)
    held = [stage_parameters(training, stage) for stage in virtual_stages(yard.dense, training.layout)]
    return 14 * sum(part.dense for part in held) * shape["tp"]


def test_a_synchronous_checkpoint_ends_the_step(jobs, yard, shape):
    saved = Checkpoint(asynchronous=False)
    training = jobs.training(yard.dense, checkpoint=saved, **shape)
    plain, with_it = jobs.graph(training), jobs.graph(training, checkpoint=True)
    assert written(plain) == 0
    assert written(with_it) == pytest.approx(state_bytes(jobs, yard, shape), rel=1e-3)
    assert np.bincount(with_it.rank[with_it.kind == Kind.WRITE], minlength=8).tolist() == [1] * 8
    slow = lambda g, t: 10**9 if g.kind[t] == Kind.WRITE else 0  # noqa: E731
    _, plain_end = yard.play(plain, slow)
    start, end = yard.play(with_it, slow)
    assert end.max() == plain_end.max() + 10**9
    waits = yard.chosen(with_it, phase="checkpoint", op="wait")
    assert (start[waits] >= 10**9).all()
    assert len(waits) == 8


def test_an_asynchronous_checkpoint_stalls_for_the_copy_alone(jobs, yard, shape):
    saved = Checkpoint(asynchronous=True, interval_steps=100)
    training = jobs.training(yard.dense, checkpoint=saved, **shape)
    plain, with_it = jobs.graph(training), jobs.graph(training, checkpoint=True)
    # Every step carries a hundredth of the write, from its start.
    assert written(plain) == written(with_it) == pytest.approx(state_bytes(jobs, yard, shape) / 100, rel=1e-2)
    start, plain_end = yard.play(plain)
    assert (start[plain.kind == Kind.WRITE] == 0).all()
    copies = yard.chosen(with_it, op="copy to host")
    assert len(copies) == 8
    assert (with_it.stream[copies] == Stream.COMPUTE).all()
    share = state_bytes(jobs, yard, shape) / 8
    assert with_it.duration_ps[copies].mean() == pytest.approx(share * 8 / 1e12 * 1e12, rel=1e-2)
    _, end = yard.play(with_it)
    assert plain_end.max() < end.max() <= plain_end.max() + with_it.duration_ps[copies].max()


def test_what_is_gathered_is_copied_behind_the_gather(jobs, yard, shape):
    """Two replicas: the first has all of the state of its two, once it is gathered behind the whole step."""
    saved = Checkpoint(asynchronous=True, gathered=True, interval_steps=100)
    training = jobs.training(yard.dense, checkpoint=saved, **shape)
    graph = jobs.graph(training, checkpoint=True)
    start, end = yard.play(graph, lambda g, t: 10**9 if g.kind[t] == Kind.COLLECTIVE else 0)
    (gathers, copies) = (yard.chosen(graph, op=op) for op in ("gather state", "copy to host"))
    assert len(copies) == 4
    # Stage by stage: a stage of a pipeline ends before the next one.
    assert (np.sort(start[copies]) == np.repeat(np.sort(end[gathers]), len(copies) // len(gathers))).all()
    optimizer = yard.chosen(graph, phase="optimizer")
    assert start[gathers].min() >= end[optimizer].min()


def test_a_paced_write_holds_up_a_step_that_is_shorter(jobs, yard, shape):
    training = jobs.training(yard.dense, checkpoint=Checkpoint(interval_steps=2), **shape)
    graph = jobs.graph(training)
    _, end = yard.play(graph, lambda g, t: 10**12 if g.kind[t] == Kind.WRITE else 0)
    assert end.max() == 10**12
    assert (end[yard.chosen(graph, op="wait")] == 10**12).all()


def test_without_a_checkpoint_nothing_is_written(jobs, yard, shape):
    assert written(jobs.graph(jobs.training(yard.dense, **shape), checkpoint=True)) == 0


# Groups of ranks against the rank formula written out in loops.


def rank(layout, p, d, c, t):
    return ((p * layout.dp + d) * layout.cp + c) * layout.tp + t


def groups(lattice, name):
    return {tuple(row) for row in lattice.communicators(name).tolist()}


@given(tp=st.integers(1, 4), pp=st.integers(1, 3), dp=st.integers(1, 4), cp=st.integers(1, 3))
def test_groups_vary_one_place_of_the_rank_formula(tp, pp, dp, cp):
    layout = Layout(global_batch=dp, tp=tp, pp=pp, dp=dp, cp=cp)
    lattice = Lattice(layout)
    places = {"p": range(pp), "d": range(dp), "c": range(cp), "t": range(tp)}

    def over(varied):
        fixed = [key for key in "pdct" if key not in varied]
        found = set()
        for values in product(*(places[key] for key in fixed)):
            at = dict(zip(fixed, values, strict=True))
            inner = product(*(places[key] for key in varied))
            found.add(tuple(rank(layout, **(at | dict(zip(varied, v, strict=True)))) for v in inner))
        return found

    assert groups(lattice, "tp") == over("t")
    assert groups(lattice, "cp") == over("c")
    assert groups(lattice, "dp") == over("dc")
    assert groups(lattice, "world") == over("pdct")


@given(
    dp=st.integers(1, 6),
    cp=st.integers(1, 2),
    tp=st.sampled_from([1, 2, 4]),
    ep=st.integers(1, 8),
    etp=st.integers(1, 4),
)
def test_expert_groups_fold_over_all_ranks_of_a_stage(dp, cp, tp, ep, etp):
    width = dp * cp * tp
    if width % (ep * etp):
        return
    layout = Layout(global_batch=dp, tp=tp, pp=2, dp=dp, cp=cp, ep=ep, expert_tp=etp)
    lattice = Lattice(layout)
    assert lattice.communicator_size("ep") == ep
    assert lattice.communicator_size("edp") == layout.edp
    for name in ("ep", "edp", "etp"):
        table = lattice.communicators(name)
        assert sorted(table.ravel().tolist()) == list(range(layout.ranks))
    for members in lattice.communicators("ep"):
        assert set(np.diff(members).tolist()) <= {etp}
        assert len({int(member) // width for member in members}) == 1
    for members in lattice.communicators("edp"):
        # Replicas of an expert stand at the same place of their expert group.
        assert len({int(member) % width % (ep * etp) for member in members}) == 1


@pytest.mark.parametrize("shard", [2, 4, 8])
def test_hybrid_shards_are_neighbours_and_their_replicas_are_not(shard):
    layout = Layout(global_batch=8, dp=8, tp=2, zero=3, fsdp_shard=shard)
    lattice = Lattice(layout)
    assert lattice.communicators("shard")[0].tolist() == [2 * i for i in range(shard)]
    assert lattice.communicators("replica")[0].tolist() == [2 * shard * i for i in range(8 // shard)]


@given(tp=st.integers(1, 4), dp=st.integers(1, 6), ep=st.integers(1, 8))
def test_relations_name_every_group_that_is_met(tp, dp, ep):
    if tp * dp % ep:
        return
    lattice = Lattice(Layout(global_batch=dp, tp=tp, dp=dp, ep=ep))
    for first, second in product(("rank", "tp", "ep", "edp", "world"), repeat=2):
        table = lattice.relation(first, second)
        for group, row in enumerate(table.tolist()):
            met = {int(lattice.spaces[second].group_of[j]) for j in lattice.spaces[first].members[group]}
            assert set(row) == met


# The task graph of a frozen model with adapters: it sends what the closed form sends.

SCENARIO = """\
cluster: {{accelerators: 16, server: hgx-h100, back_end: {{topology: rail-optimized}}}}
workload:
  training:
    model: llama-3.1-8b
    sequence: 4096
    global_batch: 32
    parallelism: {{{}}}
    software: torchtitan-2025
    {}
"""


def step_s(engine, layout, lora):
    draft = load.from_text(SCENARIO.format(layout, lora), Path("s.yaml")).with_values({"engine": engine}, "a test")
    return StepPricing(prepare(draft)[0]).step_s


def test_engines_agree_on_adapters():
    for layout in ("tp: 2, zero: 1", "zero: 3, recompute: full"):
        lora = "lora: {rank: 8}"
        flow, closed = (step_s(engine, layout, lora) for engine in ("flow", "analytic"))
        assert abs(flow / closed - 1.0) < 0.06, layout
        assert flow < 0.95 * step_s("flow", layout, "")


def test_a_wrong_rank_is_named(tmp_path, capsys):
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.format("tp: 2", "lora: {rank: 0}"))
    assert guard.run(["run", str(path)]) == 2
    assert "lora.rank" in capsys.readouterr().err
