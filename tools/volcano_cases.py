#!/usr/bin/env python3
"""Writes tables of Volcano's own tests as JSON: `tools/volcano_cases.py CHECKOUT OUT_FOLDER`.

CHECKOUT is a work tree of volcano-sh/volcano (Apache-2.0). Its Go is read as data, nothing of it runs. Needs
`pip install tree-sitter tree-sitter-go`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "go_tests"))
from go_tables import Chain, Record, tables
from manifests import plain

_PLUGIN = Path("pkg/scheduler/plugins/network-topology-aware/network_topology_aware_test.go")
_ALLOCATE = Path("pkg/scheduler/actions/allocate/allocate_test.go")
_SCORES = {
    "TestNetworkTopologyAwareNodeScore_Hard": "nodes",
    "TestNetworkTopologyAwareNodeScore_Soft": "nodes",
    "TestBatchNodeOrderFn": "nodes",
    "TestHyperNodeOrderFn": "groups",
}
_BINDS = ("TestAllocateWithNetWorkTopologies", "TestNodeLevelScoreWithNetWorkTopologies")
_MORE_BINDS = ("TestHyperNodeBinpackWithNetWorkTopologies",)


def resources(chain: Chain) -> dict[str, str]:
    """Of `BuildResourceList(cpu, memory, others...)`."""
    cpu, memory, *others = chain.args
    found = {"cpu": cpu, "memory": memory}
    return found | {one.fields["Name"]: one.fields["Value"] for one in others if isinstance(one, Record)}


def pod(chain: Chain) -> dict[str, Any]:
    """Of `BuildPod(namespace, name, node, phase, requests, group, labels, selector)`."""
    namespace, name, node, phase, requests, group, labels, selector = chain.args[:8]
    found = {"name": f"{namespace}/{name}", "node": node, "phase": plain(phase), "requests": resources(requests)}
    return {**found, "group": group, "labels": plain(labels) or {}, "selector": plain(selector) or {}}


def group(chain: Chain) -> dict[str, Any]:
    """Of the three makers of pod groups."""
    name, namespace, *rest = chain.args
    kind = chain.name.rsplit(".", 1)[-1]
    found = {"name": name, "namespace": namespace, "mode": "", "allocated": "", "least": rest[1]}
    if kind == "BuildPodGroup":
        return found
    allocated, _, least, _, _, mode, tier, *policies = rest
    found |= {"allocated": allocated, "least": least, "mode": mode, "tier": plain(tier)}
    return {**found, "parts": plain([one.args for one in policies[0]])} if policies else found


def children(chain: Chain) -> list[str]:
    """Members of a HyperNode as its object names them."""
    return [one.fields["Name"] if isinstance(one, Record) else one for one in chain.args[0].args[2]]


def common(fields: dict[str, Any]) -> dict[str, Any]:
    """Nodes, pods, groups of a case."""
    tier = {name: number for number, names in fields["HyperNodesSetByTier"].items() for name in names}
    return {
        "nodes": {one.args[0]: resources(one.args[1]) for one in fields["Nodes"]},
        "labels": {one.args[0]: plain(one.args[2]) for one in fields["Nodes"] if one.args[2]},
        "children": {name: children(one) for name, one in fields.get("HyperNodesMap", {}).items()},
        "hypernodes": {name: [tier[name], sorted(members)] for name, members in fields["HyperNodes"].items()},
        "groups": [group(one) for one in fields["PodGroups"]],
        "pods": [pod(one) for one in fields["Pods"]],
    }


def cases(checkout: Path) -> list[dict[str, Any]]:
    """Of both files."""
    found = []
    plugin, allocate = tables(checkout / _PLUGIN), tables(checkout / _ALLOCATE)
    for test, of in _SCORES.items():
        for row in plugin[test].names["tests"]:
            fields = row.fields
            shared = fields.get("TestCommonStruct") or fields["testCommonStruct"]
            want = plain(fields.get("expected", fields.get("expectedScores")))
            arguments = {str(key).strip('"'): one for key, one in fields["arguments"].fields.items()}
            scored = [one.fields["Name"] for one in fields.get("scoreNodes", [])]
            rest = {"of": of, "arguments": arguments, "scored": scored, "want": want}
            found.append({"name": fields["name"], "test": test, **common(shared.fields), **rest})
    for test in (*_BINDS, *_MORE_BINDS):
        for row in allocate[test].names["tests"]:
            fields = row.fields
            want = {key: plain(fields[key]) for key in fields if key.startswith("Expect")}
            names = plain(fields.get("HyperNodesTierNameMap", {}))
            rest = {"of": "binds", "tier_names": names, "want": want}
            found.append({"name": fields["Name"], "test": test, **common(fields), **rest})
    return found


def main() -> None:
    """Reads the tables."""
    checkout, out = map(Path, sys.argv[1:3])
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    commit = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    rows = ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases(checkout))
    head = f'"source":"volcano-sh/volcano","licence":"Apache-2.0","commit":"{commit}"'
    (out / "volcano.json").write_text(f'{{{head},"cases":[\n{rows}\n]}}\n')


if __name__ == "__main__":
    main()
