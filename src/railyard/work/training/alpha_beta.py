"""Time of a collective in closed form: latency by steps, bytes by the slower of scale-up and scale-out.

Where the machine has a collective library, its curves say how long: what the engine `flow` takes alone.

A group of n ranks at a distance of `stride` ranks has `local` of them in each scale-up domain. Rings leave a domain by
the NICs of all its members at once, so the domain's share of the network is `local` NICs; all other groups use their
own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind
from railyard.model.machine import LAUNCH_S, SCALE_OUT_STEP_S, SCALE_UP_STEP_S

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.model.machine import MachineColumns

# In-switch reduction against a ring: measured bus bandwidth of 8 H100, 480 GB/s against 360 (NCCL logs).
_NVLS_GAIN = 4.0 / 3.0


@dataclass(frozen=True, slots=True)
class Group:
    """A class of communicators: members, and distance between two neighbours in rank order."""

    ranks: F
    stride: F

    def local(self, machine: MachineColumns) -> F:
        """Members inside one scale-up domain."""
        return np.clip(np.floor(machine.domain / self.stride), 1.0, self.ranks)


def collective_s(kind: CollectiveKind, size_bytes: F, group: Group, machine: MachineColumns, fraction: F) -> F:
    """Seconds of one collective with the network to itself.

    Args:
        kind: Of the collective.
        size_bytes: As nccl-tests counts it (the larger buffer of one rank).
        group: Its communicator.
        machine: Rates.
        fraction: Of the link rates that it reaches.
    """
    n, local = group.ranks, group.local(machine)
    if machine.curves is not None:
        return machine.curves.seconds(kind, size_bytes, (n, local), machine.longer)
    domains = np.ceil(n / local)
    if kind == CollectiveKind.ALL_TO_ALL:
        inside = size_bytes * (local - 1.0) / n / machine.inside_bytes_s(local)
        outside = size_bytes * (n - local) / n / machine.out_bytes_s
        steps = SCALE_UP_STEP_S * (local - 1.0) + 1e-6 * (n - local)
        return np.where(n > 1, LAUNCH_S + steps + np.maximum(inside, outside) / fraction, 0.0)
    passes = 2.0 if kind == CollectiveKind.ALL_REDUCE else 1.0
    moved = passes * size_bytes * (n - 1.0) / n
    gain = np.where((machine.nvls > 0) & (domains == 1.0), _NVLS_GAIN, 1.0) if passes > 1.0 else 1.0
    inside = moved / (machine.inside_bytes_s(local) * gain)
    outside = np.where(domains > 1, moved / (machine.out_bytes_s * local), 0.0)
    # Trees keep an all-reduce's latency logarithmic in the number of domains.
    far = np.minimum(domains - 1.0, 4.0 * np.log2(domains) + 1.0) if passes > 1.0 else domains - 1.0
    steps = passes * (SCALE_UP_STEP_S * (local - 1.0) + SCALE_OUT_STEP_S * far)
    return np.where(n > 1, LAUNCH_S + steps + np.maximum(inside, outside) / fraction, 0.0)


def wire_bytes(kind: CollectiveKind, size_bytes: F, group: Group, machine: MachineColumns) -> tuple[F, F]:
    """Bytes that one rank sends on its scale-up links and through its own NICs, as `collective_s` counts them.

    Args:
        kind: Of the collective.
        size_bytes: As nccl-tests counts it.
        group: Its communicator.
        machine: Sizes of domains.
    """
    n, local = group.ranks, group.local(machine)
    if kind == CollectiveKind.ALL_TO_ALL:
        return size_bytes * (local - 1.0) / n, size_bytes * (n - local) / n
    moved = (2.0 if kind == CollectiveKind.ALL_REDUCE else 1.0) * size_bytes * (n - 1.0) / n
    return np.where(local > 1, moved, 0.0), np.where(n > local, moved / local, 0.0)


def wire_bytes_s(group: Group, machine: MachineColumns, fraction: F, *, exchange: bool = False) -> F:
    """Bytes per second that each rank sends while a large collective runs, 0 in a group of one.

    Args:
        group: Its communicator.
        machine: Rates.
        fraction: Of the link rates that it reaches.
        exchange: An all-to-all, which leaves a domain by each rank's own NIC.
    """
    n, local = group.ranks, group.local(machine)
    inside, outside = machine.inside_bytes_s(local), machine.out_bytes_s * (1.0 if exchange else local)
    if exchange:  # what sends nothing has no limit, which times no peers would be no number
        inside = inside * np.where(local > 1, (n - 1.0) / np.maximum(local - 1.0, 1.0), 1.0)
        outside = outside * np.where(n > local, (n - 1.0) / np.maximum(n - local, 1.0), 1.0)
    sent = np.minimum(inside, np.where(n > local, outside, np.inf))
    return np.where(n > 1, sent, 0.0) * fraction


def send_s(size_bytes: F, stride: F, machine: MachineColumns) -> F:
    """Seconds of one send to the rank `stride` further on."""
    near = stride < machine.domain
    rate = np.where(near, machine.inside_bytes_s(np.full_like(stride, 2.0)), machine.out_bytes_s)
    return LAUNCH_S + np.where(near, SCALE_UP_STEP_S, SCALE_OUT_STEP_S) + size_bytes / rate
