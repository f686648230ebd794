"""Files of schedulers and discovered fabrics: read, written and read back, and refused by line."""

import contextlib
import random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.network_table import natural
from railyard.kit.errors import InputError
from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.topology_file import compress_hostlist, expand_hostlist, read_topology, topology_formats

from .crds import CRDS, accepted, broken_rules
from .draws import draw_blocks, draw_tree

FABRIC = """\
vendid=0x2c9
switchguid=0x1(1)
Switch\t4 "S-1"\t\t# "MF0;leaf-a:MQM9701/U1" enhanced port 0 lid 1 lmc 0
[1]\t"H-1"[1](1) \t\t# "one mlx5_0" lid 3 4xNDR
[2]\t"H-2"[1](2) \t\t# "two mlx5_0" lid 4 4xNDR
[3]\t"S-2"[1]\t\t# "MF0;spine:MQM9701/U1" lid 2 4xNDR

Switch\t4 "S-3"\t\t# "MF0;leaf-b:MQM9701/U1" enhanced port 0 lid 1 lmc 0
[1]\t"H-3"[1](3) \t\t# "ten mlx5_0" lid 3 2xHDR
[3]\t"S-2"[2]\t\t# "MF0;spine:MQM9701/U1" lid 2 4xNDR

Switch\t4 "S-2"\t\t# "MF0;spine:MQM9701/U1" enhanced port 0 lid 2 lmc 0
[1]\t"S-1"[3]\t\t# "MF0;leaf-a:MQM9701/U1" lid 1 4xNDR
[2]\t"S-3"[3]\t\t# "MF0;leaf-b:MQM9701/U1" lid 1 4xNDR

Ca\t1 "H-1"\t\t# "one mlx5_0"
[1](1) \t"S-1"[1]\t\t# lid 3 lmc 0 "MF0;leaf-a:MQM9701/U1" lid 1 4xNDR
Ca\t1 "H-2"\t\t# "two mlx5_0"
[1](2) \t"S-1"[2]\t\t# lid 4 lmc 0 "MF0;leaf-a:MQM9701/U1" lid 1 4xNDR
Ca\t1 "H-3"\t\t# "ten mlx5_0"
[1](3) \t"S-3"[1]\t\t# lid 3 lmc 0 "MF0;leaf-b:MQM9701/U1" lid 1 2xHDR
"""


def read(tmp_path, text, name="topology.conf"):
    path = tmp_path / name
    path.write_text(text)
    return read_topology(path)


def same(one, other):
    assert one.names == other.names
    assert one.levels == other.levels
    for a, b in zip(one.group, other.group, strict=True):
        assert len(set(zip(a.tolist(), b.tolist(), strict=True))) == int(a.max()) + 1


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", ["slurm-tree", "slurm-yaml", "topograph", "table"])
def test_written_trees_are_read_back(seed, name):
    tree = topology_formats.get("slurm-tree").read(draw_tree(random.Random(seed)).topology, "drawn")
    record = topology_formats.get(name)
    text = record.write(tree)
    assert record.recognise(text)
    same(record.read(text, "written"), tree)


@pytest.mark.parametrize("seed", range(8))
def test_written_blocks_are_read_back(seed):
    record = topology_formats.get("slurm-block")
    tree = record.read(draw_blocks(random.Random(seed)).topology, "drawn")
    back = record.read(record.write(tree), "written")
    same(back, tree)
    assert back.block_sizes == tree.block_sizes


def test_a_fabric_as_it_was_found(tmp_path):
    tree = read(tmp_path, FABRIC, "ibnetdiscover.out")
    assert tree.names == ("one", "ten", "two")
    assert tree.levels == ("leaf",)
    assert tree.group_names[0] == ("leaf-a", "leaf-b")
    assert tree.group[0].tolist() == [0, 1, 0]


def fabric(hosts, switches):
    """ibnetdiscover of hosts (name: switches) and of cables between switches (name: names)."""
    numbers = {name: number for number, name in enumerate([*switches, *hosts], 1)}
    used = dict.fromkeys(numbers, 0)
    cables = []
    for name, ends in [*switches.items(), *hosts.items()]:
        for end in ends:
            used[name] += 1
            used[end] += 1
            cables.append((name, used[name], end, used[end]))

    def words(name):
        return f"{name} mlx5_0" if name in hosts else f"MF0;{name}:MQM9701/U1"

    lines = ["vendid=0x2c9"]
    for name, number in numbers.items():
        kind, letter = ("Ca", "H") if name in hosts else ("Switch", "S")
        lines.append(f'{kind}\t64 "{letter}-{number}"\t\t# "{words(name)}"')
        for one, port, other, far in [*cables, *((c, d, a, b) for a, b, c, d in cables)]:
            if one == name:
                to = "H" if other in hosts else "S"
                lines.append(f'[{port}]\t"{to}-{numbers[other]}"[{far}]\t\t# "{words(other)}" lid 1 4xNDR')
        lines.append("")
    return "\n".join(lines)


