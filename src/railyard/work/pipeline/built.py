"""A stage on its hardware: what runs it, and how the time of its devices is accounted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.cluster import ClusterSpec, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from railyard.catalog import Catalog
    from railyard.cluster import Cluster, NetworkSpec
    from railyard.engine.stages import Stage
    from railyard.graph import Record, RequestTable
    from railyard.measure.cost.deployment import Use
    from railyard.measure.result.serving import DraftFigures, ReplicaRow
    from railyard.work.scenario.load import Draft
    from railyard.work.study.provenance import Memo


@dataclass(frozen=True)
class BuiltHardware:
    """Devices of a stage, for the bill.

    Attributes:
        cluster: Whole servers of them.
        count: Devices that the stage has.
        role: What they do.
        replicas: Copies that they hold.
    """

    cluster: Cluster
    count: int
    role: str
    replicas: int

    @property
    def nic_bps(self) -> float:
        """Rate of one of its NICs' links."""
        return self.cluster.spec.back_end.link_rate_bps or self.cluster.nic.rate_bps


def _no_replicas(_visits: Record, _span_s: float) -> Sequence[ReplicaRow]:
    return ()


def _no_notes(_requests: RequestTable, _visits: Record) -> Iterable[str]:
    return ()


def _no_draft(_visits: Record) -> DraftFigures | None:
    return None


@dataclass(frozen=True, eq=False)
class Built:
    """A stage, ready to run.

    Attributes:
        kind: What it is.
        stage: What the engine runs.
        hardware: Its devices.
        uses: How they spent a run that lasted so many seconds, given the visits of the stage.
        replicas: Rows of the result's `replicas`, given the same.
        notes: What to know before its figures are believed, given the requests that took it.
        draft: Of its draft model; None where it has none.
    """

    kind: str
    stage: Stage
    hardware: tuple[BuiltHardware, ...]
    uses: Callable[[Record, float], list[Use]]
    replicas: Callable[[Record, float], Sequence[ReplicaRow]] = _no_replicas
    notes: Callable[[RequestTable, Record], Iterable[str]] = _no_notes
    draft: Callable[[Record], DraftFigures | None] = _no_draft


@dataclass(frozen=True)
class Site:
    """Where stages stand.

    Attributes:
        draft: The scenario.
        catalog: Of the scenario.
        network: Its cluster, whose network all stages are on.
        memo: What has been made before.
    """

    draft: Draft
    catalog: Catalog
    network: Cluster
    memo: Memo

    def devices(self, server: str, count: int, role: str, replicas: int) -> BuiltHardware:
        """So many devices of a server, in whole servers on the network of the scenario.

        Raises:
            InputError: There is no such server.
        """
        back_end = self.back_end(server)
        each = self.catalog.server(server).accelerators
        total = max(-(-count // each), 1) * each
        spec = ClusterSpec(total, server, back_end)
        key = [server, total, repr(back_end)]
        cluster: Cluster = self.memo.get("devices", key, lambda: build(spec, self.catalog))
        return BuiltHardware(cluster, count, role, replicas)

    def back_end(self, server: str) -> NetworkSpec:
        """The network of the scenario as a server's NICs join it: at their own rate where they are slower."""
        back_end, nic = self.network.spec.back_end, self.catalog.nic(self.catalog.server(server).nic)
        rate = back_end.link_rate_bps
        return back_end if rate is None or rate <= nic.rate_bps else replace(back_end, link_rate_bps=None)
