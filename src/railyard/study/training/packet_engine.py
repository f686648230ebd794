"""From the scenario's `packet` section to the packet engine that runs its steps."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.engine import Engine
    from railyard.engine.packet.settings import Settings as EngineSettings
    from railyard.scenario.load import Draft
    from railyard.scenario.packet.settings import Settings
    from railyard.scenario.packet_section import PacketSection

_OF_THE_RUN = frozenset({"seed", "base_rtt_ps", "failed_links", "failed_fraction", "oversubscription", "end_ps"})
"""Fields that come from the cluster or the run and not from a fabric."""


def engine_of(draft: Draft, cluster: Cluster, name: str) -> Engine:
    """The engine of a run, set up as the scenario says.

    Raises:
        InputError: There is no such engine or fabric, or a setting is wrong.
    """
    from railyard import engine as engines

    engine = engines.get(name)
    if name != "packet":
        return engine
    from railyard.engine.packet.beside import Beside
    from railyard.engine.packet.whole import PacketEngine
    from railyard.scenario.load import blaming

    section = draft.scenario.packet
    with blaming(draft, "packet"):
        settings, left_out = _settings(section, cluster)
    return PacketEngine(
        settings=settings,
        stands_in=left_out,
        budget_hops=section.budget_hops,
        budget_sends=int(section.budget_sends),
        scale_up=section.scale_up,
        beside=tuple(
            Beside(one.pattern, one.ports, one.size, one.every, one.targets, one.traffic_class)
            for one in section.beside
        ),
        samples=section.samples,
    )


def _settings(section: PacketSection, cluster: Cluster) -> tuple[EngineSettings | None, tuple[str, ...]]:
    """The settings that the section names, or None for those that the engine has for the cluster's fabric."""
    from railyard.scenario.packet.presets import PRESETS, fabric
    from railyard.scenario.packet.settings import assign

    name = section.fabric or _preset_name(cluster)
    if section.fabric is None and name not in PRESETS.names():
        return _composed(section, cluster)
    preset = fabric(name)
    given = assign(preset.settings, [f"{key}={value}" for key, value in section.set.items()])
    return engine_settings(given), preset.left_out


def _preset_name(cluster: Cluster) -> str:
    """The preset of the cluster's fabric; that with adaptive routing (`-ar`) where the fabric's record has it."""
    from railyard.scenario.packet.presets import PRESETS

    fabric = cluster.fabric
    adaptive = f"{fabric.name}-ar"
    return adaptive if fabric.load_balancing == "adaptive" and adaptive in PRESETS.names() else fabric.name


def _composed(section: PacketSection, cluster: Cluster) -> tuple[EngineSettings | None, tuple[str, ...]]:
    """The engine's own composition for a fabric, with what the section sets."""
    from railyard.engine.packet.fabrics import COMPOSITIONS, settings_of
    from railyard.scenario.packet.settings import Settings, assign

    composition = COMPOSITIONS.get(cluster.fabric.name)
    composed = settings_of(cluster, composition)
    if not section.set:
        return composed, composition.stands_in
    plain = Settings()
    given = assign(plain, [f"{key}={value}" for key, value in section.set.items()])
    changed = engine_settings(given), engine_settings(plain)
    names = [
        entry.name for entry in fields(composed) if getattr(changed[0], entry.name) != getattr(changed[1], entry.name)
    ]
    return replace(composed, **{name: getattr(changed[0], name) for name in names}), composition.stands_in


def engine_settings(given: Settings) -> EngineSettings:
    """Settings as users write them, as the engine takes them; what the cluster decides is left open."""
    from railyard.engine.packet.settings import Settings as EngineSettings

    names = {entry.name for entry in fields(EngineSettings)} - _OF_THE_RUN
    return EngineSettings(**{name: getattr(given, name) for name in names})
