"""The step with and without: what is the same as plain data parallelism, and that estimate and graph agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.graph import CollectiveKind, Kind
from railyard.kit.errors import InputError
from railyard.model.machine import Machine
from railyard.work.training import Layout, build, check, estimate, memory
from railyard.work.training.sync import (
    KINDS,
    Communication,
    Delayed,
    DiLoCo,
    LocalSgd,
    OneBit,
    PowerSgd,
    Priority,
    Quantized,
    QuantizedDispatch,
    SparseEmbedding,
    StaleSynchronous,
    StreamingDiLoCo,
    TopK,
    ZeroPlusPlus,
    check_communication,
)
from railyard.work.training.sync.ledger import ledger

ASKED = {
    "powersgd": {"zero": 1, "compression": PowerSgd(rank=32)},
    "top-k": {"zero": 1, "compression": TopK()},
    "one-bit": {"zero": 0, "compression": OneBit(), "tp": 4},
    "quantized": {"zero": 0, "compression": Quantized(), "tp": 4},
    "quantized, zero 2": {"zero": 2, "compression": Quantized()},
    "zero++": {"zero": 3, "compression": ZeroPlusPlus()},
    "powersgd in a pipeline": {"zero": 1, "compression": PowerSgd(), "tp": 2, "pp": 2},
    "local-sgd": {"zero": 1, "local_updates": LocalSgd(inner_steps=4, workers=4)},
    "diloco": {"zero": 1, "local_updates": DiLoCo(workers=4, inner_steps=20)},
    "diloco, every replica": {"zero": 0, "local_updates": DiLoCo(inner_steps=20), "tp": 4},
    "diloco, zero 3": {"zero": 3, "local_updates": DiLoCo(workers=2, inner_steps=20)},
    "diloco, experts": {"model": "mixtral-8x7b", "ep": 8, "local_updates": DiLoCo(workers=2, inner_steps=20)},
    "streaming-diloco": {"zero": 1, "local_updates": StreamingDiLoCo(workers=4)},
    "delayed": {"zero": 1, "asynchronous": Delayed()},
    "stale-synchronous": {"zero": 0, "asynchronous": StaleSynchronous(), "tp": 4},
    "priority": {"zero": 0, "scheduling": Priority(), "tp": 4},
    "sparse": {"zero": 0, "sparse": SparseEmbedding(), "tp": 4},
    "dispatch": {"model": "mixtral-8x7b", "ep": 8, "dispatch": QuantizedDispatch()},
}


def sent(graph):
    """Bytes of all collectives by kind, phase and operation."""
    on = graph.kind == Kind.COLLECTIVE
    pairs = zip(graph.collective[on].tolist(), graph.label[on].tolist(), strict=True)
    keys = [(kind, graph.labels[label].op) for kind, label in pairs]
    totals: dict[tuple[int, str], int] = {}
    for key, size in zip(keys, (graph.size_bytes[on] * graph.count[on]).tolist(), strict=True):
        totals[key] = totals.get(key, 0) + size
    return totals


def alike(one, other):
    names = ("kind", "rank", "duration_ps", "size_bytes", "count", "collective", "stream", "dep_ptr", "dep_idx")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_averaging_in_every_step_is_data_parallelism(yard, zero):
    """Local SGD with H = 1 and nothing compressed: the same graph, task by task, the same estimate, the same memory."""
    plain, local = yard.job(zero, tp=4), yard.job(zero, tp=4, local_updates=LocalSgd(inner_steps=1))
    assert alike(build(plain, yard.fast), build(local, yard.fast))
    assert yard.closed_s(plain, yard.fast) == yard.closed_s(local, yard.fast)
    assert memory(plain, yard.h100) == memory(local, yard.h100)
    assert ledger(local, 8) is None


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(("network", "more"), [("fast", 0.015), ("slow", 0.05)])
def test_estimate_and_graph_agree_as_plain_steps_do(yard, name, network, more):
    """What apart the two are on plain steps is not of this room."""
    training, machine = yard.job(**ASKED[name]), getattr(yard, network)
    plain = training.replace(communication=None)
    apart = abs(yard.graph_s(plain, machine) / yard.closed_s(plain, machine) - 1)
    assert yard.graph_s(training, machine) == pytest.approx(yard.closed_s(training, machine), rel=apart + more)


@pytest.mark.parametrize(
    "name", ["powersgd", "one-bit", "quantized", "zero++", "delayed", "diloco", "streaming-diloco"]
)
def test_it_helps_where_the_network_is_slow(yard, name):
    training = yard.job(**ASKED[name])
    plain = training.replace(communication=None)
    assert yard.graph_s(training, yard.slow) < yard.graph_s(plain, yard.slow)


@pytest.mark.parametrize(("name", "least"), [("powersgd", 1.0), ("top-k", 1.0), ("one-bit", 0.985)])
def test_coding_costs_about_what_it_saves_in_a_fast_datacenter(yard, name, least):
    """Agarwal et al. 2022, arXiv 2103.00543: 6 of more than 200 setups gained from compression, and little."""
    training = yard.job(**ASKED[name])
    plain = training.replace(communication=None)
    assert yard.graph_s(training, yard.fast) > least * yard.graph_s(plain, yard.fast)


@pytest.mark.parametrize("name", ASKED)
def test_graph_and_ledger_count_the_same_reduction(yard, name):
    """Sizes of the graph's coded collectives, against what the scheme says of all gradients at once."""
    training = yard.job(**ASKED[name])
    if training.communication.compression is None or training.layout.pp > 1 or training.layout.zero >= 2:
        return
    graph = build(training, yard.fast)
    coded = {CollectiveKind(kind): size for (kind, op), size in sent(graph).items() if op == "reduce dense, coded"}
    gradients, peers = _whole(training)
    legs = training.communication.compression.reduction(gradients, peers).legs
    assert set(coded) == {leg.kind for leg in legs}
    # A communicator for each tensor-parallel place; inside a domain and across domains there are several of them.
    groups = {"all": 1, "inside": peers.domains, "across": peers.local}
    wanted = training.layout.tp * sum(leg.size_bytes * groups[leg.over] for leg in legs)
    assert sum(coded.values()) == pytest.approx(wanted, rel=0.02)


