"""Encryption of a network: bytes per packet, latency, key lifetime, and which fabric features it disables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from railyard.kit.errors import InputError
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import LINK_RATE, TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from railyard.cluster.fabric.fabric import Fabric

PROTOCOLS = ("none", "macsec", "ipsec", "psp", "tls", "wireguard")
MODES = ("transport", "tunnel")

BELOW_L4_BYTES = 58
"""Bytes of a fabric's header below L4: preamble 8, gap 12, Ethernet 14, FCS 4 (IEEE 802.3), IPv4 20 (RFC 791)."""
_IPV4, _UDP, _ICV = 20, 8, 16

DEVICE_PS = 200_000
"""Hardware encryption and decryption together. No figure is published. A stated default: the receiver keeps a packet
until its ICV is checked (84 ns of 4,178 B at 400 Gb/s), and each side has a pipeline of 14 AES rounds and GHASH (60 ns
assumed).
"""
AES_CORE_BPS = 52e9
"""A core's AES-128-GCM: OpenSSL 3.0.19, `openssl speed -evp aes-128-gcm -bytes 16384`, a core of a server Xeon with
VAES (measured, busy machine); 0.63 cycles a byte on Skylake (OpenSSL, aesni-gcm-x86_64.pl) are 38 Gb/s at 3 GHz."""
CHACHA_CORE_BPS = 20e9
"""A core's ChaCha20-Poly1305 in blocks of 1,420 B; 33 Gb/s in blocks of 16 KiB."""
RECORD_BYTES = 1 << 14
"""Plaintext of a full TLS record (RFC 8446, 5.1)."""


@dataclass(frozen=True, kw_only=True)
class Encryption:
    """How a network's packets are encrypted: a protocol and its options."""

    protocol: str = field(
        default="none",
        metadata=f.choice("protocol", "What encrypts; `macsec` link by link, the others from end to end", PROTOCOLS),
    )
    mode: Literal["transport", "tunnel"] | None = field(
        default=None,
        metadata=f.choice("mode", "Of `ipsec` and `psp`: a tunnel has an IP header more; else transport", MODES),
    )
    udp: bool | None = field(
        default=None,
        metadata=f.flag("udp", "Of `ipsec`: ESP in UDP, whose source port distinguishes flows; else left out"),
    )
    sci: bool | None = field(
        default=None,
        metadata=f.flag("sci", "Of `macsec`: whether the SecTAG names the channel (16 bytes, else 8); else it does"),
    )
    cookie: bool | None = field(
        default=None, metadata=f.flag("cookie", "Of `psp`: with its virtualization cookie; else left out")
    )
    latency_ps: int | None = field(
        default=None,
        metadata=f.time(
            "latency",
            "Encrypting and decrypting together, of a link (`macsec`) or of both ends; else 200 ns, or as a core",
            "200 ns",
            bounds=TIME.within("0 s", "1 s"),
        ),
    )
    rate_bps: float | None = field(
        default=None,
        metadata=f.rate(
            "rate",
            "What a NIC encrypts, and at the same time decrypts; else as the catalogue has it",
            bounds=LINK_RATE,
        ),
    )

    def overhead_bytes(self, l4_bytes: int) -> int:
        """Bytes added to a packet, including padding.

        Args:
            l4_bytes: Size of the packet above its IP header: transport header and payload.
        """
        return 0 if self.protocol == "none" else self.facts.overhead(self, l4_bytes)

    @property
    def facts(self) -> Protocol:
        """The protocol's properties.

        Raises:
            KeyError: The protocol is `none`.
        """
        return KNOWN[self.protocol]

    @property
    def core_bps(self) -> float | None:
        """Rate at which a core encrypts or decrypts, if cores do so and no device rate is given."""
        return None if self.protocol == "none" or self.rate_bps is not None else self.facts.core_bps

    @property
    def added_ps(self) -> int:
        """Latency of encrypting and decrypting, per link or for both ends."""
        if self.latency_ps is not None:
            return self.latency_ps
        core = self.core_bps
        return DEVICE_PS if core is None else round(2 * 8 * self.facts.unit_bytes / core * 1e12)

    def hides_flows(self) -> bool:
        """Whether switches see neither the transport's ports nor substitutes for them."""
        return self.protocol == "wireguard" or (self.protocol == "ipsec" and not self.udp)


