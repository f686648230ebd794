"""Places pools of a scenario as replicas on ranks of the cluster, or of a network that a pool has for itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

import railyard.cluster as clusters
from railyard.kit.errors import InputError, Refusals, keyed
from railyard.kit.quantities import format_memory
from railyard.work.serving.layout import ServingLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.catalog import Catalog
    from railyard.cluster import Cluster
    from railyard.engine.serving.deployment import Role
    from railyard.work.serving.networks import ServingNetworks
    from railyard.work.serving.section import PoolSection, ServingSection

ROLES: tuple[Role, ...] = ("prefill", "decode", "both")
PROMPTS: tuple[Role, ...] = ("prefill", "both")
"""Roles of pools that compute prompts."""


@dataclass(frozen=True, eq=False)
class Ffn:
    """The accelerators of a pool that compute FFNs only.

    Attributes:
        layout: Of a replica: `tp` of each of `ep` groups.
        ranks: int64[replicas, FFN ranks of a replica].
        server: Of their own, as written.
    """

    cluster: Cluster
    layout: ServingLayout
    ranks: NDArray[np.int64]
    server: str | None


@dataclass(frozen=True, eq=False)
class PlacedPool:
    """One pool on the cluster.

    Attributes:
        role: `prefill`, `decode` or `both`.
        cluster: The machine that its replicas see: its own server in the same network.
        layout: Of a replica; of its attention where FFNs have their own.
        ranks: int64[replicas, ranks of a replica], ranks of the whole cluster; those with keys and values.
        server: Of their own, as written.
        home: Number of the network that the ranks are of.
    """

    role: Role
    section: PoolSection
    cluster: Cluster
    layout: ServingLayout
    ranks: NDArray[np.int64]
    server: str | None = None
    ffn: Ffn | None = None
    home: int = 0

    @property
    def accelerators(self) -> int:
        """Accelerators of all replicas, both sides."""
        return int(self.ranks.size) + (0 if self.ffn is None else int(self.ffn.ranks.size))

    @property
    def separate(self) -> tuple[tuple[Cluster, NDArray[np.int64]], ...]:
        """Machines with servers of their own in the cluster's network, and the ranks that they have."""
        if self.home:
            return ()
        sides: list[PlacedPool | Ffn] = [self] if self.ffn is None else [self, self.ffn]
        return tuple((side.cluster, side.ranks) for side in sides if side.server is not None)

    @property
    def replicas(self) -> int:
        """How many there are."""
        return len(self.ranks)

    @property
    def copies(self) -> NDArray[np.int64]:
        """int64[replicas, copies of attention, ranks of a copy]: a copy's ranks of a stage lie side by side."""
        layout = self.layout
        split = self.ranks.reshape(self.replicas, layout.pp * layout.cp, layout.dp_attention, layout.tp)
        return split.swapaxes(1, 2).reshape(self.replicas, layout.dp_attention, -1)


def check_pools(serving: ServingSection, catalog: Catalog) -> None:
    """Refuses layouts that cannot be and servers that nobody knows, of all pools at once.

    Raises:
        InputError: There are some; with a key for each.
    """
    wrong = Refusals()
    for role, section in serving.pools.given.items():
        with wrong:
            _layout(serving, role)
        names = {"server": section.server}
        if section.attention is not None and section.ffn is not None:
            with wrong:
                _ffn_layout(serving, section)
            names |= {"attention.server": section.attention.server, "ffn.server": section.ffn.server}
        for key, name in names.items():
            if name is not None:
                with wrong, keyed(f"pools.{role}.{key}"):
                    catalog.server(name)
    wrong.raise_all()


