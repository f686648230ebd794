"""LLDP neighbours in five dialects of port names and three of files."""

from __future__ import annotations

import json

import pytest

from railyard.ask.audit.audit import audit
from railyard.cluster.asbuilt import lldp
from railyard.cluster.network_table import DIALECTS, dialect, same_port
from railyard.face.cli import guard
from railyard.kit.errors import InputError


def lldpd(rows, *, verbose=False):
    """`lldpcli show neighbors -f json`, or `json0`: (port, device, its port)."""
    if verbose:
        listed = [
            {"name": p, "chassis": [{"name": [{"value": d}]}], "port": [{"id": [{"type": "ifname", "value": q}]}]}
            for p, d, q in rows
        ]
        return {"lldp": [{"interface": listed}]}
    listed = [
        {
            p: {
                "chassis": {d: {"id": {"type": "mac", "value": "0"}}},
                "port": {"id": {"type": "mac", "value": "0"}, "descr": q},
            }
        }
        for p, d, q in rows
    ]
    return {"lldp": {"interface": listed if len(listed) > 1 else listed[0]}}


def sonic(rows):
    return {f"LLDP_ENTRY_TABLE:{p}": {"value": {"lldp_rem_sys_name": d, "lldp_rem_port_id": q}} for p, d, q in rows}


def eos(rows):
    return {"lldpNeighbors": [{"port": p, "neighborDevice": d, "neighborPort": q} for p, d, q in rows]}


def eos_detail(rows):
    return {
        "lldpNeighbors": {
            p: {"lldpNeighborInfo": [{"systemName": d, "neighborInterfaceInfo": {"interfaceId_v2": q}}]}
            for p, d, q in rows
        }
    }


def write(folder, wires, form, *, skip=()):
    """One file a switch of wires (device, port, device, port)."""
    rows = {}
    for a, p, b, q in wires:
        rows.setdefault(a, []).append((p, b, q))
        rows.setdefault(b, []).append((q, a, p))
    for device, listed in rows.items():
        if device not in skip and not device.startswith("host"):
            (folder / f"{device}.json").write_text(json.dumps(form(listed)))


def clos(names):
    """Four leafs, two spines, two cables a pair, three hosts a leaf, as a dialect names ports."""
    wires = []
    for leaf in range(4):
        wires += [(f"host{leaf * 3 + h}", "eth0", f"leaf{leaf}", names.port(h + 1)) for h in range(3)]
        for spine in range(2):
            for k in range(2):
                wires.append(
                    (f"leaf{leaf}", names.port(4 + 2 * spine + k), f"spine{spine}", names.port(1 + 2 * leaf + k))
                )
    return wires


@pytest.mark.parametrize("form", [lldpd, sonic, eos, eos_detail])
@pytest.mark.parametrize("name", ["frr", "sonic", "eos", "junos", "nvos"])
def test_a_pulled_cable_is_found_in_every_dialect(tmp_path, form, name):
    wires = clos(dialect(name))
    gone = wires.pop(4)
    write(tmp_path, wires, form)
    found = audit(lldp.read(tmp_path))
    assert not found.problems
    (one,) = found.findings
    assert (one.kind, {one.a, one.b}) == ("missing", {f"{gone[0]}[{gone[1]}]", f"{gone[2]}[{gone[3]}]"})
    assert found.design["tiers"] == {"leaf": 4, "spine": 2}


def test_exchanged_cables_are_a_swap_and_hosts_are_hosts(tmp_path):
    wires = clos(DIALECTS["eos"])
    at = [n for n, wire in enumerate(wires) if wire[0].startswith("leaf")]
    one, other = at[0], at[7]
    wires[one], wires[other] = wires[one][:2] + wires[other][2:], wires[other][:2] + wires[one][2:]
    write(tmp_path, wires, lambda rows: lldpd(rows, verbose=True))
    found = audit(lldp.read(tmp_path))
    (swap,) = found.findings
    assert swap.kind == "swapped"
    assert {swap.a, swap.b} | set(swap.other) == {
        f"{d}[{p}]" for w in (wires[one], wires[other]) for d, p in (w[:2], w[2:])
    }
    assert found.design["host_ports"] == 12


