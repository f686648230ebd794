"""Storage traffic on the engine: bytes, rates, waiting with its name, and the closed form beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard.graph import Kind, Stream
from railyard.kit.errors import InputError
from railyard.measure.decompose import decompose
from railyard.model.machine import StorageRates
from railyard.work.training.graphs import build
from railyard.work.training.spec import Checkpoint, DataLoading
from railyard.work.training.stored import checkpoint_bytes, cores_bps, data_s, file_bps, keys_s, stall_s
from railyard.work.training.storing import StateFlows, protected_s, state_flows

GB = 1e9


def cause(timeline, word):
    return sum(row.seconds for row in decompose(timeline).rows if row.cause == word)


def heavy(**changed):
    """One item of 1 GB a sequence, 4 sequences a rank."""
    return DataLoading(**{"format": "volumes", "item_size_bytes": 10**9, "request_size_bytes": 10**9} | changed)


def test_bytes_are_conserved(yard):
    on = yard.machine(16)
    graph, timeline = yard.step(yard.training(heavy(), dp=16), on, compute_s=1.0)
    read = graph.kind == Kind.READ
    assert graph.size_bytes[read].sum() == 16 * 4 * 10**9
    assert timeline.table("links")["bytes"][on.storage_servers.read_link].sum() == pytest.approx(16 * 4 * 10**9)
    assert timeline.table("links")["bytes"][on.storage_servers.write_link].sum() == 0


def test_slow_data_is_idle_time_with_its_name(yard):
    """Two nodes of 60 GB/s for 16 ranks that want 64 GB each second: the step is 64 / 120 s of bytes, or computing."""
    on = yard.machine(16, network_bps=4e12, latency_ps=0)
    # The two servers' NICs pass 2 x 50 GB/s.
    _, slow = yard.step(yard.training(heavy(), dp=16), on, compute_s=0.2)
    assert slow.makespan_ps == pytest.approx(64 / 100 * 1e12, rel=0.02)
    assert cause(slow, "data") == pytest.approx(0.64 - 0.2, rel=0.03)
    _, fast = yard.step(yard.training(heavy(), dp=16), on, compute_s=1.0)
    assert cause(fast, "data") < 1e-3
    assert fast.makespan_ps == pytest.approx(1e12, rel=0.01)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_share_the_way_to_storage_but_not_their_cores(yard, workers):
    on = yard.machine(8, latency_ps=0)
    data = heavy(workers=workers, item_time_ps=10**11)
    _, timeline = yard.step(yard.training(data, dp=8), on, compute_s=0.01)
    read_s, prepare_s = 8 * 4 / 50, 4 * 0.1  # the server's two NICs pass 50 GB/s
    assert timeline.makespan_ps * 1e-12 == pytest.approx(max(read_s, (read_s + prepare_s) / workers), rel=0.03)


def test_operations_limit_small_reads(yard):
    def span(iops, **changed):
        on = yard.machine(8, latency_ps=0, iops=iops)
        data = heavy(item_size_bytes=10**5, items_per_sequence=1000, request_size_bytes=10**5, workers=8, **changed)
        return yard.step(yard.training(data, dp=8), on, compute_s=0.001)[1].makespan_ps * 1e-12

    asked = 8 * 4 * 1000
    assert span(8_000) == pytest.approx(asked / (2 * 8_000), rel=0.03)
    assert span(0) < 0.1
    assert span(8_000, access="sequential") < 0.1


def test_waiting_for_the_first_byte_of_each_request(yard):
    on = yard.machine(8, latency_ps=10**9)
    data = heavy(item_size_bytes=1000, items_per_sequence=100, workers=2)
    _, one = yard.step(yard.training(data, dp=8), on, compute_s=0.001)
    assert one.makespan_ps * 1e-12 == pytest.approx(400 * 1e-3 / 2, rel=0.05)
    deep = heavy(item_size_bytes=1000, items_per_sequence=100, workers=2, queue_depth=10)
    assert yard.step(yard.training(deep, dp=8), on, compute_s=0.001)[1].makespan_ps * 1e-12 < 0.03


def test_a_checkpoint_competes_with_reads_on_the_same_nodes(yard):
    """Own drives: reads and writes have links of their own; on one network they share the NICs' two directions."""
    on = yard.machine(16, network="back_end")
    job = yard.training(heavy(), Checkpoint(interval_steps=1, bytes_per_parameter=1e6), dp=16)
    graph, timeline = yard.step(job, on, compute_s=0.01)
    writes = np.flatnonzero(graph.kind == Kind.WRITE)
    assert writes.size == 16
    assert cause(timeline, "data") + cause(timeline, "checkpoint") > 0.1


