"""Cables between switches by their error counters: limits, what counters show, and who is to look where."""

from __future__ import annotations

import json
import subprocess

import pytest

from railyard.ask.accept import results
from railyard.ask.accept.folder import counters_script
from railyard.ask.accept.judge import judged
from railyard.ask.accept.planned import (
    at_least,
    between_switches,
    cables,
    labelled,
    limits_of,
    per_second,
    seconds_needed,
)
from railyard.ask.accept.results import Results, collected
from railyard.ask.accept.tests import COUNTERS, LOST, PRE_FEC, SYMBOLS
from railyard.ask.audit.audit import audit
from railyard.ask.check.isolation.judged import read_partitions
from railyard.cluster.asbuilt import lldp
from railyard.cluster.network_table import DIALECTS, dialect, same_port
from railyard.face.cli import guard
from railyard.kit.errors import InputError

from .scenarios import draft, planned

HOURS = 14 * 3600


def listed(fabric, system="sonic", accelerators=256):
    plan = planned(draft(accelerators, "leaf-spine", fabric))
    labels = labelled(plan)
    return [*cables(plan, labels), *between_switches(plan, labels, system)]


@pytest.fixture(scope="module")
def roce():
    return listed("roce")


@pytest.fixture(scope="module")
def infiniband():
    return listed("infiniband")


def ports_of(tests):
    """Ports by switch."""
    out = {}
    for test in tests:
        for part in test.parts[1:] if test.method == COUNTERS else ():
            where, _, port = part.rpartition(":")
            out.setdefault(where, set()).add(port)
    return out


def fec(ports, seconds, uncorrectable=None, ber="1.48e-08"):
    """As `show interfaces counters fec-stats` prints it."""
    rows = [f"{port:>12}  U  1,024  {(uncorrectable or {}).get(port, '0')}  7  {ber}  0.00e+00" for port in ports]
    head = "       IFACE    STATE    FEC_CORR    FEC_UNCORR    FEC_SYMBOL_ERR    FEC_PRE_BER    FEC_POST_BER"
    return "\n".join([f"# seconds {seconds}", head, "-----------  -------  ----", *rows, ""])


def verdicts(tests, found):
    return {one.test.name: one for one in judged(tests, found, {}) if one.test.method == COUNTERS}


def test_limits_are_those_of_the_phy():
    """1.7e-12 of frames over 2.125 codewords of 400 Gb/s: 400e9 x 257/256 / 5140 = 78.125 million a second."""
    assert limits_of(400_000_000_000, infiniband=False) == {PRE_FEC: 2.4e-4, LOST: pytest.approx(8e-13)}
    assert limits_of(100_000_000_000, infiniband=False) == {PRE_FEC: 5e-5, LOST: pytest.approx(5.5111e-10, rel=1e-4)}
    assert limits_of(200_000_000_000, infiniband=True) == {SYMBOLS: 1e-12}
    assert limits_of(800_000_000_000, infiniband=False)[LOST] == pytest.approx(4.1212e-13, rel=1e-4)
    assert limits_of(10_000_000_000, infiniband=False) == {}
    assert per_second(LOST, 400e9) == pytest.approx(78.125e6)
    assert seconds_needed({PRE_FEC: 2.4e-4, LOST: 8e-13}, 400e9) == pytest.approx(48_000)
    assert per_second(PRE_FEC, 100e9) == pytest.approx(100e9 * 257 / 256 * 528 / 514)
    assert per_second(PRE_FEC, 390e9) == pytest.approx(390e9 * 257 / 256 * 544 / 514)
    assert seconds_needed({SYMBOLS: 1e-12}, 400e9) == pytest.approx(7.5)


@pytest.mark.parametrize(("count", "mean"), [(1, 0.05129), (2, 0.35536), (10, 5.4254), (60, 47.854), (200, 177.3)])
def test_the_least_mean_that_counts_show_is_poissons(count, mean):
    assert at_least(count) == pytest.approx(mean, rel=1e-3)


def test_every_cable_between_switches_is_tested_at_both_ends(roce, infiniband):
    """Four leaves of 64 uplinks each; two limits each of Ethernet, one of InfiniBand."""
    mine = [one for one in roce if one.method == COUNTERS]
    assert len(mine) == 2 * 256
    assert {(one.unit, round(one.marks[0].high, 15)) for one in mine} == {(PRE_FEC, 2.4e-4), (LOST, 8e-13)}
    assert all(len(one.parts) == 3 for one in mine)
    assert sum(one.method == COUNTERS for one in infiniband) == 256
    (first, *_) = [one for one in listed("roce", "frr") if one.method == COUNTERS]
    assert ":swp" in first.parts[1]


