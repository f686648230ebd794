"""Which software profile a run is predicted with: from what its framework calls itself, its release, and its year."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.work.training import profiles

if TYPE_CHECKING:
    from railyard.catalog import Accelerator
    from railyard_validation.training.table import Row

# The generation of Megatron behind a round: round 3.0 (June 2023) was run with the software of 2022.
_MLPERF_YEAR = {"v3.0": "2022", "v3.1": "2023", "v4.0": "2024", "v4.1": "2024", "v5.0": "2025", "v5.1": "2025"}

# What a framework calls itself, and the profile that was read off it; Megatron's generations go by year.
_FRAMEWORKS = (
    (r"composer|llm-foundry|mosaic", "fsdp-composer-2023"),
    (r"hai-llm", "hai-llm-2024"),
    (r"automodel", "automodel-2025"),
    (r"\bnemo 24\.0[1-7]", "nemo-2024"),
    (r"\bmeta\b|xlformers", "meta-2024"),
    (r"torchtitan", "torchtitan-2024"),
    (r"megatron-lm 0\.", "megatron-lm-2025"),
    (r"megatron-deepspeed|vtrain|gpt-neox", "megatron-deepspeed-2021"),
    (r"maxtext|\bpax\b|\bjax\b|pathways|levanter|\balpa\b|t5x", "maxtext"),
)
# PyTorch's own sharding under other names: eager in 2023, compiled from 2024 on.
_SHARDED = r"fsdp|olmo|accelerate|fairscale|nanotron|lit-gpt|litgpt|lightning|axolotl|llama-factory|hugging ?face"
# Frameworks of Megatron's kind whose release or name dates them.
_MEGATRON_YEARS = (
    (r"ptd-p", "2021"),
    (r"megatron-lm$", "2021"),
    (r"megatron-lm v?2\.", "2021"),
    (r"megatron-lm v?3\.", "2023"),
    (r"megascale|vescale", "2023"),
    (r"nemo 1\.(?:[0-9]|1[0-5])(?!\d)", "2022"),
    (r"nemo 1\.(?:1[6-9]|2[01])(?!\d)", "2023"),
    (r"nemo 1\.2[2-9]", "2024"),
    (r"nemo 2\.", "2025"),
    (r"(?:core_v|\br)0\.[1-4](?!\d)", "2023"),
    (r"(?:core_v|\br)0\.[5-9](?!\d)", "2024"),
    (r"(?:core_v|\br)0\.1[0-4]", "2025"),
    (r"(?:core_v|\br)0\.(?:1[5-9]|[2-9]\d)", "2026"),
)
# The generation that a device's first years of training ran, where neither software nor source say one.
_DEVICE_YEAR = {"volta": 2021, "ampere": 2023, "hopper": 2025, "blackwell": 2026}
_FIRST, _LAST = 2021, 2026


def profile_name(row: Row, device: Accelerator, defaults: list[str]) -> str:
    """Name of the profile of the row's software on its device.

    Args:
        row: Of the table.
        device: On which it ran.
        defaults: Receives a line where the software is not one that any profile was read off.
    """
    name = (row.get("framework") or row.get("source_doc")).lower()
    found = next((known for pattern, known in _FRAMEWORKS if re.search(pattern, name)), "")
    # Compiled by XLA for TPUs; elsewhere its time is that of the kernels that everybody calls.
    only = {"maxtext": "tpu", "nemo-2024": "hopper", "automodel-2025": "hopper"}.get(found, "")
    found = found if device.architecture.startswith(only) else ""
    if found.startswith("torchtitan"):
        return _torchtitan(row)
    year, said = _year(row, device)
    if "deepspeed" in name and re.search(r"(?:zero|stage)[-_ ]?3", f"{name} {row.get('fsdp_zero').lower()}"):
        stated = re.search(r"\b20[12]\d\b", name)
        return "deepspeed-2021" if int(stated.group() if stated else year) < 2023 else "deepspeed-2024"
    if not found and re.search(_SHARDED, name):
        found = "fsdp-composer-2023" if int(year) < 2024 else "torchtitan-2024"
        defaults.append(f"software {found}, as PyTorch's sharding of its time")
    if found:
        return found
    generation = f"megatron-{year}"
    known = [profile for profile in profiles.all_profiles() if profile.name == generation]
    if not any(profiles.read_on(profile, device) for profile in known) and device.architecture != "volta":
        cautious = profiles.default(device).name
        defaults.append(f"software {cautious}: no training run of {year} was read on {device.architecture}")
        return cautious
    if not said and not re.search("megatron|nemo|nvidia|mlperf", name):
        defaults.append(f"software {generation}: {row.get('framework') or 'an unnamed framework'} has no profile")
    return generation


def _torchtitan(row: Row) -> str:
    dated = re.search(r"\b(20\d\d)-\d\d", row.get("source_doc"))
    # From April 2025 on the loss is compiled too.
    newer = "torchtitan-2025" if dated and int(dated.group(1)) >= 2025 else "torchtitan-2024"
    return f"{newer}-eager" if "eager" in row.get("overlap_notes") else newer


def _year(row: Row, device: Accelerator) -> tuple[str, bool]:
    """Year of the Megatron generation, and whether software or round say it: else the source's, else the device's."""
    for version, year in _MLPERF_YEAR.items():
        if f"MLPerf Training {version}" in row.get("source_doc"):
            return year, True
    name = row.get("framework").lower()
    release = re.search(r"\b(2[3-6])\.\d\d", name)
    if release:
        return f"20{release.group(1)}", True
    for pattern, year in _MEGATRON_YEARS:
        if re.search(pattern, name):
            return year, True
    dated = re.search(r"\b(20[12]\d)\b", row.get("source_doc"))
    stated = int(dated.group(1)) if dated else _DEVICE_YEAR.get(device.architecture.split("-")[0], 2025)
    return str(min(max(stated, _FIRST), _LAST)), False
