"""The real OpenSM in a simulated fabric: ports get just the keys that are read from the file."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from railyard.ask.check.isolation import judged
from railyard.ask.check.isolation.judged import PARTITIONS, judge, rendered
from railyard.ask.deploy.cabling import dialects, drawn
from railyard.ask.deploy.emit.labs import netlist, port_guids

from .ibsim import WHY, Fabric
from .scenarios import draft, planned

pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)

TWO = [{"name": "blue", "servers": "0"}, {"name": "green", "servers": "1"}]
PORT = "0x1000000015"
"""Of green's server."""


@pytest.fixture(scope="module")
def plan():
    parts = {"ports_per_leaf": 4, "spines": 2}
    return planned(draft(16, parts=parts, server="dgx-a100", tenancy={"by": "pkey", "tenants": TWO}))


def keys(fabric, ports):
    """By port: its keys and whether it is a full member, as the subnet manager has written them."""
    lids = dict(re.findall(r'"([^"]+)" lid (\d+)', fabric.run("ibnetdiscover")))
    found = {}
    for name in ports:
        words = re.findall(r"0x(\w{4})", fabric.run("smpquery", "pkeys", lids[name]))
        found[name] = {(int(word, 16) & 0x7FFF, int(word, 16) >> 15 == 1) for word in words if int(word, 16)}
    return found


@pytest.mark.parametrize(
    ("change", "leaks"),
    [
        (lambda text: text, False),
        (lambda text: text.replace("green=0x2", "green=0x8001"), True),
        (lambda text: text.replace("ALL=limited", "ALL=full"), True),
        (lambda text: text + f"more=0x1 : {PORT}=limited;\n", True),
        (lambda text: text + f"more=0x3 : {PORT}=full, 0x1000000005;\nmore=0x3 : {PORT};\n", False),  # both limited now
        (lambda text: text + f"Default=0x7fff : {PORT}=full;\n", True),
        (lambda text: f"Default=0x7fff : {PORT}=full;\n" + text, False),  # ALL=limited comes later
        (lambda text: re.sub("(?m)^Default.*\n", "", text).replace("green=0x2, defmember=full", "green=0x2"), False),
    ],
)
def test_ports_have_the_keys_that_are_read(plan, tmp_path, change, leaks):
    text = change(rendered(plan, "frr")[PARTITIONS])
    (tmp_path / PARTITIONS).write_text(text)
    found = drawn(plan, 0, dialects(plan, 0)[0])
    guids = port_guids(found)
    with Fabric(tmp_path, netlist(found)) as fabric:
        fabric.run("opensm", "-R", "minhop", "-P", str(tmp_path / PARTITIONS), "-o", "-f", str(tmp_path / "log"))
        real = keys(fabric, guids)
    read = judged.read_partitions(PARTITIONS, text)
    for name, guid in list(guids.items())[1:]:  # the first is the subnet manager's: a full member of the default one
        of = {key: members.get(f"0x{guid:x}", members.get("ALL")) for key, members in read.items()}
        assert real[name] == {(key, member.full) for key, member in of.items() if member is not None}, name
    assert bool(judge(plan, "frr", {PARTITIONS: text}).findings) == leaks


# --- mutants ---

THREE = [{"name": "blue", "servers": "1-2"}, {"name": "green", "servers": "3-4"}, {"name": "red", "servers": "5"}]
"""Server 0 is the subnet manager's, and nobody's."""


@pytest.fixture(scope="module")
def shared():
    parts = {"ports_per_leaf": 3, "spines": 1}
    return planned(draft(6, parts=parts, server="gh200-node", tenancy={"by": "pkey", "tenants": THREE}))


def more(text, ports, draw):
    """A definition more, before or behind the others: of a key that is there, of the default one, of a new one."""
    key = draw.choice(["0x1", "0x2", "0x8003", "3", "0x7fff", "0x9"])
    members = [f"{port}{draw.choice(['', '=full', '=limited'])}" for port in draw.choice(ports, draw.integers(1, 3))]
    member = draw.choice(["", ", defmember=full", ", defmember=limited", ", ipoib", ", ipoib, defmember=full"])
    line = f"more{draw.integers(100)}={key}{member} : {', '.join(members)};\n"
    return line + text if draw.random() < 0.5 else text + line


def another_key(text, _ports, draw):
    """A partition with another's key, or one that nobody has."""
    old = draw.choice(re.findall(r"^\w+=(0x\w+)", text, re.M))
    return text.replace(f"={old}", f"={draw.choice(['0x1', '0x8002', '2', '0x3', '0x7fff', '0x77'])}", 1)


