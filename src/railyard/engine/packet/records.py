"""Input of the packet engine next to its settings: a network of directed links, and flows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from railyard.cluster.routes import Routes

Scalar = TypeVar("Scalar", bound=np.generic)

AT_SENDER, AT_RECEIVER = 0, 1
"""When a dependency on a flow is done: its sender has the last acknowledgement; its receiver has every byte."""


@dataclass(frozen=True, eq=False)
class PacketNetwork:
    """Directed links between nodes. Nodes `0..hosts-1` are hosts (NIC ports), the rest switches.

    Attributes:
        hosts: Number of hosts.
        nodes: Hosts and switches.
        link_source: int32[links], the node that a link leaves.
        link_target: int32[links], the node to which it leads.
        rate_bps: int64[links], bit/s.
        latency_ps: int64[links], from the last bit's departure to its arrival at the next queue, ps.
        routes: Equal-cost links from every node to every host.
        salt: uint32[nodes], what each switch adds to what it hashes; None: drawn from the seed of the run.
    """

    hosts: int
    nodes: int
    link_source: NDArray[np.int32]
    link_target: NDArray[np.int32]
    rate_bps: NDArray[np.int64]
    latency_ps: NDArray[np.int64]
    routes: Routes
    salt: NDArray[np.uint32] | None = None

    @property
    def links(self) -> int:
        """Number of directed links."""
        return len(self.link_source)


def _column(values: ArrayLike, kind: type[Scalar], length: int, name: str) -> NDArray[Scalar]:
    column = np.ascontiguousarray(np.broadcast_to(np.asarray(values), (length,)) if np.ndim(values) == 0 else values)
    if column.ndim != 1 or len(column) != length:
        raise InputError(
            f"column {name} must have one row a flow", key=name, found=column.shape, allowed=f"({length},)"
        )
    return column.astype(kind, copy=False)


@dataclass(frozen=True, eq=False)
class Traffic:
    """Flows, one row each.

    Attributes:
        hosts: Hosts of the network they are meant for.
        source: int32[flows], sending host.
        target: int32[flows], receiving host.
        size_bytes: int64[flows], payload bytes.
        start_ps: int64[flows], when the flow starts, ps; -1: after its dependencies.
        dep_ptr: int64[flows + 1], the dependencies of flow `f` are `dep_idx[dep_ptr[f]:dep_ptr[f + 1]]`.
        dep_idx: int32[], the flows that they are.
        delay_ps: int64[flows], time from the last of them to the start, ps. A row whose source is its target is work of
            that host and takes this time and no bandwidth.
        need: int32[flows], how many of its dependencies must be done; as a rule all.
        dep_at: uint8[len(dep_idx)], when a dependency is done: 0 when its sender has the last acknowledgement, 1 when
            its receiver has every byte.
        klass: uint8[flows], traffic class, 0..7.
        path_key: uint32[flows], what switches hash of a flow where each keeps one path (`ecmp`): flows of one
            connection have one key. None: drawn from the seed of the run, for each flow.
        deaf: uint8[flows], 1 where the sender ignores congestion: it keeps its initial rate and window, and only sends
            again what is lost. None: no sender does.
        connection: uint32[flows], the connection that each flow is a message of, below the number of flows. Messages of
            one connection have the same source, target and class and share its paths and what its sender has learnt of
            them. Under the Ultra Ethernet transport they go out one after another, and share window and
            acknowledgements. None: each flow has its own.
        nic_share: float64[flows], share of its rate that the sender's NIC reaches with the flow's packets, in (0, 1].
            None: all of it.
    """

    hosts: int
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    size_bytes: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    dep_ptr: NDArray[np.int64]
    dep_idx: NDArray[np.int32]
    delay_ps: NDArray[np.int64]
    need: NDArray[np.int32]
    dep_at: NDArray[np.uint8]
    klass: NDArray[np.uint8]
    path_key: NDArray[np.uint32] | None = None
    deaf: NDArray[np.uint8] | None = None
    connection: NDArray[np.uint32] | None = None
    nic_share: NDArray[np.float64] | None = None

    @property
    def travels(self) -> NDArray[np.bool_]:
        """bool[flows], rows that use the network."""
        return np.asarray(self.source != self.target)

    @classmethod
    def of(
        cls,
        hosts: int,
        source: ArrayLike,
        target: ArrayLike,
        size_bytes: ArrayLike,
        *,
        start_ps: ArrayLike = 0,
        klass: ArrayLike = 0,
    ) -> Traffic:
        """Flows without dependencies; single numbers are repeated for all flows.

        Raises:
            InputError: Columns of different lengths.
        """
        count = max(np.size(source), np.size(target), np.size(size_bytes), np.size(start_ps))
        return cls(
            hosts=hosts,
            source=_column(source, np.int32, count, "source"),
            target=_column(target, np.int32, count, "target"),
            size_bytes=_column(size_bytes, np.int64, count, "size_bytes"),
            start_ps=_column(start_ps, np.int64, count, "start_ps"),
            dep_ptr=np.zeros(count + 1, np.int64),
            dep_idx=np.zeros(0, np.int32),
            delay_ps=np.zeros(count, np.int64),
            need=np.zeros(count, np.int32),
            dep_at=np.zeros(0, np.uint8),
            klass=_column(klass, np.uint8, count, "klass"),
        )

    def after(
        self,
        flow: ArrayLike,
        before: ArrayLike,
        *,
        at: ArrayLike = AT_SENDER,
        need: ArrayLike | None = None,
        delay_ps: ArrayLike | None = None,
    ) -> Traffic:
        """The same flows, of which some wait for others; replaces what they waited for.

        Args:
            flow: Flows that wait, one row a dependency.
            before: For which flows.
            at: `AT_SENDER` or `AT_RECEIVER`, one a dependency or one for all.
            need: One a flow: how many of its dependencies must be done; all by default.
            delay_ps: One a flow, ps; as it was by default.

        Raises:
            InputError: Columns of different lengths.
        """
        waiting = np.asarray(flow, np.int64)
        order = np.argsort(waiting, kind="stable")
        counts = np.bincount(waiting, minlength=len(self))
        delay = self.delay_ps if delay_ps is None else delay_ps
        return replace(
            self,
            start_ps=np.where(counts > 0, -1, self.start_ps),
            dep_ptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            dep_idx=_column(before, np.int32, len(waiting), "before")[order],
            dep_at=_column(at, np.uint8, len(waiting), "at")[order],
            need=_column(counts if need is None else need, np.int32, len(self), "need"),
            delay_ps=_column(delay, np.int64, len(self), "delay_ps"),
        )

    def __len__(self) -> int:
        return len(self.source)
