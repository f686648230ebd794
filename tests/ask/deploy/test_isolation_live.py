"""Tenants kept apart by real FRR and real packets: rendered files in namespaces, and a leak that ping proves.

Kernels without VRF devices have namespaces in their stead: FRR's own backend for VRFs (`zebra --vrfwnetns`), in which
each tenant's table of a switch is a namespace, and a VLAN between switches a cable of its own between two of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from railyard.ask.check.isolation.judged import judge, rendered, wired_of
from railyard.ask.deploy.cabling import HOSTS6

from .namespaces import FRR, Lab, sh, why
from .scenarios import draft, planned
from .test_isolation import cables_of

WHY = why()
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.slow]

ECHO = """
import os, select, socket, struct, sys, time
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
head = struct.pack("!BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, 1)
total = sum(struct.unpack("!4H", head))
total = (total & 0xFFFF) + (total >> 16)
packet = head[:2] + struct.pack("!H", ~total & 0xFFFF) + head[4:]
for address in sys.argv[1:]:
    try:
        out.sendto(packet, (address, 0))
    except OSError:
        pass
end = time.monotonic() + 1
while (left := end - time.monotonic()) > 0:
    if select.select([out], [], [], left)[0]:
        data, (address, _) = out.recvfrom(2000)
        if data[20] == 0:
            print(address)
"""

ECHO6 = """
import os, select, socket, struct, sys, time
out = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
for address in sys.argv[1:]:
    try:
        out.sendto(struct.pack("!BBHHH", 128, 0, 0, os.getpid() & 0xFFFF, 1), (address, 0))
    except OSError:
        pass
end = time.monotonic() + 1
while (left := end - time.monotonic()) > 0:
    if select.select([out], [], [], left)[0]:
        data, (address, *_) = out.recvfrom(2000)
        if data[0] == 129:
            print(address)
"""

TWO = [{"name": "blue", "servers": "0,2"}, {"name": "green", "servers": "1,3"}]


class Shared(Lab):
    """A lab whose switches have tables for tenants."""

    def table(self, switch: str, vrf: str) -> str:
        """The namespace of a tenant's table, as a device of the lab."""
        return f"{switch}.{vrf}"

    def build(self, texts, cables, servers) -> None:
        """Switches, their tables, servers and cables, by the files of devices; then FRR on the switches."""
        switches = sorted({name.split(".")[0] for name in texts})
        vrf_of = {name: _vrfs(texts[f"{name}.interfaces"]) for name in switches}
        for name in switches:
            self.add(name)
            for vrf in _tables(texts[f"{name}.frr.conf"]):
                self.add(self.table(name, vrf))
        for a, p, b, q in cables:
            self.cable(a, p, b, q)
            lanes = sorted(port.partition(".")[2] for port in vrf_of[a] if port.startswith(f"{p}."))
            for lane in lanes:
                one, other = f"{p}.{lane}", f"{q}.{lane}"
                self.cable(self.table(a, vrf_of[a][one]), one, self.table(b, vrf_of[b][other]), other)
        for number, server in enumerate(servers):
            host = f"node{number}"
            self.add(host)
            vrf = vrf_of[server.switch].get(server.port)
            self.cable(host, "be0", self.table(server.switch, vrf), server.port)
            self.inside(host, "ip", "address", "add", f"{server.address}/31", "dev", "be0")
            self.inside(host, "ip", "route", "add", "default", "via", str(server.address - 1))
            own = address6(server)
            self.inside(host, "ip", "-6", "address", "add", f"{own}/127", "dev", "be0", "nodad")
            self.inside(host, "ip", "-6", "route", "add", "default", "via", str(own - 1))
        for name in switches:
            self.tunnels(name, texts[f"{name}.frr.conf"], texts[f"{name}.interfaces"])
            self.speak(name, texts[f"{name}.frr.conf"])

    def tunnels(self, switch: str, text: str, devices: str) -> None:
        """Tunnels of tenants: made where the switch's loopback is, and put on a bridge in the tenant's table."""
        loopback = re.search(r"^interface lo\n ip address (\S+)/32", text, re.M)[1]
        vrf_of = dict(re.findall(r"    vlan-id (\d+)\n.*\n    vrf (\S+)", devices))
        for name, vni, vlan in re.findall(r"iface (vni\d+)\n    vxlan-id (\d+)\n.*\n    bridge-access (\d+)", devices):
            into, svi = self.table(switch, vrf_of[vlan]), f"vlan{vlan}"
            tunnel = ("type", "vxlan", "id", vni, "local", loopback, "dstport", "4789", "nolearning")
            self.inside(switch, "ip", "link", "add", name, *tunnel)
            self.inside(switch, "ip", "link", "set", name, "netns", self.space(into))
            self.inside(into, "ip", "link", "add", svi, "type", "bridge")
            self.inside(into, "ip", "link", "set", name, "master", svi, "up")
            self.inside(into, "ip", "link", "set", svi, "up")

    def speak(self, switch: str, text: str) -> None:
        """FRR with a switch's file, in a mount namespace in which only that switch's tables have names."""
        place, seen = self.folder / switch, self.folder / f"{switch}.netns"
        for path in (place, seen):
            path.mkdir()
        sh("chown", "frr:frr", str(place))
        binds = ""
        for vrf in _tables(text):
            (seen / vrf).touch()
            binds += f"mount --bind /run/netns/{self.space(self.table(switch, vrf))} {seen}/{vrf}; "
        (place / "frr.conf").write_text(text)
        common = f"-f {place}/frr.conf -z {place}/zserv.api --vty_socket {place} -A 127.0.0.1"
        daemons = f"{FRR}/zebra --vrfwnetns -i {place}/zebra.pid {common} & "
        daemons += f"while [ ! -S {place}/zserv.api ]; do sleep 0.05; done; "
        daemons += f"exec {FRR}/bgpd -i {place}/bgpd.pid {common}"
        script = f"{binds}mount --rbind {seen} /run/netns; {daemons}"
        command = ["nsenter", f"--net=/run/netns/{self.space(switch)}", "unshare", "-m", "sh", "-c", script]
        with (self.folder / f"{switch}.log").open("wb") as log:
            environment = os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
            self.speakers.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))

    def __exit__(self, *error):
        for path in self.folder.glob("*/zebra.pid"):
            self.pids.append(int(path.read_text()))
        super().__exit__(*error)

    def answers(self, source: int, addresses) -> set[str]:
        """The addresses from which an echo comes back within a second: ICMP, as `ping` sends it."""
        script = ECHO6 if any(":" in str(one) for one in addresses) else ECHO
        found = self.inside(f"node{source}", sys.executable, "-c", script, *map(str, addresses), check=False)
        return set(found.split())

    def routes(self, switch: str, vrf: str) -> str:
        return self.inside(self.table(switch, vrf), "ip", "route")


