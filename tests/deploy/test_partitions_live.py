"""The real OpenSM in a simulated fabric: ports get just the keys that are read from the file."""

from __future__ import annotations

import re

import pytest

from railyard.deploy.emit.netlist import netlist, port_guids
from railyard.deploy.isolation import partitions
from railyard.deploy.isolation.judged import PARTITIONS, judge, rendered
from railyard.deploy.plan.drawn import dialects, drawn

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
    read = partitions.read(PARTITIONS, text)
    for name, guid in list(guids.items())[1:]:  # the first is the subnet manager's: a full member of the default one
        of = {key: members.get(f"0x{guid:x}", members.get("ALL")) for key, members in read.items()}
        assert real[name] == {(key, member.full) for key, member in of.items() if member is not None}, name
    assert bool(judge(plan, "frr", {PARTITIONS: text}).findings) == leaks
