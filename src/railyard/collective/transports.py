"""Network transports under a collective library that are no RDMA verbs, and what their makers let it choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Transport:
    """A transport, by the settings that its maker documents for the library.

    Attributes:
        name: What its maker calls it.
        nics: Catalogue names of its NICs.
        servers: Catalogue names of the servers with it; empty for every one with that NIC.
        protocols: Those that the library may take between domains.
        families: Of algorithms that it may take between domains; empty for all.
        datagrams: Whether libfabric's reliable datagrams carry messages, which adds `LogConstants.efa_us` to a step.
    """

    name: str
    nics: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ("ll", "ll128", "simple")
    families: tuple[str, ...] = ()
    datagrams: bool = False


VERBS = Transport("verbs")
"""RDMA verbs: everything."""

TRANSPORTS = (
    # Its datagrams arrive in any order, which LL and LL128 cannot stand: the plugin for the first EFA (P4d, P4de) sets
    # NCCL_PROTO to Simple, and exempts P5 (aws-ofi-nccl, issue 76 and pull request 280).
    Transport("EFA, first generation", ("efa-v1-100g",), protocols=("simple",), datagrams=True),
    Transport("EFA", ("efa-v2-100g", "efa-v3-200g", "efa-v4-400g"), datagrams=True),
    # Google's launch scripts of A3 High: NCCL_ALGO=Ring, NCCL_PROTO=Simple, NCCL_NVLS_ENABLE=0.
    Transport("GPUDirect-TCPX", ("gvnic-200g",), ("gcp-a3-high",), ("simple",), ("ring", "peer")),
    # Those of A3 Mega: NCCL_ALGO=Ring,Tree, NCCL_NVLS_ENABLE=0, and NCCL_PROTO=Simple,LL128 with its tuner for LL128.
    Transport("GPUDirect-TCPXO", ("gvnic-200g",), ("gcp-a3-mega",), ("ll128", "simple"), ("ring", "tree", "peer")),
)


def transport_of(nic: str, server: str) -> Transport:
    """The transport of a NIC in a server, both by catalogue name."""
    found = (one for one in TRANSPORTS if nic in one.nics and (not one.servers or server in one.servers))
    return next(found, VERBS)
