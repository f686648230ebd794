"""First boots: Kea takes its files, leases what they say, and names from outside stay names."""

from __future__ import annotations

import json
import os
import shutil
import string
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.ask.deploy.emit import configurations
from railyard.ask.deploy.emit import provision as kea
from railyard.ask.deploy.emit import provision as read_back
from railyard.ask.deploy.emit.boots import KnownDevice, boots, folder_of, read
from railyard.ask.deploy.emit.provision import Provision, files
from railyard.face.cli import guard
from railyard.kit.errors import InputError, RailyardError

from .scenarios import draft, planned

PATHS = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
ROOM = os.environ | {"PATH": PATHS}
FOLDER = "http://10.248.0.2/plan/"
INVENTORY = {
    "be-leaf0": KnownDevice(mac="00:1c:73:aa:00:01"),
    "be-leaf1": KnownDevice(serial="SSJ17290001"),
    "be-leaf2": KnownDevice(circuit_id="oob1:Ethernet7"),
    "be-spine0": KnownDevice(mac="00:1c:73:aa:00:09", serial="SSJ17290009"),
}


@pytest.fixture(scope="module")
def plan():
    return planned(draft(256, "leaf-spine", "roce", front_end={"topology": "leaf-spine"}))


def listed(plan, system="eos", inventory=INVENTORY):
    return list(boots(plan, system, FOLDER, inventory))


def test_who_gets_what(plan):
    by = {one.device: one for one in listed(plan)}
    leaf = by["be-leaf0"]
    assert (leaf.address, leaf.address6) == ("10.248.1.0", "fd00:f8::af8:100")
    assert leaf.file == "http://10.248.0.2/plan/switches/be-leaf0.eos.cfg"
    node = by["node00"]
    assert node.gateway == node.address.rsplit(".", 1)[0] + f".{int(node.address.rsplit('.', 1)[1]) - 1}"
    assert len({one.address for one in by.values()}) == len(by)
    assert {one.device for one in by.values() if not one.told} == {
        name for name in by if not name.startswith("node") and name not in INVENTORY
    }


@pytest.mark.parametrize("system", ["frr", "sonic", "eos", "junos"])
def test_files_say_what_was_meant_and_name_what_is_missing(plan, system):
    texts = dict(files(plan, system, Provision(FOLDER, INVENTORY)))
    top = json.loads(texts["provision/kea-dhcp4.conf"])["Dhcp4"]
    managed = top["subnet4"][0]
    assert {row["hostname"] for row in managed["reservations"]} == {"be-leaf0", "be-leaf2", "be-spine0"}
    assert [pool["client-class"] for pool in managed["pools"]] == ["be-leaf1"]
    assert len(top["subnet4"]) == 1 + plan.devices.servers
    missing = texts["provision/to-be-filled.csv"].splitlines()
    assert missing[0] == "device,mac,serial,circuit_id"
    assert "be-leaf3,,," in missing
    assert "be-leaf0,,," not in missing
    first = {"sonic": "provision/ztp/be-leaf3.json", "eos": None}.get(system, "provision/ztp/be-leaf3.sh")
    assert first is None or f"{FOLDER}switches/be-leaf3." in texts[first]
    if system == "sonic":
        step = json.loads(texts[first])["ztp"]["01-configdb-json"]["url"]
        assert step["source"] == f"{FOLDER}switches/be-leaf3.config_db.json"
    if first and first.endswith(".sh"):
        subprocess.run(["sh", "-n"], input=texts[first], text=True, check=True)


def test_sonic_fetches_its_routing_before_the_tables_that_ask_for_it():
    """Leafs of VRFs have a file of FRR's own; spines of EVPN have none."""
    tenants = [{"name": "blue", "servers": "0-3"}, {"name": "green", "servers": "4-7"}]
    parts = {"ports_per_leaf": 2, "spines": 2}
    given = draft(8, "leaf-spine", "roce", parts, server="gh200-node", tenancy={"by": "evpn", "tenants": tenants})
    texts = dict(files(planned(given), "sonic", Provision(FOLDER, {})))
    leaf, spine = (json.loads(texts[f"provision/ztp/be-{name}.json"])["ztp"] for name in ("leaf0", "spine0"))
    assert sorted(leaf) == ["01-download", "02-configdb-json"]
    assert leaf["01-download"]["files"][0]["url"]["source"] == f"{FOLDER}switches/be-leaf0.frr.conf"
    assert leaf["01-download"]["files"][0]["url"]["destination"] == "/etc/sonic/frr/frr.conf"
    assert list(spine) == ["01-configdb-json"]


