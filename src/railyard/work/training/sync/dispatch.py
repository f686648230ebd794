"""Tokens on their way to experts in few bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from railyard.kit.registry import Registry
from railyard.kit.schema.bounds import WIDTHS, bounded, limits
from railyard.work.training.sync.compression.quantized import share_of
from railyard.work.training.sync.published import Finding


class Dispatch(Protocol):
    """How tokens travel to their experts and back; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        kind: Its name.
        published: What its papers report about convergence.
    """

    kind: ClassVar[str]
    published: ClassVar[tuple[Finding, ...]]

    def share(self) -> float:
        """Bytes of both ways as sent, over those of 16 bits."""

    def cast_bytes(self) -> float:
        """Bytes through memory for each number that is sent there and back, to code and decode it."""

    def problems(self) -> list[tuple[str, str, str, str]]:
        """What is wrong with the values: message, key, found, allowed."""


dispatches: Registry[type[Dispatch]] = Registry("dispatch of tokens")

_WIDTHS = (4, 8, 16)


@dataclass(frozen=True)
class QuantizedDispatch:
    """Block-quantized all-to-all: tokens go to their experts in few bits, and come back in others.

    DeepSeek-V3 sends in 8 bits with a scale for every 128 numbers, and combines in 16 (arXiv 2412.19437, section 3.3).

    Attributes:
        dispatch_bits: Of a number on its way to an expert.
        combine_bits: Of a number on its way back.
        block: Numbers that share a scale.
    """

    kind: ClassVar[str] = "quantized"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "relative loss error below 0.25 % for FP8 training with 8-bit dispatch",
            "models of 16 and 230 billion parameters on about 1 trillion tokens",
            "DeepSeek-V3, arXiv 2412.19437, section 3.3 and appendix B",
        ),
    )

    dispatch_bits: int = field(default=8, metadata=bounded(WIDTHS))
    combine_bits: int = field(default=16, metadata=bounded(WIDTHS))
    block: int = field(default=128, metadata=bounded(limits(1, 2**31 - 1)))

    def share(self) -> float:
        """Mean of both ways."""
        return (share_of(self.dispatch_bits, self.block) + share_of(self.combine_bits, self.block)) / 4.0

    def cast_bytes(self) -> float:
        """Each way that is narrow reads 16 bits and writes few, then the other way round."""
        narrow = [bits for bits in (self.dispatch_bits, self.combine_bits) if bits < 16]
        return sum(2.0 * (2.0 + share_of(bits, self.block)) for bits in narrow)

    def problems(self) -> list[tuple[str, str, str, str]]:
        """What is wrong with the values."""
        found = []
        for key, bits in (("dispatch_bits", self.dispatch_bits), ("combine_bits", self.combine_bits)):
            if bits not in _WIDTHS:
                found.append(("there is no such width", key, str(bits), ", ".join(map(str, _WIDTHS))))
        return found


dispatches.add(QuantizedDispatch.kind, QuantizedDispatch)
