"""What a user may fix about collectives; everything else is chosen as the library would."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.constants import MEASURED, LogConstants
from railyard.graph import CollectiveKind
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.collective.algorithm import Algorithm

PROTOCOLS = ("ll", "ll128", "simple")
MOST_CONNECTIONS = 64
"""Channels that NCCL has at most (`MAXCHANNELS`)."""

SELECTORS = ("library", "best")
_NONE: Mapping[str, str] = MappingProxyType({})


def kind_word(kind: CollectiveKind) -> str:
    """A kind of collective as users write it: `all-reduce`."""
    return kind.name.lower().replace("_", "-")


KINDS = {kind_word(kind): kind for kind in CollectiveKind}


@dataclass(frozen=True)
class CollectivePolicy:
    """Overrides of the choice.

    Attributes:
        algorithm: Algorithm by kind (`all-reduce`), by group (`dp`) or by both (`dp all-reduce`); the most precise key
            wins.
        protocol: Protocol (`ll`, `ll128`, `simple`) by the same keys.
        selector: `library`: the choice that NCCL or RCCL would make; `best`: the shortest predicted time. Every fabric
            is judged by the same selector, `ideal` too. Accelerators of other makers have no library here whose choice
            is known; for them it is always `best`.
        pxn: Whether a transfer to another rail goes through the peer that owns that rail's NIC. Without scale-up it
            cannot.
        connections: Connections to a neighbour through each NIC; None: as many as the library opens, see
            `railyard.collective.connections`.
        version: Version of NCCL whose constants the choice follows, "2.18" to "2.30"; newer ones are taken as the last.
        launch_ps: Added to every invocation: what the host's way of launching costs beyond the library's own floor.
        network_overhead_ps: Added to every step through a NIC: what a virtualized or socket-based network stack costs.
        measured: Constants of libraries that were read off logs.
        written: Schedules that were made for this policy, which `algorithm` may name: they are known while it is kept.
    """

    algorithm: Mapping[str, str] = field(default_factory=lambda: _NONE)
    protocol: Mapping[str, str] = field(default_factory=lambda: _NONE)
    selector: str = "library"
    pxn: bool = True
    connections: int | None = None
    version: str = "2.30"
    launch_ps: int = 0
    network_overhead_ps: int = 0
    measured: LogConstants = field(default=MEASURED, hash=False)
    written: tuple[Algorithm, ...] = ()

    def __post_init__(self) -> None:
        for key, name in self.algorithm.items():
            kind = _kind_of("algorithm", key)
            if kind is not None and kind not in ALGORITHMS.get(name).kinds:
                allowed = [other for other, record in ALGORITHMS.items() if kind in record.kinds]
                raise InputError(
                    f"`{name}` does not do {kind_word(kind)}", key=f"algorithm.{key}", found=name, allowed=allowed
                )
            ALGORITHMS.get(name)
        for key, name in self.protocol.items():
            _kind_of("protocol", key)
            if name not in PROTOCOLS:
                raise InputError("unknown protocol", key=f"protocol.{key}", found=name, allowed=PROTOCOLS)
        if self.selector not in SELECTORS:
            hint = did_you_mean(self.selector, SELECTORS)
            raise InputError("unknown selector", key="selector", found=self.selector, allowed=SELECTORS, hint=hint)

        if self.connections is not None and not 1 <= self.connections <= MOST_CONNECTIONS:
            most = f"1 to {MOST_CONNECTIONS}"
            raise InputError("out of range", key="connections", found=self.connections, allowed=most)
        self.version_number  # noqa: B018 - refuses what is no version

    @property
    def version_number(self) -> tuple[int, int]:
        """Major and minor version, for example (2, 30)."""
        found = re.match(r"v?(\d{1,4})\.(\d{1,4})", self.version)
        if found is None:
            raise InputError(
                "not a version of NCCL", key="version", found=self.version, allowed="two numbers, such as 2.20"
            )
        return int(found.group(1)), int(found.group(2))

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CollectivePolicy) and self._identity() == other._identity()

    def _identity(self) -> tuple[object, ...]:
        fixed = (tuple(sorted(self.algorithm.items())), tuple(sorted(self.protocol.items())))
        return (
            *fixed,
            self.selector,
            self.pxn,
            self.connections,
            self.version,
            self.launch_ps,
            self.network_overhead_ps,
        )

    def algorithm_for(self, kind: CollectiveKind, group: str) -> str | None:
        """The algorithm that is fixed for a kind and group, or None.

        A group's key counts only where its algorithm does that kind: `dp: ring` says nothing of an all-to-all.
        """
        name = _lookup(self.algorithm, kind, group)
        if name is None or kind not in ALGORITHMS.get(name).kinds:
            return None
        return name

    def protocol_for(self, kind: CollectiveKind, group: str) -> str | None:
        """The protocol that is fixed for a kind and group, or None."""
        return _lookup(self.protocol, kind, group)


def _lookup(table: Mapping[str, str], kind: CollectiveKind, group: str) -> str | None:
    word = kind_word(kind)
    for key in (f"{group} {word}", word, group):
        if key in table:
            return table[key]
    return None


def _kind_of(table: str, key: str) -> CollectiveKind | None:
    """The kind that a key names, or None when it names a group only."""
    words = key.split()
    if not 1 <= len(words) <= 2:
        raise InputError("a key is a kind, a group, or a group and a kind", key=table, found=key, allowed=list(KINDS))
    if words[-1] in KINDS:
        return KINDS[words[-1]]
    if len(words) == 2 or "-" in key:
        raise InputError(
            f"there is no collective `{words[-1]}`",
            key=table,
            found=key,
            allowed=list(KINDS),
            hint=did_you_mean(words[-1], KINDS),
        )
    return None
