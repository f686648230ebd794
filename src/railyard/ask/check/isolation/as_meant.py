"""A switch's tenants as its files have them, against what is meant: by the same readers that prove tenants apart."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING

from railyard.ask.check.isolation.configured import ALL

if TYPE_CHECKING:
    from railyard.ask.check.isolation.configured import Configured, Prefix
    from railyard.ask.deploy.emit.intent import Access, SwitchIntent

Facts = dict[str, object]


def _prefix(access: Access, family: int) -> Prefix:
    return IPv4Network(f"{access.address}/31") if family == 4 else IPv6Network(f"{access.address6}/127")


def meant(intent: SwitchIntent, family: int) -> dict[str, Facts]:
    """By table: its ports, what it announces, with whom it speaks, and by what it is told apart in tunnels."""
    found: dict[str, Facts] = {}
    evpn = intent.by == "evpn"
    for vrf in intent.vrfs:
        found[vrf.name] = {
            "ports": {one.port for one in intent.access_of(vrf.name)},
            "announced": {_prefix(one, family) for one in intent.access_of(vrf.name)},
            "neighbors": {f"{one.port}.{vrf.vlan}" for one in intent.sessions if vrf in one.vrfs},
            "vni": vrf.number if evpn else 0,
            "imports": {vrf.target} if evpn else set(),
            "exports": {vrf.target} if evpn else set(),
        }
    found[ALL] = {
        "ports": {one.port for one in intent.access if not one.vrf},
        "filters": {one.port: {IPv4Network(prefix) for prefix in one.permits} for one in intent.access if one.permits},
        "overlay": evpn,
    }
    return found


def told(configured: Configured, intent: SwitchIntent) -> dict[str, Facts]:
    """The same of a file."""
    found: dict[str, Facts] = {}
    reached = {one.port: one for one in intent.access}
    for name, table in configured.tables.items():
        ports = {port for port, one in configured.ports.items() if one.vrf == name and port in reached and one.address}
        found[name] = {"ports": ports}
        if name != ALL:
            found[name] |= {
                "announced": set(table.announced),
                "neighbors": set(table.neighbors),
                "vni": table.vni,
                "imports": set(table.imports),
                "exports": set(table.exports),
            }
    permits = {
        port: {rule.target for rule in configured.filters.get(one.filter, []) if rule.permits}
        for port, one in configured.ports.items()
        if one.filter
    }
    found[ALL] |= {"filters": permits, "overlay": configured.overlay is not None}
    return found


def differences(intent: SwitchIntent, configured: Configured, family: int = 4) -> list[str]:
    """What a file says otherwise of tenants, in words; empty where it says just that."""
    wanted, found = meant(intent, family), told(configured, intent)
    return [
        f"{name or 'the table of all'}, {key}: intended {value}, the file says {found.get(name, {}).get(key)}"
        for name, facts in wanted.items()
        for key, value in facts.items()
        if found.get(name, {}).get(key) != value
    ] + [f"{name}: in the file, and not meant" for name in found if name not in wanted]
