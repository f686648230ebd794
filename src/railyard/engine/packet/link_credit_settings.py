"""Constants of credit-based flow control of links (InfiniBand), and how the core takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard import _core

MOST_LANES = 8


@dataclass(frozen=True)
class LinkCreditSettings:
    """Links with credits (`switching="credit"`). Where each default comes from: `docs/concepts/packet-infiniband.md`.

    Attributes:
        link_credit_buffer_bytes: Input buffer of a port for each virtual lane.
        link_credit_lanes: Virtual lanes; traffic class c travels in lane c modulo their number.
        link_credit_update_bytes: Space set free before a credit packet tells of it.
        link_credit_update_period_ps: Less is told of after so long, where the sender may be out of credit.
        link_credit_packet_bytes: A credit packet on the wire.
        link_credit_cut_through: A switch sends a packet on when its head is there; else when all of it is.
        link_credit_head_bytes: That head.
        link_credit_fifo: Inputs are one queue a lane, in place of one for each egress.
        link_credit_high_weight: Of each lane in the high-priority table, in blocks of 64 bytes; 0: not in it.
        link_credit_low_weight: The same of the low-priority table.
        link_credit_high_limit: Blocks of 4 KiB of high priority before a low one may go; 0: one packet; 255: no limit.
        link_credit_mark_bytes: Bytes waiting for an egress that has credit above which packets are marked; 0: never.
        link_credit_watch_ps: How long a lane is without credit before a circle of waiting lanes is looked for.
    """

    link_credit_buffer_bytes: int = 131_072
    link_credit_lanes: int = 1
    link_credit_update_bytes: int = 16_384
    link_credit_update_period_ps: int = 5_242_880
    link_credit_packet_bytes: int = 8
    link_credit_cut_through: bool = True
    link_credit_head_bytes: int = 20
    link_credit_fifo: bool = False
    link_credit_high_weight: tuple[int, ...] = ()
    link_credit_low_weight: tuple[int, ...] = (64,) * MOST_LANES
    link_credit_high_limit: int = 0
    link_credit_mark_bytes: int = 0
    link_credit_watch_ps: int = 100_000_000


LINK_CREDIT_KEYS = tuple(LinkCreditSettings.__dataclass_fields__)
"""The settings of this page."""


def put_link_credit(options: _core.PacketOptions, settings: LinkCreditSettings) -> None:
    """Puts the settings of this page into the core's options: `link_credit_x` into `options.link_credit.x`."""
    for key in LINK_CREDIT_KEYS:
        value = getattr(settings, key)
        if isinstance(value, tuple):
            value = [*value, *(0,) * MOST_LANES][:MOST_LANES]
        setattr(options.link_credit, key.removeprefix("link_credit_"), value)