@pytest.mark.parametrize(("tenancy", "leaf", "spine"), [
    ({"by": "vrf"}, True, True),
    ({"by": "evpn"}, True, False),
    ({"by": "none"}, False, False),
    ({"by": "none", "share": "30 %"}, True, False),
])  # fmt: skip
def test_frr_fetches_its_devices_before_it_routes_over_them(tenancy, leaf, spine):
    share = {"share": tenancy["share"]} if "share" in tenancy else {}
    tenants = [{"name": "blue", "servers": "0-1", **share}, {"name": "green", "servers": "2-3"}]
    parts = {"ports_per_leaf": 2, "spines": 2}
    asked = {"by": tenancy["by"], "tenants": tenants}
    given = planned(draft(4, "leaf-spine", "roce", parts, server="gh200-node", tenancy=asked))
    texts = dict(files(given, "frr", Provision(FOLDER, {})))
    meant = {name for name, _ in configurations.files(given, "frr")}
    for switch, has in (("be-leaf0", leaf), ("be-spine0", spine)):
        script = texts[f"provision/ztp/{switch}.sh"]
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
        steps = [row.split()[0] for row in script.splitlines() if row[0] not in "#s" or row.startswith("system")]
        get = ["curl", "mv"]
        assert steps == [*get, "hostnamectl", *([*get, "ifreload"] if has else []), "systemctl"]
        assert (f"{FOLDER}switches/{switch}.interfaces" in script) == has == (f"switches/{switch}.interfaces" in meant)


def test_a_changed_address_is_noticed(plan):
    everyone = listed(plan)
    for six, text in ((False, kea.dhcp4(everyone, "eos")), (True, kea.dhcp6(everyone, "eos"))):
        assert read_back.wanted(everyone, six=six) == read_back.said(text, six=six)
        old = everyone[0].address6 if six else everyone[0].address
        assert read_back.wanted(everyone, six=six) != read_back.said(text.replace(old, old + "9"), six=six)


