"""Bytes and computation of participants, against the figures of papers."""

from __future__ import annotations

import math

import pytest

from railyard.kit.errors import InputError
from railyard.work.federated.algorithm import Candidates, algorithms, selections
from railyard.work.federated.messages import Model, Privacy, Scheme, curve, curves, messages
from railyard.work.federated.updates import compressions, secrecies

MODEL = Model(1e6, 6e6)
FEDAVG = algorithms.get("fedavg")()


def sent(algorithm="fedavg", clients=40, **more):
    return messages(MODEL, Scheme(algorithms.get(algorithm)(), **more), clients)


@pytest.mark.parametrize(("users", "numbers", "expansion"), [(2**10, 2**20, 1.73), (2**14, 2**24, 1.98)])
def test_secagg_as_published(users, numbers, expansion):
    # Bonawitz et al. 2017, abstract: 16-bit values, 1.73 and 1.98 times the bytes of data in the clear.
    found = messages(Model(numbers, 1.0, 16, 16), Scheme(FEDAVG, secrecy=secrecies.get("secagg")()), users)
    total = found.up_bytes + sum(stage.up_bytes + stage.down_bytes for stage in (*found.before, *found.after))
    assert round(total / (2 * numbers), 2) == expansion


def test_secagg_plus_shares_with_neighbours():
    few, all_others = secrecies.get("secagg-plus")(), secrecies.get("secagg")()
    assert few.partners(100_000) == 100
    assert few.partners(40) == math.ceil(20 * math.log10(40)) == 33
    assert secrecies.get("secagg-plus")(neighbours=7).partners(40) == 7
    assert few.partners(5) == all_others.partners(5) == 4
    stages = few.before(100_000)
    assert stages[0].up_bytes == 64
    assert stages[0].down_bytes == 6400
    assert stages[1].up_bytes == stages[1].down_bytes == 6400
    assert few.after(100_000)[0].up_bytes == 101 * 32
    assert all_others.value_bits(1000, 32) == 42
    assert all_others.unmask_bytes(40, 3, 10.0) == (37 + 3 * 39) * 10


@pytest.mark.parametrize(
    ("algorithm", "down", "up", "state"),
    [
        ("fedavg", 4e6, 4e6, 12e6),
        ("fedprox", 4e6, 4e6, 16e6),
        ("scaffold", 8e6, 8e6, 20e6),
        ("fedbuff", 4e6, 4e6, 12e6),
        ("split", 4e5, 4e5, 1.2e6),
    ],
)
def test_models_each_way(algorithm, down, up, state):
    found = sent(algorithm)
    assert (found.down_bytes, found.up_bytes, found.state_bytes) == pytest.approx((down, up, state))


def test_split_leaves_the_rest_to_the_server():
    found = sent("split")
    assert found.crossing_bytes == 50_000
    assert found.flop_per_sample == pytest.approx(6e5)
    assert found.server_flop_per_sample == pytest.approx(5.4e6)


@pytest.mark.parametrize(
    ("name", "values", "size"),
    [
        ("top-k", {"density": 0.01}, (10_000 * 32 + 10_000 * 20) / 8),  # 20 bits address a million numbers
        ("top-k", {"density": 0.5}, (500_000 * 32 + 1_000_000) / 8),  # a bit map is shorter than indices
        ("quantized", {"value_bits": 8}, (1_000_000 * 8 + 977 * 32) / 8),
        ("quantized", {"value_bits": 32}, 4_000_000),
        ("low-rank", {"rank": 4, "width": 512}, 1_000_000 * 2 * 4 / 512 * 4),
    ],
)
def test_compression(name, values, size):
    found = sent(compression=compressions.get(name)(**values))
    assert found.up_bytes == pytest.approx(size)
    assert found.down_bytes == 4e6
    assert found.flop > 0


def test_error_feedback_is_kept():
    assert sent(compression=compressions.get("top-k")()).state_bytes == 16e6
    assert sent(compression=compressions.get("top-k")(error_feedback=False)).state_bytes == 12e6


def test_noise():
    assert sent(privacy=Privacy("client", 1.0, 4)).up_bytes == pytest.approx(4.5e6)
    assert sent(privacy=Privacy("client")).flop == pytest.approx(44e6)
    assert sent(privacy=Privacy("server")).flop == pytest.approx(4e6)
    assert sent(privacy=Privacy("server")).server_flop_a_round == pytest.approx(40e6)


@pytest.mark.parametrize("registry", [algorithms, compressions, secrecies, selections], ids=lambda one: one.kind)
def test_contract(registry):
    for name, record in registry.items():
        assert record.kind == name
        assert record.source
        assert record().problems() == []


@pytest.mark.parametrize(
    ("record", "values"),
    [
        (algorithms.get("fedprox"), {"least_work": 0.0}),
        (algorithms.get("fedbuff"), {"size": 0}),
        (algorithms.get("split"), {"at_client": 1.0}),
        (algorithms.get("hierarchical"), {"rounds": 0}),
        (compressions.get("top-k"), {"density": 0.0}),
        (compressions.get("low-rank"), {"rank": 1000}),
        (compressions.get("quantized"), {"value_bits": 0}),
        (secrecies.get("secagg"), {"threshold_share": 0.5}),
        (secrecies.get("secagg-plus"), {"neighbours": -1}),
        (selections.get("fastest"), {"candidates": 0.5}),
    ],
)
def test_impossible_values(record, values):
    assert [row[1] for row in record(**values).problems()] == list(values)


def test_selection():
    import numpy as np

    some = Candidates(np.array([5.0, 1.0, 9.0, 3.0]), np.ones(4), np.zeros(4, int), 2, 4.0)
    assert selections.get("random")().choose(some).tolist() == [0, 1]
    assert selections.get("fastest")().choose(some).tolist() == [1, 3]
    assert selections.get("within-deadline")().choose(some).tolist() == [1, 3]


def test_published_rows():
    assert curve("mnist-cnn-iid").rounds == 20
    assert all(row.source and row.rounds > 0 and row.participants > 0 for row in curves().values())
    with pytest.raises(InputError) as raised:
        curve("mnist-cnn-idd")
    assert raised.value.problems[0].hint == "did you mean `mnist-cnn-iid`?"
