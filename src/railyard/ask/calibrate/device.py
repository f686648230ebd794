"""What a device must be able to do so that it can be measured, and the clock that measures it."""

from __future__ import annotations

import os
import platform
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from railyard.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Facts:
    """A device's description of itself.

    Attributes:
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


class MeasurableDevice(Protocol):
    """A device that can run the operators of a training step.

    Each method that makes an operator allocates its operands and gives a call that runs it once, or None where the
    device or its library cannot run it.
    """

    datatypes: tuple[str, ...]
    """Names in the catalogue of the operand widths that it can multiply, the 16-bit one first."""
    refusals: tuple[type[Exception], ...]
    """What it raises for an operator that it cannot run after all: too large for it, or without a kernel."""

    def facts(self) -> Facts:
        """The device's description of itself."""
        ...

    def entry(self, catalog: Catalog, name: str | None) -> tuple[str, str]:
        """Name of its catalogue entry, and the text of a whole new entry where there is none to lay values over."""
        ...

    def product(self, m: int, n: int, k: int, datatype: str) -> Callable[[], object] | None:
        """A matrix product (m x k) by (k x n)."""
        ...

    def grouped(self, experts: int, m: int, n: int, k: int) -> Callable[[], object] | None:
        """Several products of that shape as one operator."""
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


def median_s(device: MeasurableDevice, call: Callable[[], object], *, least_s: float) -> tuple[float, float]:
    """Seconds of one call and their spread: the median of samples, and what lies between their quartiles over it.

    Args:
        device: Runs and times the call.
        call: Run once beforehand, so that libraries choose their kernels outside the clock.
        least_s: Measured until so much has passed: five samples at least, and 50 at most.
    """
    call()
    # Short calls are timed several at a time, so that a reading of the clock does not count.
    once = max(device.seconds(call, 1), 1e-9)
    together = max(1, min(1000, round(least_s / 10.0 / once)))
    samples: list[float] = []
    begin = time.monotonic()
    while len(samples) < 5 or (time.monotonic() - begin < least_s and len(samples) < 50):
        samples.append(device.seconds(call, together) / together)
    ordered = sorted(samples)
    middle = ordered[len(ordered) // 2]
    return middle, (ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4]) / middle


_NAME = "this-cpu"
# 32-bit FLOP a core and cycle: two fused multiply-adds of the register's width.
_PER_CYCLE = (("avx512f", 64.0), ("fma", 32.0), ("asimd", 16.0), ("avx", 16.0))
# An entry must state what nobody can measure from inside; guesses, and called so in it.
_GUESSES = """    scale_up_kind: {value: none, from: guess}
    scale_up_domain: {value: 1, from: guess}
    scale_up_bandwidth: {value: 0 GB/s, from: guess}
    scale_up_collective_bandwidth: {value: 0 GB/s, from: guess}
    scale_up_links: {value: 0, from: guess}
    scale_up_latency: {value: 1 us, from: guess}
    nvls: {value: false, from: guess}
    tdp: {value: 200 W, from: guess}
    power: {low: 50 W, typical: 150 W, high: 200 W, from: guess}
    idle_power: {low: 10 W, typical: 40 W, high: 80 W, from: guess}
    price: {low: $1k, typical: $4k, high: $10k, from: guess}
    rental: {low: $0.05/h, typical: $0.2/h, high: $1/h, from: guess}
"""


