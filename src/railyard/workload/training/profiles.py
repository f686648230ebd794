"""Dated constants of training software, one set per (software generation, device architecture).

A profile says how near to the device's own best kernels a software came, what it fuses, what its host costs, and what it can
hide. Constants are read off published runs at each family's smallest scale, never per run; each profile names its source.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from railyard.errors import InputError, did_you_mean
from railyard.workload.training.spec import SoftwareProfile

if TYPE_CHECKING:
    from railyard.catalog import Accelerator

_US = 1_000_000
_MS = 1_000_000_000

_NVIDIA_KERNELS = "kernel tables of MooreThreads/SimuMax v1.2 (Apache-2.0)"

_MEGATRON_2021 = SoftwareProfile(
    name="megatron-2021",
    architecture="ampere",
    date="2021-04",
    source="Narayanan et al. 2021, Korthikanti et al. 2022 table 5 (22B on 8 A100)",
    attention="unfused",
    gemm_fraction=0.95,
    memory_fraction=0.9,
    launch_ps=7 * _US,
    gradient_overlap=0.0,
    pipeline_overlap=0.5,
    step_ps=10 * _MS,
)
_DEEPSPEED_2021 = dataclasses.replace(
    _MEGATRON_2021,
    name="megatron-deepspeed-2021",
    source="vTrain data/ground_truth_single.csv (MICRO 2024, MIT), hidden size 2048",
    launch_ps=10 * _US,
    layer_host_ps=600 * _US,
)
_MEGATRON_2023 = SoftwareProfile(
    name="megatron-2023",
    architecture="hopper",
    date="2023-10",
    source="MLPerf Training v3.0 and v3.1, GPT-3 175B on 512 H100",
    attention="flash2",
    attention_forward=0.75,
    cast_bytes=5.0,
    gradient_bytes=2,
    step_ps=15 * _MS,
)
_MEGATRON_2024 = dataclasses.replace(
    _MEGATRON_2023,
    name="megatron-2024",
    date="2024-10",
    source="MLPerf Training v4.0 and v4.1, GPT-3 175B on 512 H100; Megatron-LM README (2024)",
    attention="cudnn",
    attention_forward=0.9,
    cast_bytes=3.0,
)
_MEGATRON_2025 = dataclasses.replace(
    _MEGATRON_2024,
    name="megatron-2025",
    date="2025-06",
    source="MLPerf Training v5.0, Llama 3.1 405B on 512 H100; Megatron-Bridge 25.09 and 25.11",
    attention_forward=1.0,
)
_MEGATRON_2026 = dataclasses.replace(
    _MEGATRON_2025, name="megatron-2026", date="2026-04", source="Megatron-Bridge 26.02 to 26.08 performance pages", fused_loss=True
)
_BLACKWELL = {"architecture": "blackwell", "attention_forward": 0.75, "attention_backward": 0.8}
_COMPOSER = SoftwareProfile(
    name="fsdp-composer-2023",
    architecture="ampere",
    date="2023-06",
    source="MosaicML llm-foundry MPT benchmarks (Apache-2.0), 8 GPUs",
    attention="flash1",
    attention_forward=0.6,
    attention_backward=0.6,
    fused_norm=False,
    fused_residual=False,
    fused_activation=False,
    launch_ps=7 * _US,
    gradient_bytes=2,
    step_ps=20 * _MS,
)
_TORCHTITAN = SoftwareProfile(
    name="torchtitan-2024",
    architecture="hopper",
    date="2024-12",
    source="torchtitan published benchmarks 2024-12 (BSD-3), 8 H100",
    attention="flash2",
    attention_forward=0.6,
    gradient_bytes=4,
    launch_ps=7 * _US,
)

PROFILES: tuple[SoftwareProfile, ...] = (
    _MEGATRON_2021,
    _DEEPSPEED_2021,
    dataclasses.replace(_MEGATRON_2023, architecture="ampere"),
    _MEGATRON_2023,
    _MEGATRON_2024,
    _MEGATRON_2025,
    dataclasses.replace(_MEGATRON_2025, **_BLACKWELL),
    _MEGATRON_2026,
    dataclasses.replace(_MEGATRON_2026, **_BLACKWELL),
    _COMPOSER,
    dataclasses.replace(_COMPOSER, architecture="hopper"),
    _TORCHTITAN,
    dataclasses.replace(_TORCHTITAN, name="torchtitan-2024-eager", fused_norm=False, fused_activation=False, fused_rope=False),
    SoftwareProfile(name="maxtext", architecture="tpu", date="2024-06", source="MLPerf Training v4.0, GPT-3 175B on TPU v5p"),
)


def names() -> tuple[str, ...]:
    """Names of the profiles, each once."""
    return tuple(dict.fromkeys(profile.name for profile in PROFILES))


def profile(name: str, device: Accelerator) -> SoftwareProfile:
    """The profile of that name as read on that device, else on its architecture, else on another one.

    Args:
        name: Such as `megatron-2026`.
        device: On which the software runs.

    Raises:
        InputError: There is no profile of that name.
    """
    named = [known for known in PROFILES if known.name == name]
    if not named:
        raise InputError(
            f"there is no software profile `{name}`", key="software", found=name, allowed=names(), hint=did_you_mean(name, names())
        )
    return max(named, key=lambda known: _nearness(known, device))


def default(device: Accelerator) -> SoftwareProfile:
    """The profile taken where none is asked for: the newest Megatron generation that was read on that architecture."""
    megatron = [known for known in PROFILES if known.name.startswith("megatron")]
    return max(megatron, key=lambda known: (min(_nearness(known, device), 1), known.date, _nearness(known, device)))


def _nearness(known: SoftwareProfile, device: Accelerator) -> int:
    """2: read on this device; 1: on its architecture; 0: on another."""
    if known.architecture == device.name:
        return 2
    return int(bool(known.architecture) and device.architecture.startswith(known.architecture))
