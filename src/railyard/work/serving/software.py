"""Constants of a serving engine on a device architecture, as columns and as one profile.

A profile says how near to the device's own rates an engine's kernels come, what each layer and each iteration costs
on top of its bytes and FLOPs, and whether prompts share iterations with decoding. The profiles are data (`profiles`).
"""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text
from railyard.model.machine import RecordColumns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from railyard.catalog import Accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSoftware:
    """One engine on one architecture. Fractions are of the device's best measured rate, times are seconds.

    Attributes:
        name, architecture, source: Which engine, where, and where its constants come from.
        weights_fraction: Of the memory rate, reading the weights of dense matrices.
        narrow_fraction: Of that rate, what dense weights of 8 bits reach.
        expert_fraction: The same for routed experts, of which a batch touches many small ones.
        gemm_fraction, grouped_fraction: Of the matrix rate, dense and grouped.
        expert_rows: Rows whose time each expert's product loses, with tiles of 128; an eighth with those of 16 bits.
        kv_fraction: Of the memory rate, reading the cache.
        attention_fraction: Of the attention rate, prompts.
        latent_fraction: Of the 16-bit matrix rate, latent attention in decoding.
        pass_bytes: Memory traffic of norms, activations and casts, for each element of the residual in each layer.
        layer_s: Kernels of a layer, without their bytes and FLOPs.
        moe_layer_s: More of them in a layer with experts: router, permutation, quantisation.
        latent_layer_s: More of them in a layer with latent attention.
        index_layer_s: More of them in a layer whose keys an index picks.
        reduce_s, reduce_fraction: An all-reduce of few bytes; of the link rate that many bytes reach.
        exchange_s, exchange_fraction: The same for the dispatch or combine of experts.
        host_s, host_per_sequence_s: Scheduler, sampling, detokenizing: of an iteration, of a sequence in it.
        prompt_s: Arrival and first schedule of a request.
        prompt_token_s: Tokenizer, and hand-over to the engine, of each token of its prompt.
        prompt_layer_s, prompt_latent_s: Launches of the kernels of an iteration with prompts, which no graph holds: of
            any layer, and more of a latent one.
        skew: Tokens of the busiest rank of experts, over the mean.
        wave_share, split_wave_share: Of the time that the prompts of all users take, what one of them waits in a closed
            loop; the same where prompts have replicas of their own.
        handover_s: From a prompt's last key to its sequence in a replica that decodes, without the bytes on the way.
        acceptance: Chance that a drafted token is taken when those before it were.
        prompt_share: Of a prompt's cost alone that an iteration with decoding takes more for it.
    """

    name: str
    architecture: str = ""
    source: str = ""
    weights_fraction: float = 0.85
    narrow_fraction: float = 1.0
    expert_fraction: float = 0.7
    gemm_fraction: float = 0.8
    grouped_fraction: float = 0.5
    expert_rows: float = 64.0
    kv_fraction: float = 0.7
    attention_fraction: float = 0.7
    latent_fraction: float = 0.7
    pass_bytes: float = 40.0
    layer_s: float = 20e-6
    moe_layer_s: float = 20e-6
    latent_layer_s: float = 15e-6
    index_layer_s: float = 40e-6
    reduce_s: float = 8e-6
    reduce_fraction: float = 0.7
    exchange_s: float = 25e-6
    exchange_fraction: float = 0.6
    host_s: float = 1e-3
    host_per_sequence_s: float = 5e-6
    prompt_s: float = 30e-3
    prompt_token_s: float = 4e-6
    prompt_layer_s: float = 0.3e-3
    prompt_latent_s: float = 0.8e-3
    skew: float = 1.3
    prompt_share: float = 1.0
    wave_share: float = 0.1
    split_wave_share: float = 0.2
    handover_s: float = 60e-3
    acceptance: float = 0.6


CONSTANTS = tuple(field.name for field in fields(ServingSoftware) if field.type == "float")


class ServingSoftwareColumns(RecordColumns):
    """The constants of `ServingSoftware`, one row a deployment."""


_SHIPPED = files("railyard.work.serving") / "data" / "devices.toml"


@dataclass(frozen=True)
class ProfiledRun:
    """One run behind a profile.

    Attributes:
        digest: Of its requests, so that it is known again under another name.
    """

    name: str
    digest: str
    given: tuple[str, ...]


@dataclass(frozen=True)
class DeviceProfile:
    """Constants of one engine on one device.

    Attributes:
        source: Whose runs, when.
    """

    engine: str
    device: str
    source: str
    constants: Mapping[str, float]
    runs: tuple[ProfiledRun, ...] = field(default_factory=tuple)

    def over(self, software: ServingSoftware) -> ServingSoftware:
        """A profile with these constants in the place of its own."""
        values = {name: getattr(software, name) for name in CONSTANTS} | dict(self.constants)
        return ServingSoftware(name=software.name, architecture=software.architecture, source=self.source, **values)


Profiles = dict[tuple[str, str], DeviceProfile]


@cache
def shipped() -> Profiles:
    """The profiles that come with Railyard, by engine and device."""
    return parse(tomllib.loads(_SHIPPED.read_text(encoding="utf-8")), str(_SHIPPED))


def read_profiles(path: Path) -> Profiles:
    """The profiles of a file.

    Raises:
        InputError: It cannot be read, or names a constant that there is not.
    """
    try:
        content = tomllib.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"the file cannot be read as TOML: {error}", file=path) from error
    return parse(content, str(path))


