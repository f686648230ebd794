"""Packets of given traffic over a given network."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from railyard.measure.result.packet import PacketFigures
from railyard.measure.result.variants.variant import BaseVariant


class TrafficVariant(BaseVariant):
    """Given flows, without a model of training."""

    kind: ClassVar[str] = "traffic"
    packet: PacketFigures = Field(description="what became of the flows")
