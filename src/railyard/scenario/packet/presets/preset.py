"""What a fabric by name is, and the register of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.registry import Registry

if TYPE_CHECKING:
    from railyard.scenario.packet.settings import Settings


@dataclass(frozen=True)
class Preset:
    """A fabric.

    Attributes:
        name: What `--fabric` takes.
        summary: In one sentence.
        settings: Its parts and constants.
        sources: Where the constants stand.
        left_out: What the fabric has and the model has not.
    """

    name: str
    summary: str
    settings: Settings
    sources: tuple[str, ...]
    left_out: tuple[str, ...]


PRESETS: Registry[Preset] = Registry("fabric of packets")


def add(preset: Preset) -> Preset:
    """Registers a preset under its name."""
    return PRESETS.add(preset.name, preset)


def fabric(name: str) -> Preset:
    """The preset of a name.

    Raises:
        InputError: There is none; with the nearest.
    """
    return PRESETS.get(name)
