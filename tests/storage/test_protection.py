"""Ciphers, checksums and keys of checkpoints: closed form, engine, restart, by hand."""

from dataclasses import replace

import pytest

from railyard.graph import Kind
from railyard.kit.errors import InputError
from railyard.measure.decompose import decompose
from railyard.model.machine import StorageRates
from railyard.work.training.graphs import build
from railyard.work.training.spec import Checkpoint
from railyard.work.training.stored import checkpoint_bytes, cores_bps, file_bps, keys_s, stall_s
from railyard.work.training.storing import Flows, protected_s, state_flows

PLAIN = Checkpoint(asynchronous=False, bytes_per_parameter=4e5)


def stalled(timeline):
    return sum(row.seconds for row in decompose(timeline).rows if row.cause == "checkpoint")


@pytest.mark.parametrize(
    ("changed", "made", "read"),
    [
        ({}, float("inf"), float("inf")),
        ({"serialize_bps": 8e9}, 8e9, float("inf")),
        ({"encryption": "aes-128-gcm"}, 52e9, 52e9),
        ({"encryption": "aes-256-gcm", "cores": 3}, 147e9, 147e9),
        ({"checksum": "crc32c"}, 45e9, 45e9),
        ({"checksum": "xxh3"}, 185e9, 185e9),
        ({"checksum": "sha-256", "cores": 2}, 31.2e9, 31.2e9),
        ({"encryption": "aes-256-gcm", "checksum": "sha-256"}, 11.833e9, 11.833e9),  # 1 / (1/49 + 1/15.6)
        ({"encryption": "aes-256-gcm", "checksum": "sha-256", "serialize_bps": 8e9}, 4.773e9, 11.833e9),
    ],
)
def test_rates_of_one_rank(changed, made, read):
    saved = replace(PLAIN, **changed)
    assert file_bps(saved) == pytest.approx(made, rel=1e-3)
    assert cores_bps(saved) == pytest.approx(read, rel=1e-3)


def test_keys():
    asked = replace(PLAIN, keys="file", key_time_ps=30_000_000_000, key_rate=50.0)
    assert keys_s(asked, 32) == pytest.approx(0.03 + 31 / 50)
    assert keys_s(replace(asked, keys="job"), 32) == pytest.approx(0.03)
    assert keys_s(replace(asked, key_rate=0.0), 32) == pytest.approx(0.03)
    assert keys_s(replace(asked, keys="none"), 32) == 0.0


@pytest.mark.parametrize("gathered", [False, True])
def test_a_synchronous_checkpoint_waits_for_cores_and_keys(yard, gathered):
    """16 ranks (or one) encrypt at 49 and sum at 15.6 Gb/s a core, slower than the write; their keys come first."""
    saved = replace(
        PLAIN, gathered=gathered, encryption="aes-256-gcm", checksum="sha-256", cores=2, keys="file",
        key_time_ps=2_000_000_000, key_rate=1000.0,
    )  # fmt: skip
    plain, job = (yard.training(None, one, dp=16) for one in (replace(PLAIN, gathered=gathered), saved))
    on = yard.machine(16, latency_ps=0)
    _, timeline = yard.step(job, on, compute_s=0.01, checkpoint=True)
    expected = stall_s(job, StorageRates.of(on))
    writers = 1 if gathered else 16
    cores_s = checkpoint_bytes(job) * 8 / writers / (2 * 11.833e9) + 0.002 + (writers - 1) / 1000
    assert expected >= cores_s * 0.999
    assert stalled(timeline) == pytest.approx(expected, rel=0.1)
    assert expected > stall_s(plain, StorageRates.of(on))


def test_an_asynchronous_checkpoint_stalls_as_before(yard):
    saved = replace(PLAIN, asynchronous=True, interval_steps=10)
    on = yard.machine(16)
    costly = replace(saved, encryption="aes-256-gcm", checksum="sha-256", keys="file", key_rate=1.0)
    ends = [
        yard.step(yard.training(None, one, dp=16), on, compute_s=0.01, checkpoint=True)[1].makespan_ps
        for one in (saved, costly)
    ]
    assert ends[0] == ends[1]


def test_reading_back_asks_decrypts_and_checks(yard):
    saved = replace(PLAIN, encryption="aes-256-gcm", serialize_bps=10e9, keys="file", key_rate=100.0)
    graph = build(yard.training(None, saved, dp=16), yard.machine(16), checkpoint=True)
    flows: Flows = state_flows(graph, 1)
    assert flows.turned(Kind.READ).size_bytes.sum() == flows.bytes
    largest = flows.graph.size_bytes.max() * 8
    wrote, read = protected_s(saved, flows, 0.0, 0.0)
    asked = 0.02 + 15 / 100
    assert wrote == pytest.approx(asked + largest * (1 / 49e9 + 1 / 10e9))
    assert read == pytest.approx(asked + largest / 49e9)
    assert protected_s(saved, flows, 100.0, 200.0) == pytest.approx((100 + asked, 200 + asked))


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"cores": 0}, "cores"), ({"cores": 15}, "1 to 14"), ({"key_rate": -1.0}, "a service answers")],
)
def test_what_cannot_be_is_refused(yard, changed, words):
    with pytest.raises(InputError, match=words):
        build(yard.training(None, replace(PLAIN, **changed), dp=16), yard.machine(16), checkpoint=True)
