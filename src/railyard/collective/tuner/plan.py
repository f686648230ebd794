"""Channels and their speed: what NCCL's graph search finds on machines whose links are alike, in closed form.

The search tries per-channel speeds downwards and keeps as many channels as the links carry. With one kind of link that
is the product of the largest speed and the number of channels that still fit:

    one domain:       channels = floor(total / speed)
    several domains:  channels <= NIC ports, speed <= NIC, speed x channels <= total

where `total` is what one rank's scale-up links carry. Checked against the graphs that published logs show: 8 x A100
12 x 20 GB/s; 8 x H100 12 x 30 (NVLS 8 x 40), several servers with 8 x 400 Gb/s 8 x 45; 8 x B200 18 x 40 (NVLS 8 x 90).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.collective.tuner.constants import GENERATIONS, INTER_SPEEDS, INTRA_SPEEDS, generation_name, speeds

if TYPE_CHECKING:
    from railyard.collective.machine import CollectiveMachine
    from railyard.collective.shape import Shape

MAX_CHANNELS = 32
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class ChannelPlan:
    """Channels of a graph.

    Attributes:
        channels: Their number.
        intra: GB/s of one channel inside a domain.
        inter: GB/s of one channel across domains.
    """

    channels: int
    intra: float
    inter: float

    @property
    def total(self) -> float:
        """GB/s of all channels over their slower part."""
        return self.channels * min(self.intra, self.inter)


def ring_plan(machine: CollectiveMachine, shape: Shape) -> ChannelPlan:
    """Rings and trees."""
    if shape.domains == 1:
        return _one_domain(machine)
    return _several_domains(machine, shape)


def _one_domain(machine: CollectiveMachine) -> ChannelPlan:
    total = machine.plan_bps / 8e9
    generation = generation_name(machine.architecture)
    usual = GENERATIONS[generation].ring_speed
    best = (0.0, 0.0, 1, total)
    for speed in speeds(INTRA_SPEEDS, generation):
        channels = int(total * _ROUNDING / speed)
        if 1 <= channels <= MAX_CHANNELS:
            best = max(best, (channels * speed, -abs(speed - usual), channels, speed))
    beyond = total / MAX_CHANNELS
    if best[0] < 0.5 * total:  # faster or slower than any speed in the table
        return ChannelPlan(MAX_CHANNELS, beyond, beyond)
    return ChannelPlan(best[2], best[3], best[3])


def _several_domains(machine: CollectiveMachine, shape: Shape) -> ChannelPlan:
    nic = machine.nic_bps / 8e9
    total = machine.plan_bps / 8e9 if shape.per_domain > 1 else float("inf")
    best = (0.0, 0, 0.0)
    for speed in speeds(INTER_SPEEDS, generation_name(machine.architecture)):
        if speed > nic * _ROUNDING:
            continue
        channels = min(shape.ports, MAX_CHANNELS, int(min(total * _ROUNDING / speed, MAX_CHANNELS)))
        best = max(best, (channels * speed, channels, speed))
    if best[0] < 0.5 * min(nic * shape.ports, total):
        each = min(nic, total / shape.ports)
        return ChannelPlan(shape.ports, each, each)
    return ChannelPlan(best[1], best[2], best[2])


def switch_plan(machine: CollectiveMachine, shape: Shape) -> ChannelPlan:
    """In-switch reduction: every rank of a domain is the head of one channel."""
    heads = shape.per_domain
    each = machine.plan_bps / 8e9 / heads
    generation = generation_name(machine.architecture)
    table = speeds(INTRA_SPEEDS if shape.domains == 1 else INTER_SPEEDS, generation)
    intra = max((speed for speed in table if speed <= each * _ROUNDING), default=each)
    if shape.domains == 1:
        return ChannelPlan(heads, intra, intra)
    nic = machine.nic_bps / 8e9 * shape.ports / heads
    inter = max((speed for speed in table if speed <= nic * _ROUNDING), default=nic)
    return ChannelPlan(heads, intra, inter)