@dataclass(frozen=True)
class Protocol:
    """Properties of a protocol, independent of its options.

    Attributes:
        name: As scenarios write it.
        overhead: Bytes added to a packet, from its options and what is above the packet's IP header.
        options: Keys of `Encryption` that it accepts in addition to latency and rate.
        per_key: Packets (TLS records) that one key may protect.
        source: Source of bytes and counts.
        every_hop: Whether switches see the packet in the clear.
        unit_bytes: Size of the unit of encryption.
        core_bps: Rate per core if the kernel encrypts; None: a device does.
    """

    name: str
    overhead: Callable[[Encryption, int], int]
    options: tuple[str, ...]
    per_key: float
    source: str
    every_hop: bool = False
    unit_bytes: int = 4096
    core_bps: float | None = None

    def key_life_s(self, rate_bps: float, wire_bytes: int) -> float:
        """Lifetime of a key at a rate, with consecutive packets or records of `wire_bytes`."""
        return self.per_key * 8 * wire_bytes / rate_bps


def _macsec(options: Encryption, _: int) -> int:
    """SecTAG of 8 bytes, 8 more with the SCI, and the ICV."""
    return 8 + (0 if options.sci is False else 8) + _ICV


def _ipsec(options: Encryption, l4_bytes: int) -> int:
    """SPI and sequence number 8, IV 8, padding to four bytes with its two bytes of trailer, ICV."""
    tunnel = _IPV4 if options.mode == "tunnel" else 0
    padding = -(l4_bytes + tunnel + 2) % 4
    return tunnel + 8 + 8 + padding + 2 + _ICV + (_UDP if options.udp else 0)


def _psp(options: Encryption, _: int) -> int:
    """UDP, header of 16 bytes, 8 more with the cookie, ICV; no padding."""
    return (_IPV4 if options.mode == "tunnel" else 0) + _UDP + 16 + (8 if options.cookie else 0) + _ICV


