"""Storage in closed form: what a step waits for data, and what checkpoints add to the mean step.

The engine lets flows share every link. Here all ranks that read (or write) do so at once, and each gets the least of
its share of the storage system, of its server's NICs, and of the device's operations a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from railyard.cluster.fabric.encryption import AES_CORE_BPS
from railyard.work.training.loading import cache_seconds, cores_of, load_of, readers, readers_together, step_s
from railyard.work.training.stages import virtual_stages

if TYPE_CHECKING:
    from railyard.model.machine import StorageRates
    from railyard.work.training.spec import Checkpoint, Training


CIPHER_CORE_BPS: Final = {"none": float("inf"), "aes-128-gcm": AES_CORE_BPS, "aes-256-gcm": 49e9}
"""Rate of one core. AES-256: OpenSSL 3.0.19, `openssl speed -evp aes-256-gcm -bytes 1048576`, a core of a server
Xeon with VAES: 48.5 to 51.6 Gb/s in four runs on a busy machine (2026)."""
CHECKSUM_CORE_BPS: Final = {"none": float("inf"), "crc32c": 45e9, "xxh3": 185e9, "sha-256": 15.6e9}
"""Rate of one core of the same machine: google-crc32c 42 to 49 Gb/s, xxhash's XXH3-128 173 to 203 (nine runs of 64 MiB
each), `openssl speed -evp sha256` with SHA-NI 15.6."""


def cores_bps(saved: Checkpoint) -> float:
    """Rate at which the cores of one rank encrypt and sum, bit/s; infinite where they do neither."""
    each = 1.0 / CIPHER_CORE_BPS[saved.encryption] + 1.0 / CHECKSUM_CORE_BPS[saved.checksum]
    return saved.cores / each if each else float("inf")


def file_bps(saved: Checkpoint) -> float:
    """Rate at which one rank makes a file of its state, bit/s; infinite where nothing limits it."""
    serialize = 1.0 / saved.serialize_bps if saved.serialize_bps else 0.0
    each = serialize + 1.0 / cores_bps(saved)
    return 1.0 / each if each else float("inf")


def keys_s(saved: Checkpoint, writers: int) -> float:
    """Seconds until all writers have keys: one answer's time, and the requests before the last at the service's rate.

    Args:
        saved: How checkpoints are written.
        writers: Files, with a key each; one key for all of them under `keys: job`.
    """
    if saved.keys == "none":
        return 0.0
    requests = writers if saved.keys == "file" else 1
    queued = (requests - 1) / saved.key_rate if saved.key_rate else 0.0
    return saved.key_time_ps * 1e-12 + queued


def data_s(training: Training, rates: StorageRates, compute_s: float) -> float:
    """Seconds of a step that wait for data; 0 where the job reads none."""
    data = training.data
    if data is None:
        return 0.0
    load, ranks = load_of(training, rates.servers), readers(training)
    together = readers_together(training, rates.ranks_per_server)
    read_s = load.stored_bytes * 8 / rates.shared_bps(rates.read_bps, ranks, together)
    if rates.iops:
        read_s = max(read_s, load.requests * ranks / rates.iops)
    cache_s = cache_seconds(training, rates.ranks_per_server, load)
    worker_s = load.worker_s(rates.latency_s, data.queue_depth, cache_s)
    total_s = step_s(
        compute_s,
        read_s + rates.latency_s,
        worker_s,
        workers=data.workers,
        prefetch=data.prefetch,
        batches=training.layout.micro_batches,
        least_s=load.prepare_s / cores_of(training, rates.cores, rates.ranks_per_server),
    )
    return total_s - compute_s


def checkpoint_bytes(training: Training) -> float:
    """Bytes of a checkpoint of the whole job."""
    from railyard.work.training.compute import stage_parameters

    saved, layout = training.checkpoint, training.layout
    if saved is None:
        return 0.0
    stages = [stage_parameters(training, stage) for stage in virtual_stages(training.model, layout)]
    stage = layout.tp * layout.cp * layout.dp
    dense = sum(part.trained_dense for part in stages) * layout.tp
    expert = sum(part.trained_expert for part in stages) * stage / layout.edp
    return (dense + expert) * saved.bytes_per_parameter


def stall_s(training: Training, rates: StorageRates) -> float:
    """Seconds by which a checkpoint lengthens its step."""
    saved, layout = training.checkpoint, training.layout
    if saved is None or (saved.asynchronous and saved.overlap_copy):
        return 0.0
    total = checkpoint_bytes(training) * 8
    writers = layout.tp * layout.pp if saved.gathered else layout.ranks
    each, gather_s = total / writers, 0.0
    if saved.gathered and rates.servers > 1:
        inward_bps = rates.back_end_bps * rates.ranks_per_server
        gather_s = total / max(layout.pp, 1) * (1 - 1 / rates.servers) / inward_bps
    copy_s = each / (rates.host_bps * saved.copy_share)
    if saved.asynchronous:
        return gather_s + copy_s
    together = min(layout.tp if saved.gathered else layout.ranks, rates.ranks_per_server)
    write_s = each / rates.shared_bps(rates.write_bps, writers, together)
    return gather_s + keys_s(saved, writers) + max(write_s, copy_s, each / file_bps(saved))


def checkpoint_s(training: Training, rates: StorageRates) -> float:
    """What checkpoints add to the mean step, seconds."""
    saved = training.checkpoint
    return 0.0 if saved is None else stall_s(training, rates) / max(saved.interval_steps, 1)
