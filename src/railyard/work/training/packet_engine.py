"""From the scenario's `packet` and `lab` sections to the engine that runs its steps."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from railyard.engine.fluid import FluidEngine
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.engine import Engine
    from railyard.engine.bursts import Bursts
    from railyard.engine.packet.settings import Settings as EngineSettings
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.packet.settings import PacketSettings
    from railyard.work.scenario.packet_section import PacketSection

_OF_THE_RUN = frozenset({"seed", "base_rtt_ps", "failed_links", "failed_fraction", "oversubscription", "end_ps"})
"""Fields that come from the cluster or the run and not from a fabric."""


def engine_of(draft: Draft, cluster: Cluster, name: str) -> Engine:
    """The engine of a run, set up as the scenario says.

    Raises:
        InputError: There is no such engine or fabric, or a setting is wrong.
    """
    from railyard import engine as engines
    from railyard.engine.bursts import fits
    from railyard.work.scenario.load import blaming

    engine, section = engines.get(name), draft.scenario.packet
    background = _background(section)
    with blaming(draft):
        fits(cluster, background)
    if isinstance(engine, FluidEngine):
        return replace(engine, background=background)
    if name == "lab":
        from railyard.engine.lab.engine import LabEngine

        return LabEngine(draft.scenario.lab.dilation, draft.scenario.lab.routing)
    if name != "packet":
        return engine
    from railyard.engine.packet.engine import PacketEngine

    with blaming(draft, "packet"):
        settings, left_out = _settings(section, cluster)
    return PacketEngine(
        settings=settings,
        stands_in=left_out,
        budget_hops=section.budget_hops,
        budget_sends=int(section.budget_sends),
        scale_up=section.scale_up,
        background=background,
        samples=section.samples,
        online=section.online,
    )


def _background(section: PacketSection) -> tuple[Bursts, ...]:
    from railyard.engine.bursts import Bursts

    return tuple(
        Bursts(one.pattern, one.ports, one.size, one.every, one.targets, one.traffic_class) for one in section.beside
    )


def _settings(section: PacketSection, cluster: Cluster) -> tuple[EngineSettings, tuple[str, ...]]:
    """The settings of the cluster's fabric, or of the one that the section names, with what the section sets."""
    from railyard.engine.packet.fabrics import settings_of
    from railyard.engine.packet.mechanisms import CONSTANTS
    from railyard.work.scenario.packet import PacketSettings, assign, fabric

    if section.fabric is None:
        composed = replace(settings_of(cluster, cluster.fabric), rdma_qps=1)  # plans have a leg for every queue pair
        base = PacketSettings(**{name: getattr(composed, name) for name in CONSTANTS})
        left_out = cluster.fabric.packets.left_out
    else:
        preset = fabric(section.fabric)
        base, left_out = preset.settings, preset.left_out
    if "reroute" in section.set:
        raise InputError(
            "the fabric says when routes know of dead links, on every engine alike",
            key="set.reroute",
            hint="write `cluster.back_end.fabric.reroute`",
        )
    given = assign(base, [f"{key}={value}" for key, value in section.set.items()])
    return engine_settings(given), left_out


def engine_settings(given: PacketSettings) -> EngineSettings:
    """Settings as users write them, as the engine takes them; what the cluster decides is left open."""
    from railyard.engine.packet.settings import Settings as EngineSettings

    names = {entry.name for entry in fields(EngineSettings)} - _OF_THE_RUN
    return EngineSettings(**{name: getattr(given, name) for name in names})