def test_short_names_of_ports_and_devices_with_a_domain_are_the_same(tmp_path):
    assert same_port("Et1/1") == same_port("Ethernet1/1") == same_port("Eth1/1") == "Ethernet1/1"
    assert same_port("eth0") == "eth0"
    (tmp_path / "leaf1.json").write_text(json.dumps(eos([("Et1/1", "spine1.dc.example", "Ethernet4/1")])))
    (tmp_path / "spine1.json").write_text(json.dumps(eos([("Ethernet4/1", "LEAF1", "Ethernet1/1")])))
    found = lldp.read(tmp_path)
    assert len(found.cables) == 1
    assert not found.problems


def test_what_is_wrong_is_named_and_the_rest_is_read(tmp_path):
    write(tmp_path, clos(DIALECTS["frr"]), lldpd)
    (tmp_path / "broken.json").write_text('{"lldp": ')
    (tmp_path / "other.json").write_text('{"hello": 1}')
    (tmp_path / "strange.json").write_text('{"lldp": {"interface": [{"swp1": 5}]}}')
    leaf = json.loads((tmp_path / "leaf0.json").read_text())
    leaf["lldp"]["interface"].append({"swp40": {"chassis": {"spine1": {"id": {}}}, "port": {"descr": "swp40"}}})
    (tmp_path / "leaf0.json").write_text(json.dumps(leaf))
    found = lldp.read(tmp_path)
    words = [problem.render() for problem in found.problems]
    assert len(words) == 4
    assert any("no JSON" in one and "broken.json" in one for one in words)
    assert any("only one end of a cable sees the other" in one and "leaf0[swp40]" in one for one in words)
    assert len(found.cables) == 12 + 16 + 1


def test_no_folder_and_an_empty_one_are_refused(tmp_path):
    with pytest.raises(InputError, match="expected a folder"):
        lldp.read(tmp_path / "none")
    with pytest.raises(InputError, match="empty"):
        lldp.read(tmp_path)


def test_rates_frames_and_lengths_are_read(tmp_path):
    row = {"chassis": {"spine0": {"capability": [{"type": "Router", "enabled": True}]}}}
    port = {"id": {"type": "ifname", "value": "swp2"}, "mfs": "9236", "auto-negotiation": {"current": "400GBaseDR4"}}
    (tmp_path / "leaf0.json").write_text(json.dumps({"lldp": {"interface": {"swp1": row | {"port": port}}}}))
    (cable,) = lldp.read(tmp_path).cables
    assert (cable.rate_bps, {cable.a_mtu, cable.b_mtu}) == (400_000_000_000, {0, 9236})
    table = {
        "LLDP_ENTRY": {"Ethernet8": {"lldp_rem_sys_name": "spine0", "lldp_rem_port_id": "Ethernet0"}},
        "PORT|Ethernet8": {"speed": "400000"},
        "TRANSCEIVER_INFO|Ethernet8": {"cable_length": "30"},
    }
    (tmp_path / "leaf0.json").write_text(json.dumps(table))
    (cable,) = lldp.read(tmp_path).cables
    assert (cable.rate_bps, cable.length_m) == (400_000_000_000, 30.0)


def test_names_of_lanes():
    names = [DIALECTS[name].port(3, 1, lanes=2) for name in ("frr", "sonic", "eos", "junos", "nvos")]
    assert names == ["swp3s1", "Ethernet20", "Ethernet3/2", "et-0/0/2:1", "sw3p2"]
    with pytest.raises(InputError, match="did you mean `sonic`"):
        dialect("sonik")


@pytest.mark.parametrize(
    "text",
    [
        '{"lldpNeighbors": [{"port": 5}]}',
        '{"lldpNeighbors": [{"port": "Ethernet1", "neighborDevice": 7, "neighborPort": null}]}',
        '{"lldpNeighbors": {"Ethernet1": {"lldpNeighborInfo": [{"systemName": 7}]}}}',
        '{"lldp": {"interface": [' + "1" * 5000 + "]}}",
        "[" * 100_000,
    ],
)
def test_neighbours_of_wrong_types_are_no_fault_of_ours(tmp_path, text):
    (tmp_path / "leaf1.json").write_text(text)
    assert guard.run(["audit", "--lldp", str(tmp_path)]) in (0, 2)
