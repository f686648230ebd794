"""What a device must be able to do so that it can be measured, and the clock that measures it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from railyard.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Facts:
    """What a device says of itself.

    Attributes:
        name: As its driver calls it.
        machine: Host name and operating system.
        driver: Version of its driver, or "".
        libraries: Versions by name.
        readings: Clock, power and temperature as read while it worked, by name with unit; empty where unreadable.
        devices: How many like it are in the machine.
    """

    name: str
    machine: str
    driver: str
    libraries: Mapping[str, str]
    readings: Mapping[str, str] = field(default_factory=dict)
    devices: int = 1

    def __str__(self) -> str:
        versions = [f"{name} {version}" for name, version in self.libraries.items()]
        parts = [self.machine, self.name, *([f"driver {self.driver}"] if self.driver else []), *versions]
        return ", ".join(parts)


class Device(Protocol):
    """A device that can run the operators of a training step.

    Each method that makes an operator allocates its operands and gives a call that runs it once, or None where the
    device or its library cannot run it.
    """

    datatypes: tuple[str, ...]
    """Names in the catalogue of the operand widths that it can multiply, the 16-bit one first."""
    refusals: tuple[type[Exception], ...]
    """What it raises for an operator that it cannot run after all: too large for it, or without a kernel."""

    def facts(self) -> Facts:
        """What it says of itself."""
        ...

    def entry(self, catalog: Catalog, name: str | None) -> tuple[str, str]:
        """Name of its catalogue entry, and the text of a whole new entry where there is none to lay values over."""
        ...

    def product(self, m: int, n: int, k: int, datatype: str) -> Callable[[], object] | None:
        """A matrix product (m x k) by (k x n)."""
        ...

    def grouped(self, experts: int, m: int, n: int, k: int) -> Callable[[], object] | None:
        """As many products of that shape as one operator."""
        ...

    def attention(
        self, batch: int, heads: int, sequence: int, width: int, *, backward: bool
    ) -> Callable[[], object] | None:
        """Causal attention forward, or forward and backward."""
        ...

    def copy(self, size_bytes: int) -> Callable[[], object]:
        """A copy of that many bytes, each read once and written once."""
        ...

    def norm(self, rows: int, width: int) -> Callable[[], object]:
        """A norm over rows."""
        ...

    def norm_bytes(self, rows: int, width: int) -> int:
        """Bytes that a norm reads and writes at least."""
        ...

    def tiny(self) -> Callable[[], object]:
        """The smallest kernel."""
        ...

    def seconds(self, call: Callable[[], object], repeats: int) -> float:
        """Seconds of so many calls in a row on the device."""
        ...

    def host_seconds(self, call: Callable[[], object], repeats: int) -> float:
        """Seconds that the host is busy with so many calls."""
        ...

    def gap_s(self, repeats: int) -> float:
        """Seconds between the end of a kernel and the start of the next one in a stream kept busy."""
        ...

    def collectives(self, sizes_bytes: tuple[int, ...]) -> dict[tuple[str, int], float]:
        """Seconds of collectives over all devices of the machine, by kind and size; empty with one device."""
        ...


def median_s(device: Device, call: Callable[[], object], *, least_s: float, most: int = 50) -> tuple[float, float]:
    """Seconds of one call and their spread: the median of samples, and what lies between their quartiles over it.

    Args:
        device: Runs and times the call.
        call: Run once beforehand, so that libraries choose their kernels outside the clock.
        least_s: Measured until so much has passed, and five samples at least.
        most: Samples at most.
    """
    call()
    # Short calls are timed several at a time, so that a reading of the clock does not count.
    once = max(device.seconds(call, 1), 1e-9)
    together = max(1, min(1000, round(least_s / 10.0 / once)))
    samples: list[float] = []
    begin = time.monotonic()
    while len(samples) < 5 or (time.monotonic() - begin < least_s and len(samples) < most):
        samples.append(device.seconds(call, together) / together)
    ordered = sorted(samples)
    middle = ordered[len(ordered) // 2]
    return middle, (ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4]) / middle