class NumpyDevice:
    """The cores that this process may use."""

    datatypes: tuple[str, ...] = ("fp32",)
    refusals: tuple[type[Exception], ...] = (MemoryError,)

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)

    def _made(self, *shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return self._random.standard_normal(shape, dtype=np.float32)

    def facts(self) -> Facts:
        """Processor, host, and the library that multiplies."""
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        libraries = {"Python": platform.python_version(), "NumPy": np.__version__}
        libraries[str(blas.get("name", "BLAS"))] = str(blas.get("version", "of unknown version"))
        clock = _cpu("cpu MHz")
        return Facts(
            name=_cpu("model name") or platform.machine(),
            machine=f"{platform.node() or 'a host without a name'} ({platform.system()} {platform.release()})",
            driver="",
            libraries=libraries,
            readings={"clock": f"{float(clock):.0f} MHz"} if clock else {},
        )

    def entry(self, catalog: Catalog, name: str | None) -> tuple[str, str]:
        """A whole entry, for the catalogue holds accelerators only."""
        del catalog
        cores, clock = _cores(), _clock_hz()
        peak = cores * clock * _flop_per_cycle()
        text = f"""    summary: "The processor of {_plain(platform.node()) or "this machine"}, through NumPy"
    vendor: "{_plain(_cpu("vendor_id") or platform.machine())}"
    architecture: cpu
    year: {{value: {time.localtime().tm_year}, from: guess}}
    flops: {{fp32: {peak / 1e9:.1f} GFLOP/s, bf16: {peak / 1e9:.1f} GFLOP/s, from: peak}}
    memory: {{value: {os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")} B, from: measured}}
    l2: {{value: 1 MiB, from: guess}}
    sm_count: {{value: {cores}, from: measured}}
    clock: {{value: {clock / 1e9:.2f} GHz, from: measured}}
"""
        return name or _NAME, text + _GUESSES

    def product(self, m: int, n: int, k: int, datatype: str) -> Callable[[], object] | None:
        """A 32-bit product."""
        if datatype not in self.datatypes:
            return None
        left, right, out = self._made(m, k), self._made(k, n), np.empty((m, n), dtype=np.float32)
        return lambda: np.matmul(left, right, out=out)

    def grouped(self, experts: int, m: int, n: int, k: int) -> Callable[[], object] | None:
        """A batch of 32-bit products."""
        left, right = self._made(experts, m, k), self._made(experts, k, n)
        out = np.empty((experts, m, n), dtype=np.float32)
        return lambda: np.matmul(left, right, out=out)

    def attention(
        self, batch: int, heads: int, sequence: int, width: int, *, backward: bool
    ) -> Callable[[], object] | None:
        """Attention with the scores written out: NumPy has no fused kernel."""
        query, key, value, grad = (self._made(batch * heads, sequence, width) for _ in range(4))
        mask = np.triu(np.full((sequence, sequence), -np.inf, dtype=np.float32), 1)

        def forward() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
            scores = query @ key.transpose(0, 2, 1) * np.float32(width**-0.5) + mask
            scores -= scores.max(axis=2, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=2, keepdims=True)
            return scores

        def both() -> object:
            shares = forward()
            shares @ value
            gained = grad @ value.transpose(0, 2, 1)
            inner = shares * (gained - (gained * shares).sum(axis=2, keepdims=True))
            return inner @ key, inner.transpose(0, 2, 1) @ query, shares.transpose(0, 2, 1) @ grad

        return both if backward else lambda: forward() @ value

    def copy(self, size_bytes: int) -> Callable[[], object]:
        """A copy in memory."""
        source = np.zeros(size_bytes, dtype=np.uint8)
        target = np.ones_like(source)
        return lambda: np.copyto(target, source)

    def norm_bytes(self, rows: int, width: int) -> int:
        """32-bit values, read and written."""
        return 2 * rows * width * 4

    def norm(self, rows: int, width: int) -> Callable[[], object]:
        """A root-mean-square norm, one pass an operation."""
        taken, out = self._made(rows, width), np.empty((rows, width), dtype=np.float32)

        def call() -> object:
            scale = np.sqrt(np.einsum("ij,ij->i", taken, taken) / np.float32(width))
            return np.divide(taken, scale[:, None], out=out)

        return call

    def tiny(self) -> Callable[[], object]:
        """One addition."""
        one = np.zeros(1, dtype=np.float32)
        return lambda: np.add(one, one, out=one)

    def seconds(self, call: Callable[[], object], repeats: int) -> float:
        """Seconds by the host's clock."""
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return time.perf_counter() - begin

    def host_seconds(self, call: Callable[[], object], repeats: int) -> float:
        """Host and device are one."""
        return self.seconds(call, repeats)

    def gap_s(self, repeats: int) -> float:
        """The smallest operation is all gap."""
        call = self.tiny()
        call()
        return self.seconds(call, repeats) / repeats

    def collectives(self, sizes_bytes: tuple[int, ...]) -> dict[tuple[str, int], float]:
        """There is one processor."""
        del sizes_bytes
        return {}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu(key: str) -> str:
    """A line of the kernel's description of the first core, or ""."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(rf"^{re.escape(key)}\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def _clock_hz() -> float:
    clock = _cpu("cpu MHz")
    return float(clock) * 1e6 if clock else 2.5e9


def _flop_per_cycle() -> float:
    flags = set((_cpu("flags") or _cpu("Features")).split())
    return next((flop for flag, flop in _PER_CYCLE if flag in flags), 8.0)


def _plain(text: str) -> str:
    """A word of the system without what would end a quoted text."""
    return re.sub(r"[^\w .()+-]", "", text)