def place(serving: ServingSection, catalog: Catalog, networks: ServingNetworks) -> tuple[PlacedPool, ...]:
    """Puts the replicas of every pool on ranks, pool after pool, none across scale-up domains that it fits into.

    Raises:
        InputError: They do not fit on the cluster, or a pool's server does not match the cluster's.
    """
    cluster = networks.clusters[0]
    _check_total(serving, cluster)
    pools, start, last = [], 0, None
    open_ended = [pool for pool in serving.pools.given.values() if pool.replicas is None]
    for role, section in serving.pools.given.items():
        if section.network is not None:
            home = networks.names.index(role)
            machine = networks.clusters[home]
            pools.append(replace(_placed(serving, role, catalog, machine, range(machine.ranks)), home=home))
            continue
        if section.replicas is None and len(open_ended) > 1:
            raise InputError("only one pool may leave out `replicas`", key=f"pools.{role}.replicas")
        kinds = _kinds(section, cluster)
        if last not in {None, kinds[0]}:
            start = _full(start, cluster)
        last = kinds[-1]
        pool = _placed(serving, role, catalog, cluster, range(start, cluster.ranks - _behind(serving, role, cluster)))
        start = int(pool.ranks[-1, -1] if pool.ffn is None else pool.ffn.ranks[-1, -1]) + 1
        pools.append(pool)
    _check_host_memory(serving, pools)
    return tuple(pools)