def test_sonics_counters_are_judged_cable_by_cable(roce, tmp_path):
    """One codeword lost in 14 h is 0.0513 / 3.9e12, below the limit; eight are 3.98 / 3.9e12, above it."""
    bad = next(one for one in roce if one.unit == LOST)
    few = next(one for one in roce if one.unit == LOST and one.parts[1] != bad.parts[1])
    (device, _, port), (other, _, lone) = bad.parts[1].rpartition(":"), few.parts[2].rpartition(":")
    for name, ports in ports_of(roce).items():
        lost = {port: "1,008"} if name == device else {lone: "1"} if name == other else {}
        text = fec(sorted(ports), 0, {port: "1,000"} if name == device else {}) + fec(sorted(ports), HOURS, lost)
        (tmp_path / f"counters-{name}.txt").write_text(text)
    found = collected(tmp_path, roce)
    assert not found.problems
    judgement = verdicts(roce, found)
    assert {name for name, one in judgement.items() if one.verdict == "failed"} == {bad.name}
    one = judgement[bad.name]
    assert one.measured == pytest.approx(3.9808 / (78.125e6 * HOURS), rel=1e-3)
    assert one.look_at[:3] == bad.parts
    assert {one.verdict for name, one in judgement.items() if name != bad.name} == {"passed"}


def test_one_end_or_a_short_time_shows_too_little(roce):
    test = next(one for one in roce if one.unit == LOST)
    found = Results()
    for part, seconds in ((test.parts[1], HOURS), (test.parts[2], 4800)):
        where, _, port = part.rpartition(":")
        results.read(fec([port], seconds), "f", f"counters-{where}", results.ends_of(roce), found)
        if seconds == HOURS:
            assert verdicts(roce, found)[test.name].why == f"read at {test.parts[1]} only"
    one = verdicts(roce, found)[test.name]
    assert (one.verdict, one.why) == ("missing", "counted for 10% of the time that shows it")


def test_bits_before_correction_have_their_limit(roce):
    test = next(one for one in roce if one.unit == PRE_FEC)
    found = Results()
    for part, ber in ((test.parts[1], "2.3e-04"), (test.parts[2], "2.5e-04")):
        where, _, port = part.rpartition(":")
        results.read(fec([port], HOURS, ber=ber), "f", f"counters-{where}", results.ends_of(roce), found)
    one = verdicts(roce, found)[test.name]
    assert (one.verdict, one.measured) == ("failed", 2.5e-4)


def test_ethtool_says_the_same_of_linux():
    tests = listed("roce", "frr", 128)
    lost = next(one for one in tests if one.unit == LOST)
    pre = next(one for one in tests if one.name == lost.name.replace("codewords", "fec"))
    found = Results()
    for part, uncorrectable in ((lost.parts[1], 5), (lost.parts[2], 25)):
        where, _, port = part.rpartition(":")
        text = f"""# seconds {HOURS}
FEC parameters for {port}:
Active FEC encoding: RS
Statistics:
  corrected_blocks: 256
    Lane 0: 255
  uncorrectable_blocks: {uncorrectable}
  corrected_bits: 4000000000000
"""
        results.read(text, "f", f"counters-{where}", results.ends_of(tests), found)
    judgement = verdicts(tests, found)
    assert judgement[lost.name].verdict == "failed"
    assert judgement[lost.name].measured == pytest.approx(17.382 / (78.125e6 * HOURS), rel=1e-3)
    assert judgement[pre.name].measured == pytest.approx(4e12 / (400e9 * 257 / 256 * 544 / 514 * HOURS), rel=1e-6)


def test_symbol_errors_of_infiniband_are_read_over_the_fabric(infiniband):
    """An hour of 400 Gb/s allows 1,440 symbol errors: 1,500 show 1,437 at least, 1,600 show 1,535."""
    chosen = [one for one in infiniband if one.unit == SYMBOLS][:3]
    lines = ["# seconds 0", "## Summary: 40 nodes checked, 0 bad nodes found", "# seconds 3600"]
    for one, count in zip(chosen, (1500, 1600, 65535), strict=True):
        where, _, port = one.parts[1].rpartition(":")
        lines += [f'Errors for 0x1 "{where}"', f"   GUID 0x1 port {port}: [SymbolErrorCounter == {count}]"]
    found = Results()
    results.read(
        "\n".join([*lines, "## Summary: 40 nodes checked, 3 bad"]),
        "f",
        "counters-fabric",
        results.ends_of(infiniband),
        found,
    )
    judgement = verdicts(infiniband, found)
    assert [judgement[one.name].verdict for one in chosen] == ["passed", "failed", "failed"]
    assert sum(one.verdict == "passed" for one in judgement.values()) == 254


