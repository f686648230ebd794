"""What `railyard packet --fabric` and `packet: {fabric: ...}` choose: a fabric's packets as settings."""

from __future__ import annotations

from dataclasses import dataclass

from railyard.cluster.fabric import fabrics
from railyard.work.scenario.packet.settings import PacketSettings


@dataclass(frozen=True)
class Preset:
    """A fabric of packets, by name or mixed in a file.

    Attributes:
        name: What `--fabric` takes.
        summary: In one sentence.
        settings: Its parts and constants.
        sources: Where the constants stand.
        left_out: What the fabric has and the model has not.
    """

    name: str
    summary: str
    settings: PacketSettings
    sources: tuple[str, ...]
    left_out: tuple[str, ...]


def names() -> list[str]:
    """All fabrics by name."""
    return fabrics.names()


def fabric(name: str) -> Preset:
    """The fabric of a name.

    Raises:
        InputError: There is none; with the nearest.
    """
    found = fabrics.get(name)
    packets = found.packets
    known = {} if found.model_of else {"reroute_ps": found.reroute_ps}
    settings = PacketSettings(**{**known, **packets.constants, **packets.tree})
    return Preset(name, found.summary, settings, packets.sources, packets.left_out)
