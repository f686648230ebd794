"""Composes traffic, topology and fabric, runs the packet engine and reports."""

from __future__ import annotations

import resource
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.work.trace.formats import format_of, importers, read
from railyard.work.traffic import htsim_topology
from railyard.work.traffic.htsim_wiring import LINK_TIERS, wire
from railyard.work.traffic.played import LinkNames, PacketReport, PacketRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.engine.packet import PacketNetwork, Traffic
    from railyard.engine.packet import Settings as EngineSettings
    from railyard.graph import Record
    from railyard.graph.record import Table
    from railyard.measure.cost.assumptions import Source
    from railyard.measure.network import Probed
    from railyard.measure.result.network import PacketFigures
    from railyard.measure.result.variants import TrafficVariant
    from railyard.work.scenario.packet.settings import PacketSettings, Preset
    from railyard.work.trace.builder import Trace
    from railyard.work.traffic.hosts import HostTraffic
    from railyard.work.traffic.htsim_topology import HtsimTree
    from railyard.work.traffic.htsim_wiring import TreeNetwork


def write_files(folder: Path, report: PacketReport) -> None:
    """Writes every flow as Parquet and as CSV, and a trace for Perfetto."""
    from railyard.graph import parquet, perfetto

    sent = report.sent
    parquet.write_record(with_figures(sent), folder / "flows.parquet")
    report.write_flows(folder / "fct.csv")
    perfetto.write(sent, folder / "trace.json.gz", link_name=report.link_name)


def with_figures(sent: Record) -> Record:
    """Flows with their numbers and completion times as columns."""
    figures: dict[str, NDArray[Any]] = {
        "flow": np.arange(1, len(sent) + 1),
        "source": sent.who,
        "finish_ps": sent.end_ps,
        "fct_ps": sent.duration_ps,
    }
    return replace(sent, optional={**sent.optional, **figures})


@dataclass(frozen=True, eq=False)
class MeasuredTraffic:
    """The one variant of a packet run.

    Attributes:
        defaults: Nothing is chosen that settings do not show.
    """

    traffic: TrafficRun
    report: PacketReport
    defaults: tuple[str, ...] = ()

    @cached_property
    def variant(self) -> TrafficVariant:
        """The figures; made when they are first asked for, for `railyard packet` prints without them."""
        from railyard.measure.result.variants import TrafficVariant

        return TrafficVariant(
            name=self.traffic.preset.name, settings=changed(self.traffic), packet=section(self.report)
        )

    @property
    def digest(self) -> str:
        """Fingerprint of every flow's times and every count."""
        return self.report.record.digest()

    @property
    def left_out(self) -> tuple[str, ...]:
        """What engine, fabric and files leave out."""
        return self.report.left_out

    @property
    def sources(self) -> tuple[Source, ...]:
        """Sources of the fabric's rules and constants."""
        from railyard.measure.cost.assumptions import Source

        preset = self.traffic.preset
        return tuple(Source(preset.name, "rules and constants", "", text, "", "published") for text in preset.sources)


def plain(traffic: TrafficRun) -> dict[str, object]:
    """What was run, complete; the number of threads is no part of it."""
    return {
        "name": f"{traffic.traffic.stem} {traffic.preset.name}",
        "traffic": str(traffic.traffic),
        "topology": None if traffic.topology is None else str(traffic.topology),
        "fabric": traffic.preset.name,
        "settings": asdict(traffic.settings),
        "seed": traffic.seed,
    }


def changed(traffic: TrafficRun) -> dict[str, object]:
    """The fabric's name and the settings that are not the preset's."""
    values = {entry.name: getattr(traffic.settings, entry.name) for entry in fields(traffic.settings)}
    differing = {name: value for name, value in values.items() if value != getattr(traffic.preset.settings, name)}
    return {"fabric": traffic.preset.name, **differing}