def test_perfquery_is_of_the_switch_that_its_file_is_called_as(infiniband):
    test = next(one for one in infiniband if one.unit == SYMBOLS)
    where, _, port = test.parts[1].rpartition(":")
    text = f"# seconds 60\n# Port counters: Lid 6 port {port} (CapMask: 0x1300)\nSymbolErrorCounter:..............100\n"
    found = Results()
    results.read(text, "f", f"counters-{where}", results.ends_of(infiniband), found)
    assert found.ends[test.name] == {test.parts[1]: pytest.approx(84.14 / (60 * 400e9), rel=2e-3)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FEC parameters for swp1:\n  uncorrectable_blocks: 1\n", "lack their duration"),
        ("# seconds 5\n# seconds 5\n", "is zero"),
        (fec(["Ethernet0"], 60), "none of its ports"),
    ],
)
def test_counters_that_cannot_be_used_are_refused(roce, text, words):
    with pytest.raises(InputError, match=words):
        results.read(text, "f", "counters-nobody", results.ends_of(roce), Results())


@pytest.mark.parametrize("fabric", ["roce", "infiniband"])
def test_the_script_waits_as_long_as_links_need_and_is_shell(fabric, roce, infiniband):
    """400 Gb/s: 13.3 hours for lost codewords, seconds for InfiniBand's symbols."""
    ((name, text),) = counters_script(roce if fabric == "roce" else infiniband)
    assert name == "8-counters.sh"
    assert f"hours={14 if fabric == 'roce' else 1}\n" in text
    assert ("ibqueryerrors" in text) == (fabric == "infiniband")
    assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0


# LLDP neighbours in five dialects of port names and three of files.


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
    assert len(found.ports) == 1
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
    assert any("not JSON" in one and "broken.json" in one for one in words)
    assert any("only one end of a cable sees the other" in one and "leaf0[swp40]" in one for one in words)
    assert len(found.ports) == 12 + 16 + 1


def test_no_folder_and_an_empty_one_are_refused(tmp_path):
    with pytest.raises(InputError, match="expected a folder"):
        lldp.read(tmp_path / "none")
    with pytest.raises(InputError, match="empty"):
        lldp.read(tmp_path)


def test_rates_frames_and_lengths_are_read(tmp_path):
    row = {"chassis": {"spine0": {"capability": [{"type": "Router", "enabled": True}]}}}
    port = {"id": {"type": "ifname", "value": "swp2"}, "mfs": "9236", "auto-negotiation": {"current": "400GBaseDR4"}}
    (tmp_path / "leaf0.json").write_text(json.dumps({"lldp": {"interface": {"swp1": row | {"port": port}}}}))
    found = lldp.read(tmp_path)
    assert (found.rate_bps.tolist(), found.mtu.tolist()) == ([400_000_000_000], [[0, 9236]])
    table = {
        "LLDP_ENTRY": {"Ethernet8": {"lldp_rem_sys_name": "spine0", "lldp_rem_port_id": "Ethernet0"}},
        "PORT|Ethernet8": {"speed": "400000"},
        "TRANSCEIVER_INFO|Ethernet8": {"cable_length": "30"},
    }
    (tmp_path / "leaf0.json").write_text(json.dumps(table))
    found = lldp.read(tmp_path)
    assert (found.rate_bps.tolist(), found.length_m.tolist()) == ([400_000_000_000], [30.0])


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
    assert guard.run(["audit", "--lldp", str(tmp_path)]) in (0, 1, 2)  # 1: no design to check against


# Which partition a definition of `partitions.conf` is of: points seen of OpenSM 3.3 over ibsim.

HEAD = "Default=0x7fff, ipoib : ALL=limited, SELF=full;\nblue=0x1 : 0x5=full;\n"


@pytest.mark.parametrize(
    ("tail", "keys"),
    [
        ("blue : 0xf=full;", {1}),
        ("blue=0x0 : 0xf=full;", {1}),
        ("more : ALL;\nmore : 0xf=full;", {2}),
        ("more=0x0 : ALL;\nmore=0x0 : 0xf=full;", {2}),
        ("more : ALL;\nMore : 0xf=full;", {3}),
        ("more=0x0 : ALL;\nmore=0x9 : 0x5=full;\nmore : 0xf=full;", {2}),
        ("Default=0x0 : 0xf=full;", {0x7FFF}),
        ("Default=0x5 : 0xf=full;\nDefault : 0xf=full;", {5}),
        ("default : 0xf=full;", {2}),
        ("more=0x8003 : 0xf=full;", {3}),
    ],
)
def test_a_name_without_a_key_is_the_partition_of_that_name(tail, keys):
    found = read_partitions("partitions.conf", HEAD + tail + "\n")
    assert {key for key, members in found.items() if "0xf" in members and members["0xf"].full} == keys
