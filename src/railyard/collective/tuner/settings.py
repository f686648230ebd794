"""What is fixed about collectives, in the words of the libraries that take it: NCCL's variables, its tuner's table.

The table is that of NCCL's example tuner (`ext-tuner/example`, `NCCL_TUNER_CONFIG_FILE`): collective, smallest and
largest size, algorithm, protocol, channels, nodes, ranks, operations in a pipeline, registered buffers; -1 is any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.collective.policy import MOST_CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

ANY = -1
LARGEST = 1 << 62
"""Bytes: of sizes that have no end."""

HEAD = "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,registered"
_FUNCTIONS = {"all-reduce": "allreduce", "all-gather": "allgather", "reduce-scatter": "reducescatter"}
_ALGORITHMS = {
    "ring": "ring",
    "tree": "tree",
    "pat": "pat",
    "nvls": "nvls",
    "nvls-tree": "nvls_tree",
    "collnet-direct": "collnet_direct",
    "collnet-chain": "collnet_chain",
}
_PROTOCOLS = {"ll": "ll", "ll128": "ll128", "simple": "simple"}
"""Words of the tables of NCCL's example tuner; in the environment they are without underscores."""


@dataclass(frozen=True)
class Fixed:
    """What is fixed about collectives.

    Attributes:
        algorithm, protocol: By kind (`all-reduce`), by group or by both, as scenarios write them.
        connections: Channels to a neighbour through each NIC; None: the library's.
        pxn: Whether transfers to another rail go through the peer that owns that rail's NIC.
        nics: Of a server, in the back-end.
    """

    algorithm: Mapping[str, str] = field(default_factory=dict)
    protocol: Mapping[str, str] = field(default_factory=dict)
    connections: int | None = None
    pxn: bool = True
    nics: int = 1

    @property
    def channels(self) -> int:
        """Of a communicator, as many as NCCL has at most; `ANY` where nothing is said."""
        return ANY if self.connections is None else min(self.connections * max(self.nics, 1), MOST_CONNECTIONS)

    def variables(self) -> list[tuple[str, str]]:
        """Names and values for NCCL 2.24 or newer."""
        found = []
        if self.connections is not None:
            found += [("NCCL_MIN_NCHANNELS", str(self.channels)), ("NCCL_MAX_NCHANNELS", str(self.channels))]
        if not self.pxn:
            found.append(("NCCL_PXN_DISABLE", "1"))
        for name, values, known in (
            ("NCCL_ALGO", self.algorithm, _ALGORITHMS),
            ("NCCL_PROTO", self.protocol, _PROTOCOLS),
        ):
            words = ";".join(f"{kind}:{word.replace('_', '')}" for kind, word in _by_function(values, known).items())
            found += [(name, words)] if words else []
        return found

    def untold(self) -> list[tuple[str, str, str]]:
        """Table, key and word of what NCCL has no words for: choices of one group alone, algorithms of others."""
        return [
            (table, key, word)
            for table, values, known in (
                ("algorithm", self.algorithm, _ALGORITHMS),
                ("protocol", self.protocol, _PROTOCOLS),
            )
            for key, word in values.items()
            if key not in _FUNCTIONS or word not in known
        ]

    def tuner_rows(self, nodes: int = ANY, ranks: int = ANY) -> list[str]:
        """One a collective whose algorithm and protocol are both fixed: a row can leave neither to NCCL.

        Args:
            nodes: Of the communicators that it is for.
            ranks: Of these.
        """
        algorithms, protocols = _by_function(self.algorithm, _ALGORITHMS), _by_function(self.protocol, _PROTOCOLS)
        return [
            f"{kind},0,{LARGEST},{algorithms[kind]},{protocols[kind]},{self.channels},{nodes},{ranks},{ANY},{ANY}"
            for kind in sorted(algorithms.keys() & protocols.keys())
        ]


def tuner_table(rows: list[str]) -> str:
    """The file of the example tuner."""
    return "\n".join([HEAD, *rows]) + "\n"


def _by_function(values: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Choices by NCCL's names; those of one group alone, and what NCCL does not have, cannot be told to it."""
    return {_FUNCTIONS[kind]: known[word] for kind, word in values.items() if kind in _FUNCTIONS and word in known}