def another_port(text, ports, draw):
    """A port in the place of another."""
    old = draw.choice(re.findall(r"0x1\w{9}", text))
    return text.replace(old, draw.choice(ports), 1)


def strength(text, _ports, draw):
    """A membership full or limited, of one port or of all that say nothing."""
    ways = [(", defmember=full", ""), ("defmember=full", "defmember=limited"), ("ALL=limited", "ALL=full"),
            ("ALL=limited", "ALL"), ("=limited, SELF", "=limited, ALL_CAS=full, SELF"),
            (draw.choice(re.findall(r"0x1\w{9}", text)), "")]  # fmt: skip
    old, new = ways[draw.integers(len(ways))]
    return text.replace(old, new or f"{old}={draw.choice(['full', 'limited'])}" if old.startswith("0x1") else new, 1)


def less(text, _ports, draw):
    """A definition less."""
    rows = text.splitlines(keepends=True)
    at = draw.choice([number for number, row in enumerate(rows) if ":" in row])
    return "".join(row for number, row in enumerate(rows) if number != at)


def looks(text, _ports, draw):
    """What only looks like a change: comments, lines cut in two, blanks."""
    return draw.choice(
        [text.replace(" : ", " :\n  ", 1), "# more=0x1 : ALL=full;\n" + text, text.replace(", ", " ,", 3)]
    )


def everybody(text, _ports, draw):
    """All ports in a tenant's partition."""
    name = draw.choice(["ALL", "ALL_CAS"])
    return text + f"more={draw.choice(['0x1', '0x2'])} : {name}={draw.choice(['full', 'limited'])};\n"


def unreadable(text, ports, draw):
    """What OpenSM cannot read, and forgets all else for; or what it passes over."""
    bad = ["more=0x1 0x1000000009=full;", "more=zz : 0x1000000009;", "more=0x1 : node1=full;", "more=0x0 : ALL;"]
    odd = [f"more=0x1, odd : {ports[0]}=full;", f"more=0x2, defmember=full : {ports[0]}=fuull;",
           f"more : {ports[0]}=full;", f"more=0x2 : {ports[-1]}=both;", f"more=0x1 : {ports[-1]}=full"]  # fmt: skip
    return text + f"{draw.choice([*bad, *odd])}\n"


KINDS = (more, another_key, another_port, strength, less, looks, everybody, unreadable)


def tenants_that_speak(real, tenant_of):
    """Pairs of tenants with ports that have a key in common, one of them as a full member."""
    return {
        (tenant_of[a], tenant_of[b])
        for a, b in itertools.permutations(tenant_of, 2)
        if tenant_of[a] != tenant_of[b]
        and any(key == other and (full or too) for key, full in real[a] for other, too in real[b])
    }


def mutated(plan, folder, count, seed):
    """Mutants, each given to OpenSM and to the judge; how many leak and do not."""
    found = drawn(plan, 0, dialects(plan, 0)[0])
    guids, meant = port_guids(found), rendered(plan, "frr")[PARTITIONS]
    tenant_of = {name: one["name"] for one in THREE for name in guids if _server(name) in _span(one["servers"])}
    ports = [f"0x{guids[name]:x}" for name in tenant_of]
    draw, leaking = np.random.default_rng(seed), 0
    with Fabric(folder, netlist(found)) as fabric:
        for number in range(count):
            text = meant
            for _ in range(int(draw.integers(1, 4))):
                text = KINDS[draw.integers(len(KINDS))](text, ports, draw)
            (folder / PARTITIONS).write_text(text)
            fabric.run("opensm", "-R", "minhop", "-P", str(folder / PARTITIONS), "-o", "-f", str(folder / "log"))
            truth = tenants_that_speak(keys(fabric, guids), tenant_of)
            words = [re.findall(r"`(\w+)`", one)[:2] for one in judge(plan, "frr", {PARTITIONS: text}).findings]
            said = {tuple(pair) for pair in words if "nobody" not in pair}
            assert said == truth, (number, text)
            leaking += bool(truth)
    return leaking, count - leaking


def _server(port):
    return int(re.match(r"node(\d+)", port)[1])


def _span(words):
    first, _, last = words.partition("-")
    return range(int(first), int(last or first) + 1)


def test_mutants_leak_in_opensm_where_they_are_said_to(shared, tmp_path):
    assert min(mutated(shared, tmp_path, 12, 1)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_a_thousand_mutants_leak_in_opensm_where_they_are_said_to(shared, tmp_path, seed):
    assert min(mutated(shared, tmp_path, 100, seed)) >= 20
