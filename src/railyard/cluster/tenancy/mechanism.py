"""What keeps tenants apart: a record a mechanism, with what it numbers tenants by and what it adds to packets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mechanism:
    """One of them.

    Attributes:
        name: As scenarios write it.
        summary: What it is.
        identifier: What a tenant gets a number of; empty where it needs none.
        first: Number of the first tenant.
        last: Largest number.
        between_bytes: Added to a packet on links between switches.
        family: Of switches that have it; empty: any.
        routed: Whether each tenant has tables of routes of its own in switches.
        source: Where sizes and limits stand.
    """

    name: str
    summary: str
    identifier: str = ""
    first: int = 1
    last: int = 2**31
    between_bytes: int = 0
    family: str = ""
    routed: bool = False
    source: str = ""

    @property
    def most(self) -> int:
        """Tenants that it can tell apart."""
        return self.last - self.first + 1


MECHANISMS = {
    row.name: row
    for row in (
        Mechanism(
            "none",
            "Nothing but who has which ports: all reach all that is cabled together; dedicated rails where no switch"
            " joins them",
        ),
        Mechanism(
            "acl",
            "One table of routes; leafs drop what a server sends to others' prefixes",
            family="ethernet",
            source="rows of the TCAM as the files have them: tenants' prefixes, aggregated",
        ),
        Mechanism(
            "vrf",
            "A table of routes a tenant in every switch on its way; links between switches carry a VLAN a tenant",
            identifier="VLAN",
            first=101,
            last=4094,
            between_bytes=4,
            family="ethernet",
            routed=True,
            source="IEEE 802.1Q: tag of 4 bytes, identifiers of 12 bits, 4,094 of them usable",
        ),
        Mechanism(
            "evpn",
            "A table of routes a tenant in leafs alone; VXLAN between them, routes by BGP EVPN (type 5)",
            identifier="VNI",
            first=10_001,
            last=2**24 - 1,
            between_bytes=50,
            family="ethernet",
            routed=True,
            source="RFC 7348: Ethernet 14, IPv4 20, UDP 8, VXLAN 8 bytes, identifiers of 24 bits; RFC 9136",
        ),
        Mechanism(
            "pkey",
            "InfiniBand partitions: ports take packets only of keys that they have",
            identifier="partition key",
            first=1,
            last=0x7FFE,
            family="infiniband",
            source="InfiniBand Architecture Specification, volume 1, 10.9: 15 bits in the BTH that is there anyway",
        ),
        Mechanism(
            "job-key",
            "Ultra Ethernet's JobID: NICs take packets only of jobs that they know",
            identifier="JobID",
            first=1,
            last=2**24 - 1,
            source="UE Specification 1.0: 24 bits in the SES header that is there anyway",
        ),
    )
}
"""By name."""
