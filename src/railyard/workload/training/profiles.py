"""Dated constants of training software, one set per (software generation, device architecture or device).

A profile says how near to the device's own best kernels a software came, what it fuses, what its host costs, and what
it can hide. Constants are read off published runs, never per run, at each family's smallest scale; the shares of the
Blackwell devices off all published dense runs on them, and those of experts off all scales, for want of small ones.
Each profile names its source; where runs disagree, the middle is taken.
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

_MEGATRON_2021 = SoftwareProfile(
    name="megatron-2021",
    architecture="ampere",
    date="2021-04",
    source="Korthikanti et al. 2022 (arXiv 2205.05198) table 5, 22B on 8 A100",
    attention="unfused",
    gemm_fraction=0.9,
    memory_fraction=0.8,
    launch_ps=7 * _US,
    backward_overlap=0.0,
    gradient_overlap=0.0,
    pipeline_overlap=0.5,
    step_ps=5 * _MS,
)
# Megatron-DeepSpeed's engine wraps every layer; its elementwise kernels are less fused, hence the lower memory rate.
_DEEPSPEED_2021 = dataclasses.replace(
    _MEGATRON_2021,
    name="megatron-deepspeed-2021",
    source="vTrain (MICRO 2024, MIT) data/ground_truth_single.csv, hidden size 2048; scored on 1024",
    gemm_fraction=1.0,
    memory_fraction=0.66,
    launch_ps=10 * _US,
    layer_host_ps=1260 * _US,
    step_ps=4 * _MS,
)
_MEGATRON_2023 = SoftwareProfile(
    name="megatron-2023",
    architecture="hopper",
    date="2023-10",
    source="MLPerf Training v3.1, GPT-3 175B on 512 and 768 H100",
    attention="flash2",
    attention_forward=0.75,
    cast_bytes=5.0,
    fp8_fraction=0.777,
    tensor_overlap=0.74,
    gradient_bytes=2,
    step_ps=15 * _MS,
)
_MEGATRON_2022 = dataclasses.replace(
    _MEGATRON_2023,
    name="megatron-2022",
    date="2022-12",
    source="MLPerf Training v3.0, GPT-3 175B on 512 and 768 H100",
    gradient_overlap=0.0,
)
_MEGATRON_2024 = dataclasses.replace(
    _MEGATRON_2023,
    name="megatron-2024",
    date="2024-10",
    source="MLPerf Training v4.0 and v4.1, GPT-3 175B on 512 H100; Megatron-LM README (Megatron-Core r0.8)",
    attention="cudnn",
    attention_forward=0.9,
    gemm_fraction=0.9,
    fp8_fraction=0.87,
    tensor_overlap=0.72,
    cast_bytes=3.0,
)
_MEGATRON_2025 = dataclasses.replace(
    _MEGATRON_2024,
    name="megatron-2025",
    date="2025-06",
    source="MLPerf Training v5.0, Llama 3.1 405B on 512 H100; Megatron-Bridge 25.09 and 25.11, 8 to 64 GPUs",
    attention_forward=1.0,
    fp8_fraction=0.83,
    grouped_fraction=0.35,
    expert_host_ps=4500 * _US,
)
_MEGATRON_2026 = dataclasses.replace(
    _MEGATRON_2025,
    name="megatron-2026",
    date="2026-04",
    source="Megatron-Bridge 26.02 to 26.08 performance pages, 8 to 64 GPUs",
    fp8_fraction=0.85,
    fused_loss=True,
)
# Attention of cuDNN on Blackwell: half of the dense peak forward, counted causal (SimuMax B200 table, long sequences).
_BLACKWELL_ATTENTION = {"attention_forward": 0.75, "attention_backward": 0.8}
# Blackwell runs at its power limit in training: what is left of the best short GEMM differs by device and its limit.
_BLACKWELL: dict[str, dict[str, float]] = {
    "b200-sxm": {"gemm_fraction": 0.62, "fp8_fraction": 0.66, "fp4_fraction": 0.5, "grouped_fraction": 0.45},
    "gb200": {"gemm_fraction": 0.62, "fp8_fraction": 0.66, "fp4_fraction": 0.55, "grouped_fraction": 0.65},
    "b300-sxm": {"gemm_fraction": 0.72, "fp8_fraction": 0.8, "fp4_fraction": 0.5, "grouped_fraction": 0.47},
    "gb300": {"gemm_fraction": 0.78, "fp8_fraction": 0.84, "fp4_fraction": 0.51, "grouped_fraction": 0.7},
}
# Recipes for the rack-scale devices record parts of an expert layer as graphs; those for x86 hosts launch it all.
_GRACE = {"expert_host_ps": 1500 * _US}


def _blackwell(base: SoftwareProfile) -> list[SoftwareProfile]:
    """The generation on each Blackwell device; the first stands for the architecture."""
    found = []
    for index, (device, constants) in enumerate(_BLACKWELL.items()):
        changes = {**_BLACKWELL_ATTENTION, **constants, **(_GRACE if device.startswith("gb") else {})}
        if index == 0:
            found.append(dataclasses.replace(base, architecture="blackwell", **changes))  # type: ignore[arg-type]
        found.append(dataclasses.replace(base, architecture=device, **changes))  # type: ignore[arg-type]
    return found


# Megatron-LM as it comes, without user-buffer overlap.
_MEGATRON_LM = dataclasses.replace(
    _MEGATRON_2025,
    name="megatron-lm-2025",
    architecture="blackwell",
    source="MooreThreads/SimuMax v1.2 (Apache-2.0), Megatron-LM 0.14 on 8 B200",
    gemm_fraction=0.56,
    attention_forward=0.7,
    attention_backward=0.6,
    tensor_overlap=0.0,
    backward_overlap=0.25,
    grouped_fraction=0.7,
    gradient_bytes=4,
    expert_once=False,
    expert_host_ps=0,
    fused_loss=True,
)
# For devices of which no published training run was read: of the newest generation the lowest share that any measured
# device kept of its best kernels, and no overlap of tensor parallelism by user buffers, which is NVIDIA's own.
_UNMEASURED = dataclasses.replace(
    _MEGATRON_2026,
    name="unmeasured-2026",
    architecture="",
    source="lowest shares of the Megatron profiles of 2025 and 2026 (B200, H100); the device's best kernels as in its"
    " catalogue entry, where stas00/ml-engineering's maximum achievable matmul FLOPS are taken where there are any",
    gemm_fraction=0.62,
    fp8_fraction=0.66,
    fp4_fraction=0.5,
    grouped_fraction=0.35,
    attention_forward=0.75,
    tensor_overlap=0.0,
)
_COMPOSER = SoftwareProfile(
    name="fsdp-composer-2023",
    architecture="ampere",
    date="2023-06",
    source="MosaicML llm-foundry MPT benchmarks (Apache-2.0), 8 A100",
    attention="flash1",
    gemm_fraction=0.9,
    attention_forward=0.5,
    attention_backward=0.5,
    fused_norm=False,
    fused_residual=False,
    fused_activation=False,
    launch_ps=7 * _US,
    gradient_bytes=2,
    step_ps=5 * _MS,
)
_COMPOSER_HOPPER = dataclasses.replace(
    _COMPOSER,
    architecture="hopper",
    source="MosaicML llm-foundry MPT benchmarks (Apache-2.0), 8 H100",
    gemm_fraction=0.78,
    fp8_fraction=0.6,
    attention_forward=0.35,
    attention_backward=0.27,
)
_TORCHTITAN = SoftwareProfile(
    name="torchtitan-2024",
    architecture="hopper",
    date="2024-12",
    source="torchtitan published benchmarks 2024-12 (BSD-3), 8 H100 of 500 W",
    attention="flash2",
    gemm_fraction=0.8,
    fp8_fraction=0.8,
    attention_forward=0.6,
    attention_backward=0.3,
    gradient_bytes=4,
    launch_ps=7 * _US,
)

PROFILES: tuple[SoftwareProfile, ...] = (
    _MEGATRON_2021,
    _DEEPSPEED_2021,
    _MEGATRON_2022,
    _MEGATRON_2023,
    dataclasses.replace(_MEGATRON_2023, architecture="ampere"),
    _MEGATRON_2024,
    _MEGATRON_2025,
    *_blackwell(_MEGATRON_2025),
    _MEGATRON_2026,
    *_blackwell(_MEGATRON_2026),
    _MEGATRON_LM,
    _UNMEASURED,
    _COMPOSER,
    _COMPOSER_HOPPER,
    _TORCHTITAN,
    dataclasses.replace(
        _TORCHTITAN, name="torchtitan-2024-eager", fused_norm=False, fused_activation=False, fused_rope=False
    ),
    dataclasses.replace(
        _MEGATRON_2024,
        name="hai-llm-2024",
        date="2024-12",
        source="DeepSeek-V3 technical report (arXiv 2412.19437): 20 of 132 SMs for communication, all-to-all hidden",
        fp8_fraction=0.8,
        communication_sms=0.15,
        expert_overlap=0.95,
        grouped_fraction=0.6,
    ),
    SoftwareProfile(
        name="maxtext",
        architecture="tpu",
        date="2024-06",
        source="MLPerf Training v4.0, GPT-3 175B on 1,024 TPU v5p, whose layout is unknown",
        gemm_fraction=0.5,
    ),
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
            f"there is no software profile `{name}`",
            key="software",
            found=name,
            allowed=names(),
            hint=did_you_mean(name, names()),
        )
    return max(named, key=lambda known: _nearness(known, device))


def default(device: Accelerator) -> SoftwareProfile:
    """The profile taken where none is asked for: the newest Megatron generation that was read on that architecture.

    Architectures on which Megatron was not read get what was (MaxText on TPUs), else the cautious `unmeasured-2026`.
    """
    near = [known for known in PROFILES if read_on(known, device)]
    if not near:
        return _UNMEASURED
    megatron = [known for known in near if known.name.startswith("megatron")]
    return max(megatron or near, key=lambda known: (known.date, _nearness(known, device)))


def read_on(known: SoftwareProfile, device: Accelerator) -> bool:
    """Whether the constants of a profile were read off published runs on that device or its architecture."""
    return _nearness(known, device) > 0


def _nearness(known: SoftwareProfile, device: Accelerator) -> int:
    """2: read on this device; 1: on its architecture; 0: on another."""
    if known.architecture == device.name:
        return 2
    return int(bool(known.architecture) and device.architecture.startswith(known.architecture))
