"""A judge of isolation that shares no code with what it judges: FRR's files read by patterns of its own, BGP played round by
round until nothing changes, every packet from every server to every other walked hop by hop."""

from __future__ import annotations

import ipaddress
import re

ROUNDS = 60


class Box:
    """One switch's two files."""

    def __init__(self, name, conf, devices, want):
        self.want = want
        self.name, self.asn, self.loop = name, 0, None
        self.vrfs, self.addr, self.of = {"": self.blank()}, {}, {}
        self.evpn = False
        self.conf(conf.replace("\r", ""))
        self.kernel(devices)
        for port, (_, vrf) in list(self.addr.items()):
            if vrf is not None and vrf != self.of.get(port, ""):
                del self.addr[port]
        for vrf, table in self.vrfs.items():
            table["vni"] = self.kernel_vni.get(vrf, 0)
            table["up"] = table["vni"] != 0 and table["frr_vni"] == table["vni"]

    @staticmethod
    def blank():
        return {"nets": set(), "peers": set(), "rin": set(), "rout": set(), "static": {}, "take": set(), "evpn": False,
                "active": False, "frr_vni": 0, "vni": 0, "nets4": set(), "active4": False}  # fmt: skip

    def conf(self, text):
        here, what, word = None, None, {"4": "ip", "6": "ipv6"}[self.want]
        for row in text.split("\n"):
            words = row.split()
            if not words or words[0] == "!":
                continue
            if row[0] != " ":
                if m := re.match(r"router bgp (\d+)(?: vrf (\S+))?$", row):
                    what, here = "bgp", self.vrfs.setdefault(m[2] or "", self.blank())
                    family = "4"
                    self.asn = int(m[1]) if not m[2] else self.asn
                elif m := re.match(r"vrf (\S+)$", row):
                    what, here = "vrf", self.vrfs.setdefault(m[1], self.blank())
                elif m := re.match(r"interface (\S+)(?: vrf (\S+))?$", row):
                    what, here = "if", (m[1], m[2])
                else:
                    what = None
                continue
            if what == "if" and (m := re.match(r" (ip|ipv6) address (\S+)", row)):
                if here[0] == "lo":
                    self.loop = m[2].split("/")[0] if m[1] == "ip" else self.loop
                elif m[1] == word:
                    self.addr[here[0]] = (ipaddress.ip_interface(m[2]), here[1])
            elif what == "vrf":
                if m := re.match(r" vni (\d+)", row):
                    here["frr_vni"] = int(m[1])
                if m := re.match(rf" {word} route (\S+) \S+ nexthop-vrf (\S+)", row):
                    here["static"][ipaddress.ip_network(m[1])] = m[2]
            elif what == "bgp":
                if m := re.match(r"\s+(?:exit-)?address-family(?: (l2vpn|ipv6))?", row):
                    family = {"l2vpn": "e", "ipv6": "6"}.get(m[1], "4")
                elif m := re.match(r"\s+neighbor (\S+) interface peer-group", row):
                    here["peers"].add(m[1])
                elif row.split()[-1] == "activate":
                    self.evpn |= family == "e"
                    here["active"] |= family == self.want
                    here["active4"] |= family == "4"
                elif m := re.match(r"\s+network (\S+)", row):
                    for key in [*(["nets"] if family == self.want else []), *(["nets4"] if family == "4" else [])]:
                        here[key].add(ipaddress.ip_network(m[1]))
                elif m := re.match(r"\s+route-target (import|export|both) (\S+)", row):
                    if m[1] != "export":
                        here["rin"].add(m[2])
                    if m[1] != "import":
                        here["rout"].add(m[2])
                elif m := re.match(r"\s+import vrf (\S+)", row):
                    here["take"] |= {m[1]} if family == self.want else set()
                elif f"advertise ipv{self.want} unicast" in row:
                    here["evpn"] = True

    def kernel(self, text):
        blocks = [block.split("\n") for block in text.split("auto ")[1:]]
        said = {block[0].strip(): dict(row.split(None, 1) for row in block[2:] if row.strip()) for block in blocks}
        self.of = {name: keys["vrf"] for name, keys in said.items() if "vrf" in keys}
        by_vlan = {keys["vlan-id"]: keys.get("vrf") for keys in said.values() if "vlan-id" in keys}
        self.kernel_vni = {}
        for keys in said.values():
            if "vxlan-id" in keys and by_vlan.get(keys.get("bridge-access")):
                self.kernel_vni[by_vlan[keys["bridge-access"]]] = int(keys["vxlan-id"])


def boxes(texts, want):
    names = [name.removesuffix(".frr.conf") for name in texts if name.endswith(".frr.conf")]
    return {name: Box(name, texts[f"{name}.frr.conf"], texts.get(f"{name}.interfaces", ""), want) for name in names}


def peers(found, cables, active):
    """((switch, vrf), (switch, vrf)) that exchange routes, by cable."""
    for number, (a, p, b, q) in enumerate(cables):
        for tag in {
            port.partition(".")[2] for box in (found[a], found[b]) for v in box.vrfs.values() for port in v["peers"]
        }:
            end = f".{tag}" if tag else ""
            one = [
                v
                for v, t in found[a].vrfs.items()
                if p + end in t["peers"] and t[active] and found[a].of.get(p + end, "") == v
            ]
            two = [
                v
                for v, t in found[b].vrfs.items()
                if q + end in t["peers"] and t[active] and found[b].of.get(q + end, "") == v
            ]
            for v in one:
                for w in two:
                    yield number, (a, v), (b, w)


