"""Mutants of a plan's files: what goes wrong with tenants' configurations, and what only looks like it."""

from __future__ import annotations

import re


def swap(text, old, new, once=True):
    return text.replace(old, new, 1) if once else text.replace(old, new)


def mutant(texts, draw):
    """One change, with its name; a change may change nothing that matters.

    Args:
        texts: FRR's files by name.
        draw: A generator of random numbers.
    """
    kinds = [
        wrong_port,
        target_in,
        target_out,
        static,
        take,
        lane,
        vni_device,
        vni_both,
        lone,
        weaken,
        silent,
        port_only,
    ]
    while True:
        found = dict(texts)
        kind = kinds[int(draw.integers(len(kinds)))]
        if kind(found, draw) and found != dict(texts):
            return kind.__name__, found


def pick(draw, items):
    items = sorted(items)
    return items[int(draw.integers(len(items)))] if items else None


def leafs(texts, what="-leaf", ending=".frr.conf"):
    return [name for name in texts if what in name and name.endswith(ending)]


def vrfs(text):
    return sorted(set(re.findall(r"^vrf (\S+)$", text, re.M)))


def devices(name):
    return name.replace(".frr.conf", ".interfaces")


def access(text):
    return re.findall(r"^interface ([^\s.]+) vrf (\S+)\n description", text, re.M)


def wrong_port(texts, draw):
    """A server's port in another tenant's table; its prefix is announced there too, half of the time."""
    name = pick(draw, leafs(texts))
    port, vrf = pick(draw, access(texts[name]))
    other = pick(draw, set(vrfs(texts[name])) - {vrf})
    if other is None:
        return False
    texts[name] = swap(texts[name], f"interface {port} vrf {vrf}\n", f"interface {port} vrf {other}\n")
    at = devices(name)
    texts[at] = swap(texts[at], f"iface {port}\n    vrf {vrf}\n", f"iface {port}\n    vrf {other}\n")
    if draw.random() < 0.5:
        prefix = re.search(rf"interface {port} vrf {other}\n(?: .*\n)*? ip address (\S+)", texts[name])[1]
        texts[name] = in_bgp(texts[name], other, " address-family ipv4 unicast\n", f"  network {prefix}\n")
    return True


def port_only(texts, draw):
    """The port's table changed in one of the two files."""
    name = pick(draw, leafs(texts))
    port, vrf = pick(draw, access(texts[name]))
    other = pick(draw, set(vrfs(texts[name])) - {vrf})
    if other is None:
        return False
    if draw.random() < 0.5:
        texts[name] = swap(texts[name], f"interface {port} vrf {vrf}\n", f"interface {port} vrf {other}\n")
    else:
        at = devices(name)
        texts[at] = swap(texts[at], f"iface {port}\n    vrf {vrf}\n", f"iface {port}\n    vrf {other}\n")
    return True


def in_bgp(text, vrf, after, more):
    """Lines put into a tenant's instance of BGP behind a line of it."""
    head, rest = text.split(f" vrf {vrf}\n bgp router-id", 1)
    return f"{head} vrf {vrf}\n bgp router-id" + rest.replace(after, after + more, 1)


def targets(text):
    return sorted(set(re.findall(r"route-target import (\S+)", text)))


def _target(texts, draw, way):
    name = pick(draw, [one for one in leafs(texts) if "route-target" in texts[one]])
    if name is None:
        return False
    vrf = pick(draw, vrfs(texts[name]))
    every = sorted({t for one in leafs(texts) for t in targets(texts[one])})
    target = pick(draw, [*every, "64512:4242"])
    anchor = f"  route-target {way} "
    head, rest = texts[name].split(f" vrf {vrf}\n bgp router-id", 1)
    at = rest.index(anchor)
    texts[name] = f"{head} vrf {vrf}\n bgp router-id{rest[:at]}{anchor}{target}\n{rest[at:]}"
    return True


def target_in(texts, draw):
    """One more import."""
    return _target(texts, draw, "import")


def target_out(texts, draw):
    """One more export."""
    return _target(texts, draw, "export")


def static(texts, draw):
    """A static route into another tenant's table: of this switch, or of one that is elsewhere; announced, at times."""
    name = pick(draw, leafs(texts))
    vrf = pick(draw, vrfs(texts[name]))
    other = pick(draw, set(vrfs(texts[name])) - {vrf})
    where = pick(draw, leafs(texts))
    prefix = pick(draw, re.findall(r"^ ip address ((?:10\.0\.|fd00:1:)\S+)", texts[where], re.M))
    if other is None or prefix is None:
        return False
    port = pick(draw, re.findall(r"^interface ([^\s.]+)", texts[name], re.M))
    texts[name] = swap(texts[name], f"vrf {vrf}\n", f"vrf {vrf}\n ip route {prefix} {port} nexthop-vrf {other}\n")
    if draw.random() < 0.5:
        texts[name] = in_bgp(texts[name], vrf, " address-family ipv4 unicast\n", f"  network {prefix}\n")
    return True