@pytest.mark.parametrize("network", ["front_end", "back_end"])
@pytest.mark.parametrize("workers", [0, 1, 4])
def test_the_closed_form_agrees_with_the_engine(yard, network, workers):
    on = yard.machine(32, network=network, servers=3)
    job = yard.training(heavy(workers=workers, item_time_ps=10**10), dp=32)
    _, timeline = yard.step(job, on, compute_s=0.05)
    rates = StorageRates.of(on)
    free_s = timeline.makespan_ps * 1e-12 - cause(timeline, "data")
    assert data_s(job, rates, free_s) == pytest.approx(cause(timeline, "data"), rel=0.05)


@pytest.mark.parametrize("gathered", [False, True])
def test_a_synchronous_checkpoint_is_its_bytes_over_the_rate(yard, gathered):
    saved = Checkpoint(asynchronous=False, gathered=gathered, bytes_per_parameter=4e5)
    job, on = yard.training(None, saved, dp=16), yard.machine(16, latency_ps=0)
    graph, timeline = yard.step(job, on, compute_s=0.01, checkpoint=True)
    total = checkpoint_bytes(job)
    assert graph.size_bytes[graph.kind == Kind.WRITE].sum() == pytest.approx(total, rel=1e-3)
    assert (graph.kind == Kind.WRITE).sum() == (1 if gathered else 16)
    expected = stall_s(job, StorageRates.of(on))
    assert cause(timeline, "checkpoint") == pytest.approx(expected, rel=0.1)


def test_copies_to_other_hosts_cross_the_back_end(yard):
    saved = Checkpoint(memory_copies=1, interval_steps=10**6)
    job, on = yard.training(None, saved, dp=16), yard.machine(16)
    graph, _ = yard.step(job, on, compute_s=0.01)
    sends = np.flatnonzero((graph.kind == Kind.TRANSFER) & (graph.stream == Stream.COPY))
    assert graph.rank[sends].tolist() == list(range(16))
    assert graph.peer[sends].tolist() == [(rank + 8) % 16 for rank in range(16)]
    assert graph.size_bytes[sends].sum() == pytest.approx(checkpoint_bytes(job), rel=1e-2)


def test_a_copy_beside_the_step_stalls_only_what_it_lasts_longer(yard):
    saved = Checkpoint(overlap_copy=True, bytes_per_parameter=1e6, interval_steps=1000)
    job, on = yard.training(None, saved, dp=8), yard.machine(8)
    copy_s = checkpoint_bytes(job) / 8 * 8 / on.server.pcie_bps
    _, hidden = yard.step(job, on, compute_s=2 * copy_s, checkpoint=True)
    assert cause(hidden, "checkpoint") < 0.02 * copy_s
    _, seen = yard.step(job, on, compute_s=0.5 * copy_s, checkpoint=True)
    assert seen.makespan_ps * 1e-12 == pytest.approx(copy_s, rel=0.02)


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        (Checkpoint(memory_copies=1), "too few other servers"),
        (Checkpoint(copy_share=1.5), "share of the link"),
        (Checkpoint(interval_steps=0), "at least one step"),
        (Checkpoint(bytes_per_parameter=0.0), "has bytes"),
        (Checkpoint(bytes_per_parameter=1e9), "do not fit in the host"),
    ],
)
def test_bad_checkpoints_are_named(yard, saved, words):
    with pytest.raises(InputError, match=words):
        build(yard.training(None, saved, dp=8), yard.machine(8))


def test_more_workers_than_cores_do_not_help(yard):
    on = yard.machine(8, latency_ps=0)
    assert on.server.host_cores == 112
    data = heavy(workers=1000, item_size_bytes=1000, item_time_ps=7 * 10**12)
    job = yard.training(data, dp=8)
    _, timeline = yard.step(job, on, compute_s=0.01)
    assert timeline.makespan_ps * 1e-12 == pytest.approx(8 * 4 * 7 / 112, rel=0.02)
    assert data_s(job, StorageRates.of(on), 0.01) == pytest.approx(8 * 4 * 7 / 112 - 0.01, rel=0.02)


@pytest.mark.parametrize(
    ("data", "saved", "words"),
    [
        (heavy(item_time_ps=10**18), None, "longer than can be simulated"),
        (heavy(item_size_bytes=10**18), None, "more in a step than can be simulated"),
        (None, Checkpoint(asynchronous=False, serialize_bps=1.0), "longer than can be simulated"),
    ],
)
def test_what_no_step_has_is_refused(yard, data, saved, words):
    with pytest.raises(InputError, match=words):
        build(yard.training(data, saved, dp=8), yard.machine(8), checkpoint=True)


# Ciphers, checksums and keys of checkpoints: closed form, engine, restart, by hand.

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
    flows: StateFlows = state_flows(graph, 1)
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