def _whole(training):
    from railyard.work.training.stages import PipelineRanks
    from railyard.work.training.sync.shapes import bundle, replica_peers

    held = max(float(kind.dense[0]) for kind in PipelineRanks.of([training]).kinds)
    return bundle(training, "dense", held), replica_peers(training.layout, "dense", 8)


@pytest.mark.parametrize("name", ASKED)
def test_parts_of_the_estimate_add_up(yard, name):
    row = estimate([yard.job(**ASKED[name])], [Machine.of(yard.slow)]).row(0)
    parts = [value for key, value in row.items() if key.endswith("_s") and key not in ("step_s", "tokens_per_s")]
    assert sum(parts) == pytest.approx(row["step_s"])
    assert min(parts) >= 0


@pytest.mark.parametrize("name", ASKED)
def test_what_is_kept_shows_in_memory(yard, name):
    training = yard.job(**ASKED[name])
    plain = training.replace(communication=None)
    price = ledger(training, 8)
    if training.communication.local_updates is not None:
        return  # workers shard their state over fewer ranks too
    more = memory(training, yard.h100).fullest.total_bytes - memory(plain, yard.h100).fullest.total_bytes
    assert more == pytest.approx(price.kept_bytes, abs=2e6)


def test_workers_meet_nobody_between_meetings(yard):
    """No communicator of an inner step reaches over two workers."""
    graph = build(yard.job(1, local_updates=DiLoCo(workers=2)), yard.fast)
    table = graph.communicators
    for number in range(len(table.ptr) - 1):
        members = table.members(number)
        assert len({int(rank) // 16 for rank in members}) == 1


def test_many_designs_at_once_are_the_same_as_one_by_one(yard):
    jobs = [yard.job(**asked) for asked in ASKED.values()] + [yard.job(1)]
    machine = Machine.of(yard.slow)
    together = estimate(jobs, [machine] * len(jobs)).step_s
    alone = [float(estimate([one], [machine]).step_s[0]) for one in jobs]
    assert together.tolist() == pytest.approx(alone)


def test_by_priority_what_backward_cannot_hide_goes_under_the_next_forward(yard):
    """Over 50 Gb/s a third of the gradients (16.06 GB in four parts over 8 ranks, two a server) fit under backward.

    Alone they take 2 x 7/8 x 4.016 GB / (2 x 6.25 GB/s) = 0.56 s a part; nothing of them is lost or sent twice.
    """
    training = yard.job(**ASKED["priority"])
    plain = sent(build(training.replace(communication=None), yard.slow))
    found = sent(build(training, yard.slow))
    whole = plain[CollectiveKind.ALL_REDUCE, "reduce dense"]
    now, later = (found[CollectiveKind.ALL_REDUCE, op] for op in ("reduce dense", "reduce rest of dense"))
    assert whole == pytest.approx(4 * training.model.parameters() / 4 * 2, rel=1e-3)
    assert now + later == pytest.approx(whole, rel=1e-4)
    assert now / whole == pytest.approx(0.32, abs=0.02)
    rest = {key: size for key, size in found.items() if "dense" not in key[1]}
    assert rest == {key: size for key, size in plain.items() if "dense" not in key[1]}


# Over random layouts and combinations: a sound graph and a possible ledger, or a refusal in words.

# Most parts are left out, so that most combinations are ones that a job may ask for.
SOUND_ASKED = st.fixed_dictionaries(
    {
        part: st.sampled_from([*[None] * 4 * len(kinds), *(kind() for _, kind in kinds.items())])
        for part, kinds in KINDS.items()
    }
)
SIZES = st.fixed_dictionaries(
    {
        "tp": st.sampled_from((1, 2, 4)),
        "pp": st.sampled_from((1, 2)),
        "cp": st.sampled_from((1, 2)),
        "ep": st.sampled_from((1, 4)),
        "zero": st.integers(0, 3),
        "overlap_gradient": st.booleans(),
        "overlap_parameter": st.booleans(),
        "reshard": st.booleans(),
        "recompute": st.sampled_from(("none", "full")),
    }
)


@given(asked=SOUND_ASKED, sizes=SIZES)
@settings(max_examples=40, deadline=None)
def test_graph_is_sound_or_the_job_is_refused(yard, asked, sizes):
    dp = 32 // (sizes["tp"] * sizes["pp"] * sizes["cp"])
    training = yard.job(model="mixtral-8x7b").replace(
        layout=Layout(dp=dp, global_batch=2 * dp, **sizes), communication=Communication(**asked)
    )
    try:
        check(training.model, training.layout, training.seq_len, 32)
        check_communication(training)
    except InputError:
        return
    for meeting in (False, True):
        build(training, yard.fast, meeting=meeting).validate()
    price = ledger(training, 8)
    assert (price is None) == training.communication.plain
    if price is not None:
        assert min(price.sent_bytes, price.kept_bytes, price.sent_across_bytes) >= 0
        assert price.sent_across_bytes <= price.sent_bytes * (1 + 1e-9)