def _check_host_memory(serving: ServingSection, pools: Sequence[PlacedPool]) -> None:
    """Refuses what a replica keeps in host memory beyond that of the servers that it lies on."""
    kept = serving.cache.host + serving.cache.swap
    for pool in pools:
        server = pool.cluster.server
        servers = -(-pool.ranks.shape[1] // pool.cluster.ranks_per_server)
        if kept > servers * server.host_memory_bytes:
            raise InputError(
                f"a replica of `{pool.role}` keeps `host` and `swap` in the memory of {servers} x {server.name}",
                key="cache.host" if serving.cache.host >= serving.cache.swap else "cache.swap",
                found=format_memory(kept),
                allowed=f"together at most {format_memory(servers * server.host_memory_bytes)}",
            )


def _behind(serving: ServingSection, role: Role, cluster: Cluster) -> int:
    """Accelerators that pools behind this one want, in servers of their own where they are of another kind."""
    wanted, last, given = 0, None, list(serving.pools.given.items())
    for other, section in reversed(given[[name for name, _ in given].index(role) :]):
        if section.network is not None:
            continue
        kinds = _kinds(section, cluster)
        if last not in {None, kinds[-1]}:
            wanted = _full(wanted, cluster)
        if other != role:
            wanted, last = wanted + _ranks(serving, other), kinds[0]
    return wanted


def _kinds(section: PoolSection, cluster: Cluster) -> tuple[str, ...]:
    """Servers of a pool, in the order in which they lie."""
    sides = (section,) if section.attention is None else (section.attention, section.ffn)
    usual = section.server or cluster.spec.server
    return tuple((None if side is None else side.server) or usual for side in sides)


def _full(rank: int, cluster: Cluster) -> int:
    """The first rank of a server at or behind one: accelerators of two kinds are in servers of their own."""
    return -(-rank // cluster.ranks_per_server) * cluster.ranks_per_server


def separate_needs(serving: ServingSection) -> dict[str, tuple[int, ...]]:
    """By role of a pool with a network of its own: accelerators of a replica that lie together, side by side."""
    found: dict[str, tuple[int, ...]] = {}
    for role, section in serving.pools.given.items():
        if section.network is None:
            continue
        sides: tuple[int, ...] = (_layout(serving, role).ranks,)
        if section.attention is not None and section.ffn is not None:
            other = section.ffn.ranks
            same = (section.attention.server or section.server) == (section.ffn.server or section.server)
            sides = (sides[0] + other,) if same else (sides[0], other)
        found[role] = sides
    return found


def _check_total(serving: ServingSection, cluster: Cluster) -> None:
    """Refuses pools that together want more than there is: which one is too large is for the reader to say."""
    several = {role: ranks for role in serving.pools.given if (ranks := _ranks(serving, role))}
    total = sum(several.values())
    if total <= cluster.ranks or len(several) < 2:
        return
    counts = {role: serving.pools.given[role].replicas or 1 for role in several}
    given = ", ".join(f"{role} {counts[role]} x {ranks // counts[role]}" for role, ranks in several.items())
    raise InputError(
        f"{given}: {total} accelerators, the cluster has {cluster.ranks}",
        key="pools",
        hint="raise `cluster.accelerators`, or lower `replicas` or the degrees",
    )


def _placed(serving: ServingSection, role: Role, catalog: Catalog, cluster: Cluster, room: range) -> PlacedPool:
    section, key = serving.pools.given[role], f"pools.{role}"
    layout = _layout(serving, role)
    if section.attention is None or section.ffn is None:
        machine = _machine(catalog, cluster, section.server, f"{key}.server")
        ranks = _ranks_of(section, layout.ranks, room, cluster, key)
        return PlacedPool(role, section, machine, layout, ranks, section.server)
    if section.replicas is None:
        raise InputError("a pool with `attention` and `ffn` says how many replicas it has", key=f"{key}.replicas")
    other = _ffn_layout(serving, section)
    here, there = section.attention.server or section.server, section.ffn.server or section.server
    machine = _machine(catalog, cluster, here, f"{key}.attention.server")
    ffn_machine = _machine(catalog, cluster, there, f"{key}.ffn.server")
    if here == there:
        both = _ranks_of(section, layout.ranks + other.ranks, room, cluster, key)
        ranks, ffn_ranks = both[:, : layout.ranks], both[:, layout.ranks :]
    else:
        ranks = _ranks_of(section, layout.ranks, room, cluster, f"{key}.attention")
        next_server = _full(int(ranks[-1, -1]) + 1, cluster)
        ffn_ranks = _ranks_of(section, other.ranks, range(next_server, room.stop), cluster, f"{key}.ffn")
    return PlacedPool(role, section, machine, layout, ranks, here, Ffn(ffn_machine, other, ffn_ranks, there))


def _ranks(serving: ServingSection, role: Role) -> int:
    """Accelerators of the cluster that a pool is known to want."""
    section = serving.pools.given[role]
    if section.network is not None:
        return 0
    each = _layout(serving, role).ranks + (0 if section.ffn is None else section.ffn.ranks)
    return each * (section.replicas or 0)


def _layout(serving: ServingSection, role: Role) -> ServingLayout:
    section = serving.pools.given[role]
    apart = section.attention
    try:
        return ServingLayout(
            tp=section.tp if apart is None else apart.tp,
            pp=section.pp,
            dp_attention=section.dp_attention if apart is None else apart.copies,
            ep=section.ep,
            cp=section.cp,
            precision=section.precision or serving.precision,
            kv_bits=section.kv_bits or serving.kv_bits,
        )
    except InputError as error:
        raise error.located(key=f"pools.{role}") from None


def _ffn_layout(serving: ServingSection, section: PoolSection) -> ServingLayout:
    side = section.ffn
    if side is None:
        raise InputError("this pool has no `ffn`", key="ffn")
    precision = section.precision or serving.precision
    return ServingLayout(tp=side.tp, dp_attention=side.ep, ep=side.ep, precision=precision)


def _ranks_of(section: PoolSection, each: int, room: range, cluster: Cluster, key: str) -> NDArray[np.int64]:
    """Ranks of every replica of a pool; where they fit whole into a domain, none straddles two."""
    domain = cluster.scale_up_domain
    firsts: list[int] = []
    first = room.start
    while section.replicas is None or len(firsts) < section.replicas:
        if each <= domain and first // domain != (first + each - 1) // domain:
            first = (first // domain + 1) * domain
        if first + each > room.stop:
            break
        firsts.append(first)
        first += each
    if not firsts or (section.replicas is not None and len(firsts) < section.replicas):
        raise InputError(
            f"{section.replicas or 1} replicas of {each} accelerators do not fit: {len(room)} of the"
            f" cluster's {cluster.ranks} are left for this pool, which hold {len(firsts)}",
            key=f"{key}.replicas",
            found=section.replicas,
            allowed=f"at most {len(firsts)}" if firsts else None,
            hint="raise `cluster.accelerators`, or lower `tp`, `pp` or `replicas`",
        )
    return np.asarray(firsts, np.int64)[:, None] + np.arange(each)


def _machine(catalog: Catalog, cluster: Cluster, name: str | None, key: str) -> Cluster:
    """The cluster as the pool's replicas see it: its own servers in the same network."""
    if name is None or name == cluster.spec.server:
        return cluster
    with keyed(key):
        server = catalog.server(name)
    if server.accelerators != cluster.server.accelerators:
        raise InputError(
            f"`{server.name}` has {server.accelerators} accelerators, the cluster's `{cluster.server.name}`"
            f" {cluster.server.accelerators}: servers of one network must be of one size",
            key=key,
            found=name,
            hint="servers of another size need a `network` of the pool's own, which `gateway` joins",
        )
    return clusters.build(replace(cluster.spec, server=name, overrides={}), catalog, cluster.placement)