@pytest.mark.skipif(
    not shutil.which("kea-dhcp4", path=PATHS), reason="no Kea (Debian: kea-dhcp4-server kea-dhcp6-server)"
)
@pytest.mark.parametrize("system", ["frr", "sonic", "eos", "junos"])
def test_kea_takes_both_files(plan, system, tmp_path):
    everyone = listed(plan, system)
    for family, text in ((4, kea.dhcp4(everyone, system)), (6, kea.dhcp6(everyone, system))):
        file = tmp_path / f"kea{family}.conf"
        file.write_text(text)
        command = [str(shutil.which(f"kea-dhcp{family}", path=PATHS)), "-t", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
        assert "ERROR" not in done.stdout
        file.write_text(text.replace('"hw-address"', '"hw-adress"'))
        assert subprocess.run(command, capture_output=True, check=False, cwd=tmp_path).returncode != 0


def why():
    missing = [
        name for name in ("ip", "kea-dhcp4", "kea-dhcp6", "dhclient", "unshare") if not shutil.which(name, path=PATHS)
    ]
    if missing:
        return f"no {', '.join(missing)} here (Debian: kea-dhcp4-server kea-dhcp6-server isc-dhcp-client iproute2)"
    probe = subprocess.run(["ip", "netns", "add", f"dh{os.getpid()}"], capture_output=True, check=False, env=ROOM)
    if probe.returncode:
        return "no right to make network namespaces (CAP_NET_ADMIN)"
    subprocess.run(["ip", "netns", "del", f"dh{os.getpid()}"], check=True, env=ROOM)
    return ""


WHY = why()


class Hall:
    """A server of Kea and a relay in two namespaces; `with` takes both away."""

    def __init__(self, place):
        self.place, self.server, self.relay = place, f"dhs{os.getpid()}", f"dhr{os.getpid()}"
        self.running = []

    def sh(self, *command, space=None, check=True):
        inside = ["ip", "netns", "exec", space] if space else []
        done = subprocess.run([*inside, *command], capture_output=True, text=True, check=False, env=ROOM, timeout=60)
        assert not check or done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
        return done.stdout

    def __enter__(self):
        for space in (self.server, self.relay):
            self.sh("ip", "netns", "add", space)
        self.sh(
            "ip", "link", "add", "dh0", "netns", self.server, "type", "veth", "peer", "name", "dh1", "netns", self.relay
        )
        for space, port, four, six in (
            (self.server, "dh0", "10.248.0.2/13", "fd00:f8::2/64"),
            (self.relay, "dh1", "10.248.0.3/13", "fd00:f8::3/64"),
        ):
            self.sh("sysctl", "-q", "-w", "net.ipv6.conf.all.accept_dad=0", space=space)
            self.sh("sysctl", "-q", "-w", f"net.ipv6.conf.{port}.accept_dad=0", space=space)
            self.sh("ip", "address", "add", four, "dev", port, space=space)
            self.sh("ip", "-6", "address", "add", six, "dev", port, "nodad", space=space)
            for one in ("lo", port):
                self.sh("ip", "link", "set", one, "up", space=space)
        self.sh("ip", "route", "add", "10.0.0.0/9", "via", "10.248.0.3", space=self.server)
        return self

    def __exit__(self, *_):
        for one in self.running:
            one.kill()
            one.wait()
        for space in (self.server, self.relay):
            self.sh("ip", "netns", "del", space, check=False)

    def serve(self, family, text):
        """Kea with a file as it is; where it keeps leases is a file system of its own."""
        file = self.place / f"kea{family}.conf"
        file.write_text(text)
        mounts = " && ".join(
            f"mkdir -p {one} && mount -t tmpfs none {one}" for one in ("/var/lib/kea", "/run/kea", "/run/lock/kea")
        )
        script = f"{mounts} && exec kea-dhcp{family} -c {file}"
        command = ["ip", "netns", "exec", self.server, "unshare", "-m", "sh", "-c", script]
        with (self.place / f"kea{family}.log").open("wb") as log:
            self.running.append(subprocess.Popen(command, stdout=log, stderr=log, env=ROOM))
        for _ in range(100):
            if "_STARTED" in (self.place / f"kea{family}.log").read_text():
                return
            time.sleep(0.1)
        raise AssertionError((self.place / f"kea{family}.log").read_text()[-2000:])

    def ask(self, family, questions):
        file = self.place / "questions.json"
        file.write_text(json.dumps(questions))
        ends = ("10.248.0.2", "10.248.0.3") if family == 4 else ("fd00:f8::2", "fd00:f8::3")
        script = str(Path(__file__).with_name("dhcp.py"))
        return json.loads(self.sh(sys.executable, script, str(family), *ends, str(file), space=self.relay))


@pytest.mark.skipif(bool(WHY), reason=WHY)
def test_kea_leases_what_was_meant(plan, tmp_path):
    by = {one.device: one for one in listed(plan)}
    strange = "00:1c:73:ff:ff:ff"
    node = by["node05"]
    questions = [
        {"mac": "00:1c:73:aa:00:01", "link": "10.248.0.3"},
        {"mac": strange, "link": "10.248.0.3", "options": {"60": b"Arista;DCS-7060;01.02;SSJ17290001".hex()}},
        {"mac": strange, "link": "10.248.0.3", "options": {"61": b"\0SONiC##box##SSJ17290001".hex()}},
        {"mac": "00:1c:73:ff:ff:fe", "link": "10.248.0.3", "circuit": "oob1:Ethernet7"},
        {"mac": "00:1c:73:ff:ff:fd", "link": node.gateway},
        {
            "mac": "00:1c:73:ff:ff:fc",
            "link": "10.248.0.3",
            "options": {"60": b"Arista;DCS-7060;01.02;SSJ17290002".hex()},
        },
    ]
    with Hall(tmp_path) as hall:
        hall.sh("ip", "address", "add", f"{node.gateway}/32", "dev", "lo", space=hall.relay)
        hall.serve(4, kea.dhcp4(list(by.values()), "eos"))
        # The lease of a serial number is the client's: the second client of the same number has to wait for it.
        known, serial, _, circuit, server, nobody = hall.ask(4, questions)
        hall.sh("ip", "link", "set", "dh1", "address", "00:1c:73:aa:00:09", space=hall.relay)
        leases = tmp_path / "leases"
        leases.touch()
        pid = tmp_path / "pid"
        places = ("-sf", "/bin/true", "-lf", str(leases), "-pf", str(pid))
        hall.sh("dhclient", "-4", "-1", *places, "dh1", space=hall.relay)
        if pid.exists():
            subprocess.run(["kill", pid.read_text().strip()], check=False)
        hall.serve(6, kea.dhcp6(list(by.values()), "eos"))
        six = hall.ask(
            6, [{"mac": "00:1c:73:aa:00:01", "link": "fd00:f8::af8:1"}, {"mac": strange, "link": node.gateway6}]
        )
    for answer, name in ((known, "be-leaf0"), (serial, "be-leaf1"), (circuit, "be-leaf2")):
        assert (answer["kind"], answer["address"]) == (5, by[name].address)
        assert bytes.fromhex(answer["options"]["67"]).decode() == by[name].file
        assert bytes.fromhex(answer["options"]["12"]).decode().split(".")[0] == name
    assert (server["kind"], server["address"]) == (5, node.address)
    assert server["options"]["3"] == bytes(int(part) for part in node.gateway.split(".")).hex()
    assert nobody is None
    lease = leases.read_text()
    assert f"fixed-address {by['be-spine0'].address};" in lease
    assert f'filename "{by["be-spine0"].file}"' in lease or by["be-spine0"].file in lease
    assert (six[0]["kind"], six[0]["address"]) == (7, by["be-leaf0"].address6)
    assert bytes.fromhex(six[0]["options"]["59"]).decode() == by["be-leaf0"].file
    assert (six[1]["kind"], six[1]["address"]) == (7, node.address6)


ROWS = [
    ("devise,mac\n", "did you mean `device`"),
    ("", "empty"),
    ("device,mac\nbe-leaf9,00:11:22:33:44:55\n", "did you mean `be-leaf"),
    ("device,mac\nbe-leaf0,00:11:22:33:44\n", "no MAC address"),
    ("device,mac\nbe-leaf0,01:11:22:33:44:55\n", "multicast"),
    ("device,mac\nbe-leaf0,00:11:22:33:44:55\nbe-leaf0,00:11:22:33:44:56\n", "two rows"),
    ("device,mac\nbe-leaf0,0011.2233.4455\nbe-leaf1,00:11:22:33:44:55\n", "the same mac"),
    ("device,serial\nbe-leaf0,XABC1\nbe-leaf1,ABC1\n", "so they are ambiguous"),
    ("device,serial\nbe-leaf0,A'B1C\n", "no serial number"),
    ("device,serial\nbe-leaf0,ABC1,more\n", "as many cells as the heading"),
    ("device,device\n", "two columns are called `device`"),
]


@pytest.mark.parametrize(("text", "words"), ROWS)
def test_inventories_that_are_wrong_are_named(plan, tmp_path, text, words):
    file = tmp_path / "inventory.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        read(file, plan.devices.name)


@pytest.mark.parametrize("mac", ["00:1C:73:AA:00:01", "00-1c-73-aa-00-01", "001c.73aa.0001", "001c73aa0001"])
def test_addresses_are_read_in_four_spellings(plan, tmp_path, mac):
    file = tmp_path / "inventory.csv"
    file.write_text(f"Device, MAC\nbe-leaf0, {mac}\n")
    assert read(file, plan.devices.name) == {"be-leaf0": KnownDevice(mac="00:1c:73:aa:00:01")}


@pytest.mark.parametrize(
    "url", ["", "10.0.0.1", "file:///etc", "http://a/$(reboot)", "http://a/'x", "http://a b", "http://a/\n"]
)
def test_urls_that_devices_could_misread_are_refused(url):
    with pytest.raises(InputError, match="provision"):
        folder_of(url)


TEXT = st.text(st.sampled_from(string.printable + "é\u2028"), max_size=40)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["be-leaf0", "be-leaf1", "x"]), TEXT, TEXT, TEXT), max_size=3), st.booleans())
def test_what_an_inventory_says_stays_data(plan, tmp_path_factory, rows, quoted):
    file = tmp_path_factory.mktemp("inventory") / "x.csv"
    cell = (lambda value: '"' + value.replace('"', '""') + '"') if quoted else str
    lines = ["device,mac,serial,circuit_id", *(",".join(map(cell, row)) for row in rows)]
    file.write_text("\n".join(lines))
    try:
        known = read(file, plan.devices.name)
    except RailyardError:
        return
    everyone = listed(plan, inventory=known)
    for six, text in ((False, kea.dhcp4(everyone, "eos")), (True, kea.dhcp6(everyone, "eos"))):
        assert read_back.wanted(everyone, six=six) == read_back.said(text, six=six)
        for row in json.loads(text)["Dhcp6" if six else "Dhcp4"]["client-classes"]:
            assert row["test"].count("'") == 6


def test_the_command(tmp_path, capsys):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "cluster: {accelerators: 64, server: hgx-h100, front_end: {topology: leaf-spine}}\n"
        "workload: {training: {model: llama-3-8b, tokens: 1 B, global_batch: 64, sequence: 4096}}\n"
    )
    inventory = tmp_path / "i.csv"
    inventory.write_text("device,serial\nbe-leaf0,SSJ17290001\n")
    common = ["deploy", str(scenario), "--out", str(tmp_path / "plan"), "-q", "--inventory", str(inventory)]
    assert guard.run(common) == 2
    assert "with --provision URL" in capsys.readouterr().err
    assert guard.run([*common, "--provision", "http://10.248.0.2"]) == 0
    assert (tmp_path / "plan" / "provision" / "kea-dhcp4.conf").is_file()
    assert guard.run([*common, "--provision", "gopher://10.248.0.2"]) == 2