def section(report: PacketReport) -> PacketFigures:
    """The object `packet` of the variant."""
    from railyard.measure.network import packet_section

    meta = report.record.meta
    return packet_section(
        report.sent,
        {**report.packets, **meta["packets"]},
        constants=meta["constants"],
        repeats=meta["repeats"],
        left_out=report.left_out,
        probed=report.probed,
    )


_MIB = 1024
_MOST_BPS = 1e16


@dataclass(frozen=True)
class TrafficRun:
    """What is to be run.

    Attributes:
        traffic: File, or folder of a trace.
        topology: `.topo` file; None for the tree that htsim builds by default.
        settings: The preset's settings with what was changed.
        threads: Threads of the engine; results do not depend on it.
        probe: Whether the run is made again with samples of queues and senders, for the report.
        faults: File of what happens to links in time: records as a scenario has them, see
            `railyard.work.traffic.faults`, or a table in CSV, see `fault_table`.
    """

    traffic: Path
    topology: Path | None
    preset: Preset
    settings: PacketSettings
    seed: int = 0
    threads: int = 1
    probe: bool = False
    faults: Path | None = None
    kind: str = field(default="traffic", init=False)

    @property
    def title(self) -> str:
        """Name of the result."""
        return f"{self.traffic.stem} on {self.preset.name}"

    @property
    def name(self) -> str:
        """Name of its only variant."""
        return self.preset.name


def run(given: TrafficRun, *, progress: Callable[[int, int], None] | None = None) -> PacketReport:
    """Reads, builds, runs and reports.

    Args:
        given: What is to be run.
        progress: Called now and then with events so far and simulated time in ps.

    Raises:
        InputError: A file or a setting is wrong, or traffic and topology do not fit.
    """
    from railyard.engine.packet import run as simulate
    from railyard.work.traffic.hosts import traffic_of

    importers.get(format_of(given.traffic)).load()  # before the clock starts
    overrides = _overrides(given.settings)
    begin = _cpu_s()
    trace = read(given.traffic, settings=given.settings)
    if not len(trace.graph):
        raise InputError("no flow of the traffic can ever start", found=f"{len(trace.never)} flows that wait")
    tree = _tree(given, trace.ranks)
    try:
        network = wire(tree, slow_links=given.settings.slow_links, failures=trace.failures)
    except InputError as error:
        raise error.located(file=given.traffic) from None
    links, sent = _network(network, given.settings.fabric_speedup), traffic_of(trace.graph, tree.hosts)
    settings = _settings(given, tree, network, overrides)
    names = LinkNames(tree, network, LINK_TIERS)
    if given.faults is not None:
        # A run without faults has no use for their readers.
        from railyard.work.traffic.faults import read_document, read_table

        reader = read_table if given.faults.suffix == ".csv" else read_document
        settings = replace(settings, faults=reader(given.faults, links, names))
    play = partial(simulate, links, threads=given.threads, progress=progress)
    result = play(sent.traffic, settings)
    cpu_s = _cpu_s() - begin
    played = PacketRun(play, links, sent.traffic, settings, result, names)
    probed: Probed = {}
    tables: dict[str, Table] = {}
    if given.probe:
        from railyard.work.traffic.played import probe  # what it imports, a run that is not sampled has no use for

        probed, tables = probe(played)
    return PacketReport(
        tree=tree,
        flows=sent.traffic,
        never=trace.never,
        record=_recorded(result, sent, trace, tables),
        link_name=names.link,
        cpu_s=cpu_s,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MIB,
        left_out=(*given.preset.left_out, *trace.left_out, *trace.lacks),
        probed=probed,
        played=played,
    )


def _recorded(found: Record, sent: HostTraffic, trace: Trace, tables: dict[str, Table]) -> Record:
    """The record with lines of the file, what each row waited for, and what was sampled."""
    line = trace.line[sent.task]
    optional = {**found.optional, "line": line, "blocker": blockers(sent.traffic, found.end_ps)}
    meta = {**found.meta, "host_count": trace.ranks}
    return replace(found, optional=optional, tables={**found.tables, **tables}, meta=meta)


