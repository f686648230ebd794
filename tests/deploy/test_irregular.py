"""Designs inferred of irregular fabrics: right, or said to be uncertain; never wrong and sure.

`pytest tests/deploy/test_irregular.py -s` prints the table.
"""

from __future__ import annotations

import random

import pytest

from railyard.ask.audit.audit import audit
from railyard.cluster.asbuilt import ibnetdiscover
from railyard.face.terminal import Table

from .irregular import FABRICS

DRAWS = 6
NO_FAT_TREES = ("torus", "dragonfly", "random graph", "hypercube")


def judged(make, seed):
    """What an audit says when one in fifty cables between switches was pulled; what is a port of `?` may be any."""
    drawn, dice = make(), random.Random(seed)
    between = [n for n, cable in enumerate(drawn.cables) if cable and not cable[0].startswith(("node", "ufm"))]
    pulled = [sorted(drawn.pull(at)) for at in dice.sample(between, max(1, len(between) // 50))]
    found = audit(ibnetdiscover.read(drawn.text(), "drawn"))
    left = [(one.kind, *sorted((one.a, one.b))) for one in found.findings]
    hits = 0
    for ends in pulled:
        hit = next((one for one in left if one[0] == "missing" and all(map(same, ends, one[1:]))), None)
        if hit is not None:
            left.remove(hit)
            hits += 1
    if hits == len(pulled) and not left:
        return "right", len(pulled), hits, found
    return "uncertain" if not left and found.design["doubts"] else "wrong", len(pulled), hits, found


def same(wanted, said):
    return wanted == said or said == wanted.split("[")[0] + "[?]"


def test_designs_are_right_or_said_to_be_uncertain(capsys):
    table = Table(
        ("fabric", "draws", "right", "uncertain", "wrong", "cables pulled", "named", "what is said"), (1, 2, 3, 4)
    )
    outcomes = {}
    for name, make in FABRICS.items():
        results = [judged(make, seed) for seed in range(DRAWS)]
        said = [result[0] for result in results]
        outcomes[name] = said
        doubts = results[0][3].design["doubts"]
        counts = (said.count(kind) for kind in ("right", "uncertain", "wrong"))
        pulled, named = (sum(result[at] for result in results) for at in (1, 2))
        table.add(name, str(DRAWS), *map(str, counts), str(pulled), str(named), doubts[0][:70] if doubts else "")
    with capsys.disabled():
        if "-s" in __import__("sys").argv:
            table.print()
    assert not [name for name, said in outcomes.items() if "wrong" in said]
    assert {name for name, said in outcomes.items() if set(said) == {"uncertain"}} == set(NO_FAT_TREES)
    assert sum(said.count("right") for said in outcomes.values()) >= 16 * DRAWS - 4


@pytest.mark.parametrize("name", [name for name in FABRICS if name not in NO_FAT_TREES])
def test_nothing_is_wrong_where_nothing_was_pulled(name):
    assert not audit(ibnetdiscover.read(FABRICS[name]().text(), "drawn")).findings