def test_storage_does_not_swallow_nodes(tmp_path):
    """NVIDIA/topograph 488: a storage switch that every node reaches is no leaf of all of them."""
    hosts = {host: [leaf] * 4 + ["storage1"] for leaf, group in (("s1", "abc"), ("s2", "def")) for host in group}
    tree = read(tmp_path, fabric(hosts, {"spine1": [], "s1": ["spine1"], "s2": ["spine1"], "storage1": []}), "ib.out")
    assert tree.levels == ("leaf",)
    assert tree.group_names[0] == ("s1", "s2")
    assert tree.group[0].tolist() == [0, 0, 0, 1, 1, 1]
    assert tree.accelerators.tolist() == [4] * 6
    assert topology_formats.get("slurm-tree").write(tree) == (
        "SwitchName=s1 Nodes=a,b,c\nSwitchName=s2 Nodes=d,e,f\nSwitchName=root Switches=s[1-2]\n"
    )


def test_fabrics_that_are_not_joined_have_no_root(tmp_path):
    """nebius/soperator 2585: one root over two fabrics tells Slurm that they are connected."""
    hosts = {f"n{one}": [f"s{one // 2}"] for one in range(8)}
    switches = {"x": [], "y": [], "s0": ["x"], "s1": ["x"], "s2": ["y"], "s3": ["y"]}
    tree = read(tmp_path, fabric(hosts, switches), "ib.out")
    assert (tree.nodes, tree.levels, tree.joined) == (8, ("fabric", "leaf"), False)
    text = topology_formats.get("slurm-tree").write(tree)
    assert "root" not in text
    assert "SwitchName=fabric-0 Switches=s[0-1]\nSwitchName=fabric-1 Switches=s[2-3]\n" in text
    back = topology_formats.get("slurm-tree").read(text, "written")
    place = policies.get("slurm-tree").place
    for one in (tree, back):
        assert place(PlacementRequest(4, 1), FreeNodes(one)) is not None
        assert place(PlacementRequest(5, 1), FreeNodes(one)) is None


def test_the_spine_tier_is_kept(tmp_path):
    """nebius/soperator 2201: leaf, spine, core: what spines join is a level of its own in every form."""
    hosts = {f"n{one}": [f"s{one // 2}"] for one in range(8)}
    switches = {"core": [], "x": ["core"], "y": ["core"], "s0": ["x"], "s1": ["x"], "s2": ["y"], "s3": ["y"]}
    tree = read(tmp_path, fabric(hosts, switches), "ib.out")
    assert (tree.levels, tree.joined) == (("pod", "leaf"), True)
    assert [tree.group[0].tolist(), tree.group[1].tolist()] == [[0] * 4 + [1] * 4, [0, 0, 1, 1, 2, 2, 3, 3]]
    text = topology_formats.get("slurm-tree").write(tree)
    assert text.splitlines()[-1].startswith("SwitchName=root Switches=")
    assert len(text.splitlines()) == 4 + 2 + 1
    for name in ("slurm-yaml", "topograph", "table"):
        same(topology_formats.get(name).read(topology_formats.get(name).write(tree), name), tree)
    assert "topology.railyard.dev/pod" in topology_formats.get("kueue").write(tree)


def accepted_by_kueue(text):
    """The documents, held to the CRD: its schema, and what its CEL rules say."""
    documents = list(yaml.safe_load_all(text))
    topology = next(one for one in documents if one["kind"] == "Topology")
    flavors = [one for one in documents if one["kind"] == "ResourceFlavor"]
    for one in (topology, *flavors):
        accepted(one)
    names = [level["nodeLabel"] for level in topology["spec"]["levels"]]
    for flavor in flavors:
        assert flavor["spec"]["topologyName"] == topology["metadata"]["name"]
        assert flavor["spec"]["nodeLabels"]
    nodes = [one["metadata"] for one in documents if one["kind"] == "Node"]
    for node in nodes:
        assert set(names[:-1]) <= node["labels"].keys()
        chosen = [one for one in flavors if one["spec"]["nodeLabels"].items() <= node["labels"].items()]
        assert len(chosen) == 1  # a node is of one flavor
    return topology, flavors, nodes