def _tls(_: Encryption, l4_bytes: int) -> int:
    """Header 5, type 1 and tag 16 of a record, shared by the packets that carry it, rounded up."""
    return -(-(5 + 1 + _ICV) * l4_bytes // RECORD_BYTES)


def _wireguard(_: Encryption, l4_bytes: int) -> int:
    """Outer IP and UDP, header of 16 bytes, the inner packet padded to 16, tag."""
    return _IPV4 + _UDP + 16 + -(_IPV4 + l4_bytes) % 16 + _ICV


KNOWN = {
    row.name: row
    for row in (
        Protocol(
            "macsec",
            _macsec,
            ("sci",),
            2.0**32,
            "IEEE 802.1AE-2018, clauses 9 and 14: SecTAG 8 or 16 bytes, ICV 16, packet number of 32 bits (64 with XPN)",
            every_hop=True,
        ),
        Protocol(
            "ipsec",
            _ipsec,
            ("mode", "udp"),
            2.0**32,
            "RFC 4303 (ESP; sequence number of 32 bits, 64 with ESN), RFC 4106 (AES-GCM: IV 8, ICV 16), RFC 3948 (UDP)",
        ),
        Protocol(
            "psp",
            _psp,
            ("mode", "cookie"),
            2.0**64,
            "PSP Architecture Specification (Google, 2022); Linux 6.18, include/net/psp/types.h",
        ),
        Protocol(
            "tls",
            _tls,
            (),
            2.0**24.5,
            "RFC 8446, 5.2 (record) and 5.5 (2^24.5 full records a key of AES-GCM)",
            unit_bytes=RECORD_BYTES,
            core_bps=AES_CORE_BPS,
        ),
        Protocol(
            "wireguard",
            _wireguard,
            (),
            2.0**60,
            "WireGuard (Donenfeld, NDSS 2017), 5.4.6 (data message) and 6.1 (2^60 messages, at most 120 s a key)",
            core_bps=CHACHA_CORE_BPS,
        ),
    )
}


def encrypted(fabric: Fabric, encryption: Encryption, transport: str) -> Fabric:
    """A fabric with encrypted packets: larger headers, more latency, without features that need clear headers.

    Args:
        fabric: The unencrypted fabric.
        encryption: The protocol and its options.
        transport: `rdma` or `tcp`.

    Raises:
        InputError: An option belongs to another protocol, or the protocol cannot protect the fabric.
    """
    if encryption.protocol == "none":
        _check_options(encryption, ())
        return fabric
    _check_options(encryption, ("latency", "rate", *encryption.facts.options))
    _check_fabric(fabric, encryption, transport)
    more, late = encryption.overhead_bytes(_l4_bytes(fabric)), encryption.added_ps
    hop = late if encryption.facts.every_hop else 0
    return replace(
        fabric,
        header_bytes=fabric.header_bytes + more,
        nic_latency_ps=fabric.nic_latency_ps + late,
        hop_latency_ps=fabric.hop_latency_ps + hop,
        source_port="pair-of-ports" if encryption.hides_flows() else fabric.source_port,
        e_ecmp=fabric.e_ecmp and not hides_transport(encryption),
        packets=fabric.packets.with_constants(**dict(_constants(fabric, encryption, more))),
    )


def hides_transport(encryption: Encryption) -> bool:
    """Whether switches see no transport header: queue pair and packet numbers."""
    return encryption.protocol in {"ipsec", "psp", "wireguard"}


def _l4_bytes(fabric: Fabric) -> int:
    return fabric.mtu_bytes + max(fabric.header_bytes - BELOW_L4_BYTES, 0)


def _constants(fabric: Fabric, encryption: Encryption, more: int) -> Iterator[tuple[str, Any]]:
    """Packet constants that change; sizes that the packets do not give follow the fabric's."""
    given = fabric.packets.constants
    for name in ("mtu_bytes", "header_bytes"):
        if name in given:
            yield name, given[name] + more
    if "rdma_control_bytes" in given:
        control = max(given["rdma_control_bytes"] - BELOW_L4_BYTES, 0)
        yield "rdma_control_bytes", given["rdma_control_bytes"] + encryption.overhead_bytes(control)
    if given.get("trim") and hides_transport(encryption):
        yield "trim", False


def _check_options(encryption: Encryption, allowed: tuple[str, ...]) -> None:
    for key, value in (
        ("mode", encryption.mode),
        ("udp", encryption.udp),
        ("sci", encryption.sci),
        ("cookie", encryption.cookie),
        ("latency", encryption.latency_ps),
        ("rate", encryption.rate_bps),
    ):
        if value is not None and key not in allowed:
            raise InputError(
                f"`{encryption.protocol}` has no `{key}`",
                key=f"encryption.{key}",
                found=str(value),
                allowed=", ".join(("protocol", *allowed)),
            )


def _check_fabric(fabric: Fabric, encryption: Encryption, transport: str) -> None:
    """Rejects impossible combinations."""
    name = encryption.protocol
    if encryption.facts.core_bps is not None and transport != "tcp":
        _refuse(name, "runs in the kernel, which RDMA bypasses", "use psp or ipsec, or `transport: tcp`")
    if name in {"macsec", "ipsec", "psp"} and "ethernet" not in fabric.families and "infiniband" in fabric.families:
        _refuse(name, f"protects Ethernet or IP; {fabric.name} carries neither", "use another fabric, or `none`")
    if fabric.sharp and not encryption.facts.every_hop:
        _refuse(name, "hides the data that switches would reduce (SHARP)", "use macsec, or `sharp: false`")
    if encryption.facts.every_hop and fabric.load_balancing == "cells":
        _refuse(name, "protects frames, but this fabric sends cells between switches", "use psp or ipsec")
    if encryption.hides_flows() and fabric.load_balancing == "spray" and fabric.packets.constants["transport"] == "uec":
        hint = "use psp, or `{protocol: ipsec, udp: true}`"
        _refuse(name, f"hides the UDP source port by which {fabric.name} sprays", hint)


def _refuse(name: str, why: str, hint: str) -> None:
    raise InputError(f"`{name}` {why}", key="encryption", found=name, hint=hint)


def lost(fabric: Fabric, encryption: Encryption) -> Iterator[str]:
    """Notes on optional fabric features that are lost, and on assumptions.

    Args:
        fabric: The unencrypted fabric.
        encryption: The protocol and its options.
    """
    name = encryption.protocol
    if encryption.hides_flows() and fabric.hashed and fabric.tells_queue_pairs_apart:
        yield f"{name} hides UDP ports: all queue pairs between two ports are hashed onto one path (psp would not)"
    elif hides_transport(encryption) and fabric.e_ecmp:
        yield f"{name} hides the numbers of queue pairs: E-ECMP has only UDP source ports left"
    if hides_transport(encryption) and fabric.packets.constants.get("trim"):
        yield (
            f"{name}: no packet trimming, because what is left of a packet can be neither read nor authenticated;"
            " flow and analytic have no figure of incasts without it"
        )
    if hides_transport(encryption) and fabric.load_balancing == "adaptive":
        yield f"{name}: that switches still route these packets adaptively is assumed"
    if encryption.latency_ps is None and encryption.core_bps is None:
        where = "a link" if encryption.facts.every_hop else "both ends"
        yield f"{name}: {DEVICE_PS / 1e3:g} ns of latency for {where} are assumed (`latency`); no figure is published"