def settle(found, links, under):
    """Routes of every table: prefix to (path, next tables, kind); tunnels go over IPv4's sessions."""
    rib = {(name, vrf): {} for name, box in found.items() for vrf in box.vrfs}
    fabric = {name: {} for name in found}  # of each switch, by origin: the path over EVPN
    for _ in range(ROUNDS):
        new = {}
        for name, vrf in rib:
            box, table = found[name], found[name].vrfs[vrf]
            mine = {i.network for p, (i, _) in box.addr.items() if box.of.get(p, "") == vrf}
            if vrf == "" and box.loop:
                mine = mine | {ipaddress.ip_network(box.loop + "/32")}
            offers = {}
            for prefix in table["nets"]:
                if prefix in mine or prefix in table["static"]:
                    offers.setdefault(prefix, []).append(((), None, "own"))
            for one, other in links:
                if other == (name, vrf):
                    far = found[one[0]]
                    for prefix, (path, _, kind) in rib[one].items():
                        if box.asn not in (far.asn, *path) and kind != "static":
                            offers.setdefault(prefix, []).append(((far.asn, *path), one, "bgp"))
            for taken in table["take"]:
                for prefix, (path, _, kind) in rib.get((name, taken), {}).items():
                    if kind in ("own", "bgp"):
                        offers.setdefault(prefix, []).append((path, (name, taken), "took"))
            for far, there in found.items():
                if far == name or not box.evpn or far not in fabric[name]:
                    continue
                for w, t in there.vrfs.items():
                    if not (t["up"] and t["evpn"] and there.evpn and t["rout"] & table["rin"]):
                        continue
                    for prefix, (_, _, kind) in rib[far, w].items():
                        if kind in ("own", "bgp", "took"):
                            for vni in {t["vni"], table["vni"]} - {0}:
                                into = [x for x, y in there.vrfs.items() if y["vni"] == vni]
                                if into:
                                    offers.setdefault(prefix, []).append((fabric[name][far], (far, into[0]), "tunnel"))
            best = {}
            for prefix, list_ in offers.items():
                rank = {"own": -1, "bgp": 0, "tunnel": 0, "took": 0.5}
                least = min((len(path), rank[kind]) for path, _, kind in list_ if True)
                own = [o for o in list_ if o[2] == "own"]
                good = own or [o for o in list_ if (len(o[0]), rank[o[2]]) == least]
                best[prefix] = (good[0][0], sorted({o[1] for o in good if o[1]}), good[0][2])
            new[name, vrf] = best
        loops = {name: ipaddress.ip_network(box.loop + "/32") for name, box in found.items() if box.loop}
        reach = {name: {} for name in found}
        for name in found:
            if found[name].evpn and loops.get(name) in found[name].vrfs[""]["nets4"]:
                reach[name][name] = ()
        for (a, v), (b, w) in under:
            if v == w == "" and found[a].evpn and found[b].evpn:
                for origin, path in fabric[a].items():
                    if found[b].asn not in (found[a].asn, *path):
                        longer = (found[a].asn, *path)
                        if origin not in reach[b] or len(reach[b][origin]) > len(longer):
                            reach[b][origin] = longer
        if new == rib and reach == fabric:
            return rib
        rib, fabric = new, reach
    raise AssertionError("routes do not settle")


def arrives(found, rib, source, target):
    """Whether a packet that a server sends comes to another. A server: (switch, port, address)."""
    box, address = found[source[0]], target[2]
    if source[1] not in box.addr:
        return False
    seen, waiting = set(), [(source[0], box.of.get(source[1], ""))]
    while waiting:
        here = waiting.pop()
        if here in seen or here not in rib:
            continue
        seen.add(here)
        box, table = found[here[0]], found[here[0]].vrfs[here[1]]
        ports = [
            (i.network, p) for p, (i, _) in box.addr.items() if box.of.get(p, "") == here[1] and address in i.network
        ]
        routes = [
            (p, [(here[0], v)]) for p, v in table["static"].items() if address in p and p not in {n for n, _ in ports}
        ]
        static = {p for p, _ in routes}
        routes += [(p, to) for p, (_, to, _) in rib[here].items() if address in p and to and p not in static]
        longest = max([n.prefixlen for n, _ in ports] + [p.prefixlen for p, _ in routes], default=-1)
        attached = [p for n, p in ports if n.prefixlen == longest]
        if attached:
            if here[0] == target[0] and target[1] in attached:
                return True
            continue
        for p, to in routes:
            if p.prefixlen == longest:
                waiting += to
    return False


def leaks(texts, cables, servers, losses=None, want="4"):
    """Ordered pairs of tenants that reach each other: with all up, or without one cable or switch.

    Args:
        texts: Files by name.
        cables: (switch, port, switch, port).
        servers: (tenant, switch, port, address).
        losses: Switches, and cables by number, that are lost one at a time; None: nothing, and each of them.
        want: "4" or "6": the family of addresses.
    """
    found = boxes(texts, want)
    both = [list(peers(found, cables, active)) for active in ("active", "active4")]
    pairs = set()
    for lost in [None, *sorted(found), *range(len(cables))] if losses is None else losses:
        links, under = (
            [pair for number, a, b in some for pair in ((a, b), (b, a)) if number != lost and lost not in (a[0], b[0])]
            for some in both
        )
        alive = {name: box for name, box in found.items() if name != lost}
        rib = settle(alive, links, under)
        for tenant, *source in servers:
            for other, *target in servers:
                asked = tenant != other and (tenant, other) not in pairs and lost not in (source[0], target[0])
                if asked and arrives(alive, rib, source, target):
                    pairs.add((tenant, other))
    return pairs