def test_rules_of_crds_hold_and_are_broken():
    """Each rule that an export could break, broken once."""
    levels = [{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "a"}, {"nodeLabel": "a"}]
    broken = broken_rules(CRDS["Topology"]["spec"], {"levels": levels})
    assert len(broken) == 2
    flavor = {"topologyName": "fabric", "nodeLabels": {}}
    assert broken_rules(CRDS["ResourceFlavor"]["spec"], flavor) == [
        "at least one nodeLabel is required when topology is set"
    ]
    member = {"type": "Node", "selector": {"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "b"}}}
    assert broken_rules(CRDS["HyperNode"]["spec"], {"tier": 1, "members": [member]})


KUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: fabric}
spec: {levels: [{nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: x},
 spec: {nodeLabels: {a: b}, topologyName: fabric}}
---
apiVersion: v1
kind: List
items:
- {kind: Node, metadata: {name: n1, labels: {a: b, example.com/rack: r1, kubernetes.io/hostname: n1}},
   status: {allocatable: {nvidia.com/gpu: 4, cpu: 96}}}
- {kind: Node, metadata: {name: n2, labels: {a: b, example.com/rack: r2}}, status: {allocatable: {nvidia.com/gpu: "8"}}}
- {kind: Node, metadata: {name: n3, labels: {a: c, example.com/rack: r2}}}
- {kind: Node, metadata: {name: n4, labels: {a: b, example.com/rack: r2}}, spec: {unschedulable: true}}
- {kind: Node, metadata: {name: n5, labels: {a: b, example.com/rack: r2}}}
"""
HYPERNODES = """\
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: a}
spec: {tier: 1, members: [{type: Node, selector: {exactMatch: {name: n1}}}]}
---
kind: HyperNode
metadata: {name: b}
spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "^n[23]$"}}}]}
---
kind: HyperNode
metadata: {name: c}
spec: {tier: 1, members: [{type: Node, selector: {labelMatch: {matchLabels: {x: y}}}}]}
---
kind: HyperNode
metadata: {name: top}
spec:
  tier: 2
  members:
  - {type: HyperNode, selector: {exactMatch: {name: a}}}
  - {type: HyperNode, selector: {exactMatch: {name: b}}}
  - {type: HyperNode, selector: {exactMatch: {name: c}}}
---
{kind: Node, metadata: {name: n2}}
---
{kind: Node, metadata: {name: n3}}
---
{kind: Node, metadata: {name: n4, labels: {x: y}}}
"""


def test_nodes_of_a_flavor_in_a_topology_of_kueue(tmp_path):
    """Not n3, which is another flavor's, nor n4, which takes no pods; n5 says nothing of accelerators."""
    tree = read(tmp_path, KUEUE)
    assert (tree.names, tree.levels, tree.accelerators.tolist()) == (("n1", "n2", "n5"), ("rack",), [4, 8, 1])
    assert tree.group[0].tolist() == [0, 1, 1]


def test_hypernodes_by_name_pattern_and_label(tmp_path):
    tree = read(tmp_path, HYPERNODES)
    assert tree.names == ("n1", "n2", "n3", "n4")
    assert tree.group[-1].tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("name", ["kueue", "volcano"])
@pytest.mark.parametrize("seed", range(6))
def test_objects_of_kubernetes_come_back(name, seed):
    tree = topology_formats.get("slurm-tree").read(draw_tree(random.Random(seed)).topology, "drawn")
    back = topology_formats.get(name).read(topology_formats.get(name).write(tree), name)
    assert sorted(back.names) == sorted(tree.names)
    order = [back.number[one] for one in tree.names]
    assert len(back.levels) == len(tree.levels)
    for ours, theirs in zip(back.group, tree.group, strict=True):
        pairs = set(zip(ours[order].tolist(), theirs.tolist(), strict=True))
        assert len(pairs) == len(set(theirs.tolist())) == len(set(ours.tolist()))


@pytest.mark.parametrize("seed", range(8))
def test_volcano_accepts_what_is_written(seed):
    tree = topology_formats.get("slurm-tree").read(draw_tree(random.Random(seed)).topology, "drawn")
    for one in yaml.safe_load_all(topology_formats.get("volcano").write(tree)):
        accepted(one)


@pytest.mark.parametrize("seed", range(8))
def test_kueue_accepts_what_is_written(seed):
    tree = topology_formats.get("slurm-tree").read(draw_tree(random.Random(seed)).topology, "drawn")
    _, flavors, nodes = accepted_by_kueue(topology_formats.get("kueue").write(tree))
    assert len(nodes) == tree.nodes
    assert (len(flavors) == 1) == (tree.joined or len(tree.group_names[0]) == 1)


