"""What it costs to keep a checkpoint secret and sound: ciphers and checksums on cores, and keys from a service.

A rank's state is encrypted and summed by cores of its host on its way into the file, one after the other:
1 / rate = 1 / serialize + 1 / cipher + 1 / checksum, the last two with as many cores as are given. Each file's key is
asked of a key service, whose requests of all writers together keep to a rate. Reading asks, decrypts and checks too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from railyard.cluster.fabric.encryption import AES_CORE_BPS

if TYPE_CHECKING:
    from railyard.work.training.spec import Checkpoint

CIPHER_CORE_BPS: Final = {"none": float("inf"), "aes-128-gcm": AES_CORE_BPS, "aes-256-gcm": 49e9}
"""Of one core. AES-256: OpenSSL 3.0.19, `openssl speed -evp aes-256-gcm -bytes 1048576`, a core of a server Xeon with
VAES: 48.5 to 51.6 Gb/s in four runs on a busy machine (2026)."""
CHECKSUM_CORE_BPS: Final = {"none": float("inf"), "crc32c": 45e9, "xxh3": 185e9, "sha-256": 15.6e9}
"""Of one core, the same machine: google-crc32c 42 to 49 Gb/s, xxhash's XXH3-128 173 to 203 (nine runs of 64 MiB each),
`openssl speed -evp sha256` with SHA-NI 15.6."""


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
