"""What schemes send, keep and compute: closed forms, bounds, and what never happens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.graph import CollectiveKind
from railyard.work.training.sync import (
    DiLoCo,
    LocalSgd,
    OneBit,
    PowerSgd,
    Quantized,
    QuantizedDispatch,
    SparseEmbedding,
    StreamingDiLoCo,
    TopK,
    ZeroPlusPlus,
)
from railyard.work.training.sync.local import exposed_s
from railyard.work.training.sync.shapes import Matrix, bundle, dense_matrices
from railyard.work.training.sync.wire import Bundle, KernelWork, Leg, Peers

SCHEMES = st.one_of(
    st.integers(1, 128).map(lambda rank: PowerSgd(rank=rank)),
    st.floats(1e-4, 1.0).map(lambda density: TopK(density=density)),
    st.just(OneBit()),
    st.sampled_from((2, 4, 8, 16)).map(lambda bits: Quantized(gradient_bits=bits)),
    st.just(ZeroPlusPlus()),
)
PEERS = st.builds(
    lambda local, domains, sharded: Peers(local * domains, local, sharded),
    st.integers(1, 8),
    st.integers(1, 64),
    st.booleans(),
).filter(lambda peers: peers.ranks > 1)
BUNDLES = st.builds(
    lambda rows, columns, count, vectors: Bundle(
        rows * columns * count + vectors, (Matrix(rows, columns, count),), rows * columns * count + vectors, 4.0
    ),
    st.integers(1, 4096),
    st.integers(1, 4096),
    st.integers(1, 4),
    st.integers(1, 4096),
)


def least_bytes(scheme, one, peers):
    """What a rank must send at least, in the scheme's own bits: its numbers to the others, once."""
    spread = (peers.ranks - 1) / peers.ranks
    if isinstance(scheme, TopK):
        return one.parameters * scheme.density * scheme.value_bytes * (peers.ranks - 1)
    if isinstance(scheme, PowerSgd):
        factors = sum(m.count * min(scheme.rank * (m.rows + m.columns), m.rows * m.columns) for m in one.matrices)
        return 2.0 * spread * (factors + one.in_vectors) * 4.0
    bits = 1 if isinstance(scheme, OneBit) else scheme.gradient_bits
    return spread * one.parameters * bits / 8.0


@given(scheme=SCHEMES, one=BUNDLES, peers=PEERS)
def test_no_scheme_sends_less_than_its_own_bits(scheme, one, peers):
    made = scheme.reduction(one, peers)
    assert made.sent_bytes(peers) >= least_bytes(scheme, one, peers) * (1 - 1e-9)
    assert 0 <= made.across_bytes(peers) <= made.sent_bytes(peers) * (1 + 1e-9)
    assert scheme.state_bytes(one, peers) >= 0
    assert made.work.traffic_bytes >= one.parameters * 4.0 * 0.99


@given(scheme=SCHEMES, one=BUNDLES, peers=PEERS, factor=st.floats(0.1, 10))
def test_bytes_grow_with_the_gradients(scheme, one, peers, factor):
    small, large = scheme.reduction(one, peers), scheme.reduction(one.scaled(factor), peers)
    assert large.sent_bytes(peers) == pytest.approx(factor * small.sent_bytes(peers), rel=1e-9)


@given(one=BUNDLES, peers=PEERS)
def test_powersgd_never_sends_more_than_the_gradient(one, peers):
    """Matrices that factors would not make smaller travel as they are."""
    plain = 2.0 * one.parameters * 4.0 * (peers.ranks - 1) / peers.ranks
    for rank in (1, 8, 10_000):
        assert PowerSgd(rank=rank).reduction(one, peers).sent_bytes(peers) <= plain * (1 + 1e-9)


def test_what_all_reduce_sums_does_not_grow_with_ranks_and_what_is_gathered_does():
    one = Bundle(1e9, (Matrix(1e4, 1e5),), 1e9, 4.0)
    few, many = Peers(8, 8, sharded=False), Peers(1024, 8, sharded=False)
    power = [PowerSgd(rank=4).reduction(one, peers).sent_bytes(peers) for peers in (few, many)]
    top = [TopK(density=0.001).reduction(one, peers).sent_bytes(peers) for peers in (few, many)]
    assert power[1] / power[0] == pytest.approx((1023 / 1024) / (7 / 8))
    assert top[1] / top[0] == pytest.approx(1023 / 7)


def test_collectives_are_those_of_the_papers():
    one, peers = Bundle(1e9, (Matrix(1e4, 1e5),), 1e9, 4.0), Peers(64, 8, sharded=True)
    kinds = {
        scheme.kind: [(leg.kind, leg.over) for leg in scheme.reduction(one, peers).legs]
        for scheme in (PowerSgd(), TopK(), OneBit(), ZeroPlusPlus())
    }
    assert kinds["powersgd"] == [(CollectiveKind.ALL_REDUCE, "all")] * 2
    assert kinds["top-k"] == [(CollectiveKind.ALL_GATHER, "all")]
    assert kinds["one-bit"] == [(CollectiveKind.ALL_TO_ALL, "all"), (CollectiveKind.ALL_GATHER, "all")]
    assert kinds["zero++"] == [(CollectiveKind.ALL_TO_ALL, "inside"), (CollectiveKind.ALL_TO_ALL, "across")]