def test_networks_that_are_not_joined_are_flavors_of_their_own(tmp_path):
    """A pod set gets one flavor, so that no job spans both."""
    text = "SwitchName=IB-a Nodes=n[1-2]\nSwitchName=IB-b Nodes=n[3-4]\n"
    _, flavors, _ = accepted_by_kueue(topology_formats.get("kueue").write(read(tmp_path, text)))
    assert [one["metadata"]["name"] for one in flavors] == ["ib-a", "ib-b"]
    assert flavors[1]["spec"]["nodeLabels"] == {"topology.railyard.dev/leaf": "IB-b"}


def test_a_leaf_that_hangs_higher_has_no_pod(tmp_path):
    tree = read(
        tmp_path,
        "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=c Nodes=n3\n"
        "SwitchName=p Switches=a,b\nSwitchName=r Switches=p,c\n",
    )
    assert tree.levels == ("pod", "leaf")
    assert tree.group_names[0] == ("p", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SwitchName=a Nodes=n[1-3\n", "conf:1"),
        ("SwitchName=a Nodes=n[3-1]\n", "range"),
        ("SwitchName=a Nodes=n[0-99999999999]\n", "too long"),
        ("SwitchName=a Nodes=n1 Speed=4\n", "SwitchName, Nodes, Switches, LinkSpeed"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "conf:2"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n", "below two switches"),
        ("SwitchName=leaf1 Nodes=n1\nSwitchName=r Switches=leaf2\n", "did you mean `leaf1`"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Switches=c\nSwitchName=c Switches=b\n", "below"),
        ("SwitchName=a\n", "neither nodes nor switches"),
        ("BlockName=a Nodes=n[1-4]\nBlockSizes=4,12\n", "power of two"),
        ("BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n[3-9]\nBlockSizes=4\n", "fewer nodes"),
        ("- topology: x\n  flat: true\n", "neither a tree nor blocks"),
        ("- topology: x\n  ring:\n    rings: []\n", "Slurm has from 26.05 on"),
        ("BlockName=a Nodes=n[1-4]\nBlockLevels=0,1\n", "BlockLevels is of Slurm 23.11"),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n", "both together are topology.yaml, 25.05"),
        ("apiVersion: kueue.x-k8s.io/v1beta9\nkind: Topology\n", "kueue.x-k8s.io/v1beta9"),
        ("apiVersion: topology.volcano.sh/v1\nkind: HyperNode\n", "topology.volcano.sh/v1\n"),
        ("apiVersion: v1\nkind: Pod\n", "objects of Kubernetes (`v1`)"),
        (KUEUE.replace("example.com/rack}", "example.com/row}"), "no node is ready and has the labels"),
        (KUEUE.replace("topologyName: fabric", "topologyName: other"), "a cluster has one Topology"),
        (HYPERNODES.replace("type: Node", "type: Pod"), "no type of a member"),
        (HYPERNODES.replace("exactMatch: {name: a}", "regexMatch: {pattern: a}"), "members by name"),
        ("node,leaf\na,\n", "the cell is empty"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, words):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="SwitchName=Bok Nde[]0-9,:\n#\"'{}\\-", max_size=120))
def test_no_text_is_a_fault(text):
    for name, record in topology_formats.items():
        if record.read is None or not record.recognise(text):
            continue
        with contextlib.suppress(InputError):
            record.read(text, name)


@given(st.lists(st.tuples(st.sampled_from(["n", "rack-a", "x1y"]), st.integers(0, 1200)), min_size=1, unique=True))
def test_lists_in_brackets(parts):
    names = [f"{prefix}{number}" for prefix, number in parts]
    assert sorted(expand_hostlist(compress_hostlist(names))) == sorted(names)


def test_lists_keep_zeros():
    assert compress_hostlist(["n008", "n009", "n010", "n2"]) == "n[008-010],n2"
    assert expand_hostlist("n[008-010],n2") == ["n008", "n009", "n010", "n2"]
    assert expand_hostlist("r[1-2]-n[1-2]") == ["r1-n1", "r1-n2", "r2-n1", "r2-n2"]


def test_names_that_end_in_odd_digits_are_names():
    names = ["n\u00b2", "n" + "7" * 5000, "n\u0663"]
    assert sorted(expand_hostlist(compress_hostlist(names))) == sorted(names)
    assert sorted([*names, "n10", "n2"], key=natural)[0] == "n2"


def test_a_byte_order_mark_before_a_topology_is_left_aside(tmp_path):
    assert read(tmp_path, "\ufeffSwitchName=s0 Nodes=n[0-3]\n").nodes == 4
