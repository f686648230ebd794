"""What holds for the graph of every layout."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.graph import Kind, Stream, parquet
from railyard.kit.errors import InputError


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