def parse(content: Mapping[str, Any], file: str) -> Profiles:
    """Profiles from `[engine.device]` tables."""
    found: Profiles = {}
    for engine, devices in content.items():
        for device, entry in devices.items() if isinstance(devices, dict) else ():
            key = f"{engine}.{device}"
            if not isinstance(entry, dict) or not isinstance(entry.get("constants"), dict):
                raise InputError("a profile has a table `constants`", file=file, key=key)
            runs = tuple(
                ProfiledRun(str(run.get("name", "")), str(run.get("digest", "")), tuple(run.get("given", ())))
                for run in entry.get("runs", ())
            )
            constants = _constants(entry["constants"], file, f"{key}.constants")
            found[engine, device] = DeviceProfile(engine, device, str(entry.get("source", file)), constants, runs)
    return found


def _constants(written: Mapping[str, Any], file: str, key: str) -> dict[str, float]:
    found = {}
    for name, value in written.items():
        if name not in CONSTANTS:
            raise InputError(
                f"there is no constant `{name}`", file=file, key=key, found=name, hint=did_you_mean(name, CONSTANTS)
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise InputError("a constant is a number above 0", file=file, key=f"{key}.{name}", found=value)
        found[name] = float(value)
    return found


def written(profiles: Profiles) -> str:
    """Profiles as TOML, as `read_profiles` reads them."""
    lines = []
    for profile in profiles.values():
        name = f"{profile.engine}.{profile.device}"
        lines += [f"[{name}]", f'source = "{profile.source}"', "", f"[{name}.constants]"]
        lines += [f"{constant} = {value:.4g}" for constant, value in profile.constants.items()]
        for run in profile.runs:
            given = ", ".join(f'"{one}"' for one in run.given)
            lines += ["", f"[[{name}.runs]]", f'name = "{run.name}"', f'digest = "{run.digest}"', f"given = [{given}]"]
        lines.append("")
    return "\n".join(lines)


_DATA = files("railyard.work.serving") / "data"
ENGINES = ("vllm", "sglang", "tensorrt-llm", "deepseek")
LEVEL_SPREAD = 0.4
"""One standard deviation of the logarithm of an effect of an engine or an architecture."""


@dataclass(frozen=True, slots=True)
class ConstantPrior:
    """What a constant is near to, its bounds, how sure that is, and which of its effects are fitted.

    Attributes:
        prior, low, high: In its own unit.
        spread: One standard deviation of the logarithm of the effect of all.
        fitted: Levels whose effects rows tell, see `levels`; a constant without any is as stated.
        stated: Effects of levels that are known beforehand: a mechanism that an engine has there.
    """

    prior: float
    low: float
    high: float
    spread: float
    why: str
    fitted: tuple[str, ...] = ()
    stated: Mapping[str, float] = field(default_factory=dict)

    def at(self, engine: str, architecture: str) -> float:
        """What it is near to for an engine on an architecture, before any row is seen."""
        return self.prior * math.prod(self.stated.get(level, 1.0) for level in levels(engine, architecture))


@cache
def constants() -> dict[str, ConstantPrior]:
    """The constants, by field of `ServingSoftware`."""
    written = tomllib.loads((_DATA / "constants.toml").read_text(encoding="utf-8"))
    return {
        name: ConstantPrior(**{**written[name], "fitted": tuple(written[name].get("fitted", ()))}) for name in CONSTANTS
    }


def free_effects() -> tuple[tuple[str, str], ...]:
    """Constant and level of every effect that is fitted: as many numbers as the published rows have given."""
    return tuple((name, level) for name, known in constants().items() for level in known.fitted)


@cache
def fitted() -> dict[str, Any]:
    """What was fitted: `effects` (logarithms) by level and constant, and `rows` by level."""
    found: dict[str, Any] = json.loads((_DATA / "fitted.json").read_text(encoding="utf-8"))
    return found


def levels(engine: str, architecture: str) -> tuple[str, ...]:
    """The levels that a profile belongs to, widest first."""
    return "all", f"{engine}/", f"/{architecture}", f"{engine}/{architecture}"


def assemble(
    engine: str, architecture: str, effects: Mapping[str, Mapping[str, float]], source: str = ""
) -> ServingSoftware:
    """A profile from effects by level."""
    values = {}
    for name, constant in constants().items():
        total = sum(effects.get(level, {}).get(name, 0.0) for level in levels(engine, architecture))
        values[name] = min(max(constant.at(engine, architecture) * math.exp(total), constant.low), constant.high)
    return ServingSoftware(name=engine, architecture=architecture, source=source, **values)


def profile(engine: str, device: Accelerator, *, profiles: Profiles | None = None) -> ServingSoftware:
    """The constants of an engine on a device; where recorded runs gave the device's own, those.

    Args:
        engine: `vllm`, `sglang`, `tensorrt-llm` or `deepseek`.
        device: On which it runs.
        profiles: A user's, in the place of those that ship.

    Raises:
        InputError: No such engine is known.
    """
    known = table_profile(engine, device.architecture)
    found = (shipped() | (profiles or {})).get((engine, device.name))
    return known if found is None else found.over(known)


@cache
def table_profile(engine: str, architecture: str) -> ServingSoftware:
    """The constants of an engine on an architecture, from the published tables alone.

    Raises:
        InputError: No such engine is known.
    """
    if engine not in ENGINES:
        raise InputError(
            f"there is no serving engine `{engine}`",
            key="software",
            found=engine,
            allowed=ENGINES,
            hint=did_you_mean(engine, ENGINES),
        )
    return assemble(engine, architecture, fitted()["effects"], fitted()["source"])