def test_powersgd_computes_two_products_a_decompression_and_a_turn(yard):
    """Three products of 2 n m r, and 2 n r^2 to make the columns of P orthogonal."""
    n, m, r = 4096, 16384, 32
    one = Bundle(n * m, (Matrix(n, m),), n * m, 4.0)
    work = PowerSgd(rank=r).reduction(one, Peers(8, 8, sharded=False)).work
    assert work.flops == pytest.approx(3 * 2 * n * m * r + 2 * n * r * r)
    # A thin product is bound by memory: it takes as long as its operands' way through it.
    assert KernelWork(work.traffic_bytes, work.flops, 0).seconds(yard.h100) == pytest.approx(
        KernelWork(work.traffic_bytes, 0, 0).seconds(yard.h100), rel=0.2
    )


@pytest.mark.parametrize("model", ["llama-3-8b", "mixtral-8x7b", "deepseek-v3", "gpt3-175b"])
def test_matrices_are_nearly_all_of_a_model(yard, model):
    training = yard.job(1, model=model)
    for name in ("dense", "expert") if training.model.experts else ("dense",):
        made = bundle(training, name, 1e9)
        assert 0.97 < made.in_matrices / made.parameters <= 1.0 + 1e-9
        assert made.in_matrices + made.in_vectors == pytest.approx(1e9)


@given(sync=st.floats(1e-4, 1e3), step=st.floats(1e-3, 100), steps=st.integers(1, 1000), overlap=st.floats(0, 5))
def test_meetings_cost_less_the_rarer_and_the_longer_they_may_take(sync, step, steps, overlap):
    blocking = exposed_s(DiLoCo(inner_steps=steps), sync, step)
    assert blocking == pytest.approx(sync / steps)
    hidden = exposed_s(DiLoCo(inner_steps=steps, overlap=overlap), sync, step)
    assert hidden <= blocking
    streamed = StreamingDiLoCo(inner_steps=steps, parts=1 + steps // 10, overlap=overlap)
    assert exposed_s(streamed, sync, step) <= hidden + 1e-12
    assert exposed_s(LocalSgd(inner_steps=2 * steps), sync, step) == pytest.approx(blocking / 2)


def test_dispatch_in_eight_bits_is_three_quarters_of_both_ways():
    assert QuantizedDispatch(block=10**9).share() == pytest.approx(0.75)
    assert QuantizedDispatch(dispatch_bits=16).share() == 1.0
    assert QuantizedDispatch(dispatch_bits=16).cast_bytes() == 0.0


@given(tokens=st.integers(1, 10**7), vocab=st.integers(1, 10**6), touched=st.floats(0, 1))
@settings(max_examples=30)
def test_no_more_rows_than_the_table_has(tokens, vocab, touched):
    assert SparseEmbedding(touched=touched).rows(tokens, vocab) <= vocab
    assert SparseEmbedding().rows(tokens, vocab) <= tokens


def test_dispatch_says_what_is_wrong_with_each_of_its_values():
    found = QuantizedDispatch(dispatch_bits=6, combine_bits=12).problems()
    assert found == [
        ("there is no such width", "dispatch_bits", "6", "4, 8, 16"),
        ("there is no such width", "combine_bits", "12", "4, 8, 16"),
    ]
    assert QuantizedDispatch(dispatch_bits=4, combine_bits=8, block=1).problems() == []


PEERS_OF_THREE = Peers(ranks=12, local=4, sharded=False)


@pytest.mark.parametrize(
    ("kind", "over", "sent", "across"),
    [
        # 12 MB of 12 ranks, 4 in each of 3 domains.
        (CollectiveKind.ALL_REDUCE, "all", 22e6, 2 * 12e6 * 2 / 3 / 4),
        (CollectiveKind.ALL_GATHER, "all", 11e6, 12e6 * 2 / 3 / 4),
        (CollectiveKind.ALL_TO_ALL, "all", 11e6, 8e6),
        (CollectiveKind.ALL_REDUCE, "inside", 18e6, 0.0),
        (CollectiveKind.ALL_REDUCE, "across", 16e6, 16e6),
        (CollectiveKind.REDUCE_SCATTER, "across", 8e6, 8e6),
    ],
)
def test_bytes_of_a_collective(kind, over, sent, across):
    leg = Leg(kind, 12e6, over)
    assert leg.sent_bytes(PEERS_OF_THREE) == pytest.approx(sent)
    assert leg.across_bytes(PEERS_OF_THREE) == pytest.approx(across)
    assert leg.across_bytes(Peers(4, 4, sharded=False)) == 0.0  # one domain


def test_ten_ranks_by_fours_are_in_three_domains():
    assert Peers(10, 4, sharded=False).domains == 3
    assert Peers(8, 4, sharded=False).domains == 2


@pytest.mark.parametrize(
    ("name", "pp", "tables"), [("llama-3.2-1b", 1, 1), ("llama-3.2-1b", 2, 2), ("llama-3-8b", 1, 2)]
)
def test_tied_tables_are_one_where_both_ends_are_on_a_stage(yard, name, pp, tables):
    """Llama 3.2 1B shares its embedding with its head."""
    training = yard.job(1, model=name, ranks=2, pp=pp)
    last = dense_matrices(training.model, training.layout)[-1]
    assert (last.rows, last.columns, last.count) == (128_256, training.model.hidden, tables)