def address6(server):
    """The plan's, by its IPv4."""
    return IPv6Address(HOSTS6 | int(server.address))


def _vrfs(devices: str) -> dict[str, str]:
    return dict(re.findall(r"iface (\S+)\n    vrf (\S+)", devices))


def _tables(text: str) -> list[str]:
    return re.findall(r"^vrf (\S+)$", text, re.M)


def until(holds, seconds=45.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.5)


def plan_of(by):
    """Two leafs of two servers with a NIC each, two spines, two tenants."""
    parts = {"ports_per_leaf": 2, "spines": 2}
    return planned(draft(4, "leaf-spine", "roce", parts, server="gh200-node", tenancy={"by": by, "tenants": TWO}))


def texts_of(plan):
    """Files by name; switches that need no devices have an empty file of them."""
    texts = rendered(plan, "frr")
    return {name.replace(".frr.conf", ".interfaces"): "" for name in texts if name.endswith(".frr.conf")} | texts


@pytest.fixture(scope="module")
def plan():
    return plan_of("vrf")


def played(plan, texts, check):
    wired = wired_of(plan, "frr", texts)
    with Shared() as lab:
        lab.build(texts, cables_of(wired), wired.servers)
        check(lab, wired.servers)


def pairs(lab, servers, only, of=lambda server: server.address):
    """Tenants between whose servers echoes come back: of one tenant, or of two; by IPv4, or `of` another address."""
    found = set()
    for number, a in enumerate(servers):
        asked = {str(of(b)): b for b in servers if a is not b and (a.tenant == b.tenant) == only}
        found |= {(a.tenant, asked[address].tenant) for address in lab.answers(number, asked) if address in asked}
    return found


@pytest.mark.parametrize("by", ["vrf", "evpn"])
def test_real_switches_keep_tenants_apart_and_each_together(by):
    plan = plan_of(by)
    texts = texts_of(plan)
    assert not judge(plan, "frr", texts).findings

    def check(lab, servers):
        until(lambda: pairs(lab, servers, only=True) == {("blue", "blue"), ("green", "green")})
        until(lambda: pairs(lab, servers, only=True, of=address6) == {("blue", "blue"), ("green", "green")})
        assert pairs(lab, servers, only=False) == pairs(lab, servers, only=False, of=address6) == set()

    played(plan, texts, check)


