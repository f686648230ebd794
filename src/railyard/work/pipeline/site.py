"""Where stages stand: the scenario, its catalogue and network, and what has been made for other stages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.cluster import ClusterSpec, build
from railyard.work.pipeline.built import BuiltHardware

if TYPE_CHECKING:
    from railyard.catalog import Catalog
    from railyard.cluster import Cluster, NetworkSpec
    from railyard.work.scenario.load import Draft
    from railyard.work.study.memo import Memo


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