def take(texts, draw):
    """Another tenant's routes taken over."""
    name = pick(draw, [one for one in texts if one.endswith(".frr.conf") and len(vrfs(texts[one])) > 1])
    if name is None:
        return False
    vrf = pick(draw, vrfs(texts[name]))
    other = pick(draw, set(vrfs(texts[name])) - {vrf})
    texts[name] = in_bgp(texts[name], vrf, " address-family ipv4 unicast\n", f"  import vrf {other}\n")
    return True


def lane(texts, draw):
    """A VLAN between switches in another tenant's table: in one file, or in all that speak of it."""
    name = pick(draw, [one for one in texts if re.search(r"^interface \S+\.\d+ vrf", texts[one], re.M)])
    if name is None:
        return False
    port, vrf = pick(draw, re.findall(r"^interface (\S+\.\d+) vrf (\S+)$", texts[name], re.M))
    other = pick(draw, set(vrfs(texts[name])) - {vrf})
    if other is None:
        return False
    at = devices(name)
    texts[at] = swap(texts[at], f"iface {port}\n    vrf {vrf}\n", f"iface {port}\n    vrf {other}\n")
    if draw.random() < 0.7:
        line = f" neighbor {port} interface peer-group fabric\n"
        texts[name] = (
            texts[name].replace(line, "", 1).replace(f"interface {port} vrf {vrf}", f"interface {port} vrf {other}")
        )
        texts[name] = in_bgp(texts[name], other, " neighbor fabric bfd\n", line)
    return True


def vni_device(texts, draw):
    """A tunnel of another VNI, or with another VLAN."""
    name = pick(draw, [one for one in texts if "vxlan-id" in texts[one]])
    if name is None:
        return False
    old = pick(draw, re.findall(r"vxlan-id (\d+)", texts[name]))
    new = pick(draw, ["10001", "10002", "10003", "10777"])
    if draw.random() < 0.5:
        texts[name] = swap(texts[name], f"vxlan-id {old}\n", f"vxlan-id {new}\n")
    else:
        vlan = pick(draw, re.findall(r"vlan-id (\d+)", texts[name]))
        block = re.search(rf"vxlan-id {old}\n.*\n    bridge-access (\d+)", texts[name])
        texts[name] = texts[name].replace(
            block[0], block[0].replace(f"bridge-access {block[1]}", f"bridge-access {vlan}")
        )
    return True


def vni_both(texts, draw):
    """Another VNI in both files."""
    name = pick(draw, [one for one in leafs(texts) if re.search(r"^ vni", texts[one], re.M)])
    if name is None:
        return False
    old = pick(draw, re.findall(r"^ vni (\d+)", texts[name], re.M))
    used = re.findall(r"^ vni (\d+)", texts[name], re.M)
    new = pick(draw, {"10001", "10002", "10003", "10777"} - set(used))
    if new is None:
        return False
    texts[name] = swap(texts[name], f" vni {old}\n", f" vni {new}\n")
    at = devices(name)
    texts[at] = swap(texts[at], f"vxlan-id {old}\n", f"vxlan-id {new}\n")
    return True


def lone(texts, draw):
    """A line less."""
    name = pick(draw, [one for one in texts if texts[one].strip()])
    rows = texts[name].split("\n")
    safe = [
        n for n, row in enumerate(rows) if re.match(r"\s+(network|neighbor swp|route-target|advertise|ip address)", row)
    ]
    if not safe:
        return False
    del rows[safe[int(draw.integers(len(safe)))]]
    texts[name] = "\n".join(rows)
    return True


def weaken(texts, draw):
    """What does not matter: a description, a timer."""
    name = pick(draw, leafs(texts))
    texts[name] = (
        texts[name].replace(" timers bgp 1 3", " timers bgp 3 9", 1).replace("description node", "description host", 1)
    )
    return True


def silent(texts, draw):
    """A session or a family of addresses that is off."""
    name = pick(draw, [one for one in texts if one.endswith(".frr.conf")])
    texts[name] = swap(texts[name], "  neighbor fabric activate\n", "")
    return True


_FLIP = {"ipv4": "ipv6", "ipv6": "ipv4", " ip address": " ipv6 address", " ipv6 address": " ip address",
         " ip route": " ipv6 route", " ipv6 route": " ip route"}  # fmt: skip


def flipped(texts):
    """Files in which IPv4 and IPv6 have changed places, but for loopbacks: a change of one becomes one of the other."""
    words = re.compile(
        r"(?<=address-family )ipv[46](?= unicast)|(?<=advertise )ipv[46]|^ ipv?6? (?:address|route)", re.M
    )
    loopback = re.compile(r"(?<=^interface lo\n) ip(?= address)", re.M)
    found = {}
    for name, text in texts.items():
        hidden = loopback.sub(" at", text)
        turned = words.sub(lambda match: _FLIP[match[0]], hidden)
        found[name] = re.sub(r"(?<=^interface lo\n) at(?= address)", " ip", turned, flags=re.M)
    return found
