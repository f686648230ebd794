"""Packets of given traffic over a given network."""

from __future__ import annotations

from pydantic import Field

from railyard.result.packet import PacketSection
from railyard.result.variants.variant import BaseVariant


class TrafficVariant(BaseVariant):
    """Given flows, without a model of training."""

    packet: PacketSection = Field(description="what became of the flows")
