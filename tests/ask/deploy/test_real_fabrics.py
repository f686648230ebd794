"""Real networks that were published: what is said of them was worked out by hand from their cables."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from railyard.ask.audit.audit import answer_of, audit
from railyard.ask.audit.blocks import levels
from railyard.cluster.asbuilt import ibnetdiscover
from railyard.face.cli import guard
from railyard.face.terminal import Table
from railyard.kit.errors import NAMED

from .fabrics import Drawn, three_tier
from .irregular import FABRICS

DATA = Path(__file__).parent / "data"
EXAMPLES = Path(__file__).parents[3] / "examples"
X5, MANUAL = "ibnetdiscover-x5.topo", "ibnetdiscover-manual.topo"


def text_of(name):
    return (DATA / name).read_text(encoding="utf-8")


def audited(text):
    return audit(ibnetdiscover.read(text, "real"))


def test_of_x5_nothing_is_missing_and_what_is_odd_is_called_uncertain():
    """Worked out from the file: four spines; four leafs with three cables to each, one with one to each.

    One has six to two of them, and 4036-86A2, which has no host, three to the two others: a leaf, no core.
    """
    found = audited(text_of(X5))
    assert not found.findings
    assert not found.problems
    assert found.design["tiers"] == {"leaf": 7, "spine": 4}
    assert found.design["host_ports"] == 89
    assert [(b["switches"], b["cables_a_pair"], b["found"]) for b in found.design["blocks"]] == [
        ([5, 4], 3, 4 * 4 * 3 + 4),
        ([1, 2], 6, 12),
        ([1, 2], 3, 6),
    ]
    assert not found.design["regular"]
    odd, six, bare = found.design["doubts"]
    assert "0008f10500200b50" in six
    assert "4036-8BBA has 1 cables to each spine where others have 3" in odd
    assert "joined to 2 of the 4 spine switches" in six
    assert "4036-86A2: joined to 2 of the 4 spine switches" in bare


def cut_cable(text, key, port):
    """Without one cable between two switches, at both of its ends."""
    out, here = [], ""
    for line in text.splitlines():
        if node := re.match(r'(?:Switch|Ca)\s+\d+\s+"([^"]+)"', line):
            here = node[1]
        end = re.match(r'\[(\d+)\][^"]*"([^"]+)"\[(\d+)\]', line)
        if end and (key, port) in ((here, end[1]), (end[2], end[3])):
            continue
        out.append(line)
    return "\n".join(out)


def test_a_cable_pulled_from_x5_is_named():
    """4036-369C had three cables to spine 8098, whose description several switches share: its GUID tells it apart."""
    text = text_of(X5)
    leaf = "S-0008f1050020369c"
    port = re.search(rf'Switch\t36 "{leaf}".*?\n\[(\d+)\]\t"S-0008f10500108098"', text, re.DOTALL)[1]
    (found,) = audited(cut_cable(text, leaf, port)).findings
    assert found.kind == "missing"
    assert found.a == "Voltaire 4036 # 4036-369C[?]"
    assert found.b.startswith("Voltaire 4036 - 36 QDR ports switch (0008f10500108098)[")
    assert found.detail == "2 of 3 cables found"


def test_records_need_no_empty_lines_between_them():
    joined = "\n".join(line for line in text_of(X5).splitlines() if line.strip())
    assert audited(joined).design == audited(text_of(X5)).design


def test_of_the_manual_page_contradicting_rates_are_named_and_no_tree_is_claimed():
    """Two switches joined by two cables, hosts on both; of two cables the ends say different rates."""
    found = audited(text_of(MANUAL))
    assert found.design["tiers"] == {"leaf": 2}
    assert not found.design["regular"]
    assert "this is not a fat tree" in found.design["doubts"][0]
    rates = [problem for problem in found.problems if "different rates" in problem.message]
    assert [(problem.line, problem.found) for problem in rates] == [
        (26, "2 and, in line 15, 8 Gb/s"),
        (52, "2 and, in line 18, 8 Gb/s"),
    ]


VARIANTS = {
    "carriage returns": (lambda text: text.replace("\n", "\r\n"), None),
    "cut off": (lambda text: text[: len(text) // 2], "devices are not described"),
    "a device twice": (lambda text: text + "\n" + text[text.index("Ca\t") :].split("\n\n")[0] + "\n", "appears twice"),
    "an unknown port": (lambda text: text.replace("\n[1]", "\n[one!]", 1), "neither a device nor a port"),
}


@pytest.mark.parametrize("name", [X5, MANUAL])
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_malformed_is_named_and_the_rest_is_audited(name, variant):
    bend, message = VARIANTS[variant]
    text = re.sub(r"^(Ca|Switch) +(\d+) +", r"\1\t\2\t", text_of(name), flags=re.MULTILINE)
    found = audited(bend(text))
    new = [problem.message for problem in found.problems if "different rates" not in problem.message]
    assert any(message in words for words in new) if message else not new
    assert sum(found.design["tiers"].values()) > 0
    if variant != "cut off":
        assert {"leaf"} <= set(found.design["tiers"])
        assert found.design["host_ports"] >= audited(text).design["host_ports"] - 1


def test_faults_of_a_kind_are_named_twenty_times_and_then_counted():
    text = text_of(X5).replace("\n[1]", "\n[1!]")
    problems = [p.message for p in audited(text).problems if "neither" in p.message]
    wrong = text_of(X5).count("\n[1]")
    assert wrong > NAMED
    assert len(problems) == NAMED + 1
    assert problems[-1].endswith(f"{wrong - NAMED} more of these are not listed")


def director(order, boards=6):
    """Two directors of six line and three spine boards; leafs of four hosts have a cable to each board of `order`."""
    drawn = Drawn({})
    for at in range(2):
        drawn.kinds |= {f"D{at}/S{spine}": "Switch" for spine in range(3)}
        drawn.kinds |= {f"D{at}/L{line}": "Switch" for line in range(boards)}
        for line in range(boards):
            for spine in range(3):
                drawn.join(f"D{at}/L{line}", f"D{at}/S{spine}", 2)
    for leaf, lines in enumerate(order):
        drawn.kinds[f"leaf{leaf}"] = "Switch"
        for host in range(4):
            drawn.kinds[f"node{leaf}{host}"] = "Ca"
            drawn.join(f"node{leaf}{host}", f"leaf{leaf}")
        for line in lines:
            for at in range(2):
                drawn.join(f"leaf{leaf}", f"D{at}/L{line}")
    return re.sub(r'^(Switch\t.*# "D(\d)/.*)$', r"sysimgguid=0xd\2\n\1", drawn.text(), flags=re.MULTILINE)


IRREGULAR = ((0, 1, 2), (1, 1, 2), (2, 3, 3), (3, 4, 5), (0, 3, 4), (0, 4, 5), (1, 4, 2), (2, 2, 3))


def test_cables_into_a_director_may_take_any_of_its_boards():
    """As in a fabric of 1,356 hosts below three directors, of which 90 cables were once called faults."""
    found = audited(director(IRREGULAR))
    assert not found.findings
    assert any("cabled to boards of 2 directors" in words for words in found.design["doubts"])


def test_a_cable_inside_a_director_is_missed_all_the_same():
    text = director(IRREGULAR)
    key = re.search(r'"(S-\w+)"\t\t# "D1/L4"', text)[1]
    kinds = [(one.kind, one.a) for one in audited(cut_cable(text, key, "1")).findings]
    assert kinds == [("missing", "D1/L4[1]")]


def test_a_board_without_cables_from_below_is_no_core():
    """Line board 5 has none: what is above the spine boards is a board like the others."""
    text = director([tuple(line % 5 for line in lines) for lines in IRREGULAR])
    found = ibnetdiscover.read(text, "director")
    level = dict(zip(found.name, levels(found).tolist(), strict=True))
    assert {level[f"D{at}/L{line}"] for at in range(2) for line in range(6)} == {2}
    assert max(level.values()) == 3


def test_a_cable_from_a_switch_to_itself_is_named():
    drawn = Drawn({"leaf0": "Switch", "leaf1": "Switch", "n0": "Ca", "n1": "Ca"})
    for at in range(2):
        drawn.join(f"n{at}", f"leaf{at}")
    drawn.join("leaf0", "leaf1")
    drawn.join("leaf1", "leaf1")
    (found,) = audited(drawn.text()).findings
    assert (found.kind, found.a, found.b) == ("extra", "leaf1[3]", "leaf1[4]")


def test_one_lane_of_four_is_a_fault_where_no_design_says_so():
    """Where ports are split in halves, two lanes are none."""
    drawn = Drawn({"leaf0": "Switch", "leaf1": "Switch", "n0": "Ca", "n1": "Ca"})
    for at in range(2):
        drawn.join(f"n{at}", f"leaf{at}", rate="2xNDR")
    drawn.join("leaf0", "leaf1")
    drawn.join("leaf0", "leaf1", rate="1xNDR")
    (found,) = audited(drawn.text()).findings
    assert (found.kind, found.detail) == ("degraded", "100 Gb/s on 1 of 4 lanes")
    assert found.unpriced


def test_the_published_dgx_fabric_has_no_directors():
    text = (Path(__file__).parents[3] / "examples" / "network" / "ibnetdiscover.out").read_text(encoding="utf-8")
    assert not any(ibnetdiscover.read(text, "dgx").chassis)


@pytest.mark.parametrize("rate", ["4xZDR", "0xQDR", "99999999999999999999xNDR"])
def test_a_rate_that_nobody_knows_is_named(rate):
    text = text_of(X5).replace("4xQDR", rate, 1)
    (problem,) = audited(text).problems
    assert (problem.found, problem.message) == (rate, "a link has unknown width and speed")
    assert "NDR" in problem.allowed


def test_blocks_that_are_alike_are_one_line(tmp_path, capsys):
    (tmp_path / "fabric.txt").write_text(three_tier(3, 2, 2, 2, hosts=2).text())
    assert guard.run(["audit", "--ibnetdiscover", str(tmp_path / "fabric.txt"), "--details"]) == 0
    out = capsys.readouterr().out.splitlines()[2:]
    assert out[1].startswith("  3 times 2 leaf x 2 above, 1 cables a pair: 4 of 4 cables")
    assert out[2].startswith("  2 times 3 spine x 2 above, 1 cables a pair: 6 of 6 cables")


def test_nothing_is_called_right_of_which_something_is_not_sure(capsys):
    assert guard.run(["audit", "--ibnetdiscover", str(DATA / X5)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("No fault was found; 3 points are uncertain.\n")
    found = audited(text_of(X5))
    assert answer_of(found, "x5").sentence() == "No fault was found; 3 points are uncertain."


# Designs inferred of irregular fabrics: right, or said to be uncertain; never wrong and sure.

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


def test_a_network_whose_design_stays_unknown_is_not_called_right(tmp_path, capsys):
    """A ring of switches is no fat tree: nothing stands against which its cables could be checked."""
    rows = ["device a,interface a,device b,interface b"]
    for at in range(6):
        rows += [f"s{at},Ethernet{8 + side},s{(at + 1) % 6},Ethernet{10 + side}" for side in (0, 1)]
        rows += [f"s{at},Ethernet{port},n{at}-{port},eth0" for port in range(4)]
    file = tmp_path / "ring.csv"
    file.write_text("\n".join(rows))
    assert guard.run(["audit", "--netbox", str(file)]) == 1
    assert capsys.readouterr().out.startswith("The design could not be inferred, so no cable between switches was")


@pytest.mark.parametrize("part", ["be-leaf-spine-000021", "be-nic-000008"])
def test_a_cable_that_papers_lack_is_missed_under_one_spine(tmp_path, capsys, part):
    """The only spine of eight leafs has four times the cables of each: they are switches none the less."""
    assert guard.run(["deploy", str(EXAMPLES / "first.yaml"), "--out", str(tmp_path / "hall"), "-q"]) == 0
    file = tmp_path / "hall" / "netbox" / "10-cables.csv"
    for lost, found in (("nothing", "No fault was found."), (part, "One fault costs $")):
        file.write_text("".join(row for row in file.read_text().splitlines(keepends=True) if lost not in row))
        capsys.readouterr()
        assert guard.run(["audit", "--netbox", str(file)]) == 0
        assert capsys.readouterr().out.startswith(found)