def moved(texts, switch, port, old, new):
    """The files with a port, or a VLAN of one, in another table; what BGP says of it moves too."""
    name, devices = f"{switch}.frr.conf", f"{switch}.interfaces"
    line = f" neighbor {port} interface peer-group fabric\n"
    text = texts[name].replace(f"interface {port} vrf {old}", f"interface {port} vrf {new}").replace(line, "", 1)
    head, rest = text.split(f" vrf {new}\n bgp router-id", 1)
    after = " neighbor fabric bfd\n"
    text = f"{head} vrf {new}\n bgp router-id{rest.replace(after, after + line, 1)}"
    kernel = texts[devices].replace(f"iface {port}\n    vrf {old}", f"iface {port}\n    vrf {new}")
    return {**texts, name: text, devices: kernel}


def test_a_leak_that_is_found_in_the_files_is_one_of_real_packets(plan):
    """On a spine, blue's VLAN towards be-leaf0 is in green's table: routes of both cross there, and packets follow."""
    texts = rendered(plan, "frr")
    port = min(re.findall(r"^interface (\S+\.101) vrf blue$", texts["be-spine0.frr.conf"], re.M))
    texts = moved(texts, "be-spine0", port, "blue", "green")
    found = judge(plan, "frr", texts).findings
    assert {tuple(re.findall(r"`(\w+)`", words)[:2]) for words in found} == {("blue", "green"), ("green", "blue")}
    assert all("`be-spine0.interfaces:" in words and "vrf green`" in words for words in found)

    def check(lab, servers):
        until(lambda: pairs(lab, servers, only=True) == {("blue", "blue"), ("green", "green")})
        until(lambda: pairs(lab, servers, only=False) == {("blue", "green"), ("green", "blue")})

    played(plan, texts, check)


def test_a_leak_over_ipv6_alone_is_one_of_real_packets(plan):
    """As before, but green's table on that spine speaks IPv6 alone: IPv4 is apart, by the files and on the wire."""
    texts = rendered(plan, "frr")
    port = min(re.findall(r"^interface (\S+\.101) vrf blue$", texts["be-spine0.frr.conf"], re.M))
    texts = moved(texts, "be-spine0", port, "blue", "green")
    head, rest = texts["be-spine0.frr.conf"].split(" vrf green\n bgp router-id", 1)
    silent = rest.replace("  neighbor fabric activate\n", "", 1)
    texts["be-spine0.frr.conf"] = f"{head} vrf green\n bgp router-id{silent}"
    found = judge(plan, "frr", texts).findings
    assert {tuple(re.findall(r"`(\w+)`", words)[:2]) for words in found} == {("blue", "green"), ("green", "blue")}
    assert all("fd00:1::" in words and "`be-spine0.interfaces:" in words for words in found)

    def check(lab, servers):
        until(lambda: pairs(lab, servers, only=True) == {("blue", "blue"), ("green", "green")})
        until(lambda: pairs(lab, servers, only=False, of=address6) == {("blue", "green"), ("green", "blue")})
        assert pairs(lab, servers, only=False) == set()

    played(plan, texts, check)


@pytest.mark.parametrize("by", ["vrf", "evpn"])
def test_a_port_in_the_wrong_table_is_a_leak_of_real_packets(by):
    """Blue's server 0 in green's table, with its prefix announced there; with `evpn` packets cross in a tunnel."""
    plan = plan_of(by)
    texts = texts_of(plan)
    name, devices = "be-leaf0.frr.conf", "be-leaf0.interfaces"
    port, prefix = re.search(
        r"^interface (\S+) vrf blue\n description node0.*\n ip address (\S+)", texts[name], re.M
    ).groups()
    texts[name] = texts[name].replace(f"interface {port} vrf blue", f"interface {port} vrf green")
    texts[devices] = texts[devices].replace(f"iface {port}\n    vrf blue", f"iface {port}\n    vrf green")
    texts[name] = texts[name].replace(f"  network {prefix}\n", "", 1)
    head, rest = texts[name].split(" vrf green\n bgp router-id", 1)
    after = " address-family ipv4 unicast\n"
    texts[name] = f"{head} vrf green\n bgp router-id{rest.replace(after, f'{after}  network {prefix}' + chr(10), 1)}"
    found = judge(plan, "frr", texts).findings
    assert any(f"`{devices}:" in words and "vrf green" in words for words in found)

    def check(lab, servers):
        until(lambda: ("green", "green") in pairs(lab, servers, only=True))
        until(lambda: pairs(lab, servers, only=False) == {("blue", "green"), ("green", "blue")})

    played(plan, texts, check)


def test_the_folder_of_a_lab_is_gone_after_it():
    with Shared() as lab:
        folder = lab.folder
    assert not Path(folder).exists()