def blockers(flows: Traffic, end_ps: NDArray[np.int64]) -> NDArray[np.int32]:
    """int32[n]: of the rows that a row waits for the one that ended last, the first of several; -1 where none is."""
    waits = np.repeat(np.arange(len(flows)), np.diff(flows.dep_ptr))
    order = np.lexsort((-np.arange(len(waits)), end_ps[flows.dep_idx], waits))
    blocker = np.full(len(flows), -1, np.int32)
    blocker[waits[order]] = flows.dep_idx[order]
    return blocker


def _cpu_s() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def _tree(given: TrafficRun, hosts: int) -> HtsimTree:
    """The tree of the topology file, or the smallest default one that has the hosts of the traffic.

    Raises:
        InputError: The file is wrong, or holds another number of hosts than the traffic.
    """
    wanted = given.settings.hosts or htsim_topology.enough(hosts, given.settings.tiers)
    if given.topology is not None:
        tree = htsim_topology.read(given.topology)
        if tree.hosts < hosts:
            found = f"{hosts} hosts in the traffic, {tree.hosts} in the topology"
            raise InputError("the topology has too few hosts for the traffic", file=given.topology, found=found)
        return tree
    if wanted < hosts:
        raise InputError("too few hosts for the traffic", key="hosts", found=wanted, allowed=f"{hosts} or more")
    return htsim_topology.k_ary(
        wanted,
        rate_bps=given.settings.link_rate_bps,
        latency_ps=given.settings.link_latency_ps,
        switch_latency_ps=given.settings.switch_latency_ps,
        tiers=given.settings.tiers,
    )


def _network(network: TreeNetwork, speedup: float) -> PacketNetwork:
    from railyard.engine.packet import PacketNetwork

    within = (network.source >= network.hosts) & (network.target >= network.hosts)
    faster = np.minimum(network.rate_bps * speedup, _MOST_BPS).astype(np.int64)
    return PacketNetwork(
        hosts=network.hosts,
        nodes=network.nodes,
        link_source=network.source,
        link_target=network.target,
        rate_bps=network.rate_bps if speedup == 1 else np.where(within, faster, network.rate_bps),
        latency_ps=network.latency_ps,
        routes=network.routes,
    )


def _settings(given: TrafficRun, tree: HtsimTree, network: TreeNetwork, overrides: dict[str, Any]) -> EngineSettings:
    settings = given.settings
    return replace(
        settings,
        **overrides,
        seed=given.seed,
        base_rtt_ps=base_rtt_ps(tree, settings),
        oversubscription=float(tree.oversubscription) if settings.congestion_control == "rccc" else 1.0,
        failed_links=tuple(network.slow.tolist()),
        failed_fraction=0.25,
    )


def _overrides(settings: PacketSettings) -> dict[str, Any]:
    """The settings that are a user's functions, compiled.

    Raises:
        InputError: The file cannot be run, holds nothing of that name, or what cannot be compiled.
    """
    from railyard.engine.packet.settings import USER_KINDS, functions_of

    made: dict[str, Any] = {}
    for key in USER_KINDS:
        functions = functions_of(key, getattr(settings, key))
        if functions is not None:
            functions.addresses()
            made[key] = functions
    return made


def base_rtt_ps(tree: HtsimTree, settings: PacketSettings) -> int:
    """The unloaded round trip of the longest path, as htsim computes it (`calculate_rtt` of `main_uec.cpp`).

    Latency both ways, and a full packet and an acknowledgement on every link at the rate of a host's link.
    """
    bits = 8 * (settings.mtu_bytes + settings.header_bytes) * tree.diameter
    return 2 * tree.diameter_latency_ps + int(np.rint(bits * 10**12 / tree.tiers[0].rate_bps))
