#!/usr/bin/env python3
"""Writes the tables of Kueue's own tests as JSON: `tools/kueue_cases.py CHECKOUT OUT_FOLDER`.

CHECKOUT is a work tree of kubernetes-sigs/kueue (Apache-2.0). Its Go is read as data, nothing of it runs: literals and
chains of builders become the Kubernetes objects that they stand for. Needs `pip install tree-sitter tree-sitter-go`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "go_tests"))
from go_tables import tables
from manifests import plain

_ASSIGNMENTS = Path("pkg/cache/scheduler/tas_cache_test.go")
_CYCLES = Path("pkg/scheduler/scheduler_tas_test.go")
_WANTS = {"wantNewAssignments": "admitted", "wantLeft": "left", "wantInadmissibleLeft": "inadmissible"}
_OBJECTS = ("topologies", "resourceFlavors", "cohorts", "clusterQueues", "admissionChecks", "pods", "workloads")


class Shared:
    """Lists of nodes that many cases have, each once."""

    def __init__(self) -> None:
        self.lists: list[Any] = []

    def number(self, nodes: list[dict[str, Any]]) -> int:
        """Its number; ready nodes lose the condition that says so."""
        for node in nodes:
            if node["status"].get("conditions") == [{"type": "Ready", "status": "True"}]:
                del node["status"]["conditions"]
            node.pop("kind", None)
        if nodes not in self.lists:
            self.lists.append(nodes)
        return self.lists.index(nodes)


def assignments(path: Path, shared: Shared) -> list[dict[str, Any]]:
    """Cases of the table of topology assignments."""
    found = []
    for test, scope in tables(path).items():
        for name, row in scope.names.get("cases", {}).items():
            case = plain(row)
            if "podSets" not in case:
                case |= _of_replacement(case, plain(scope.names["defaultLevels"]))
            case["nodes"] = shared.number(case["nodes"])
            found.append({"name": name, "test": test, **case})
    return found


def _of_replacement(case: dict[str, Any], levels: list[str]) -> dict[str, Any]:
    """The second table has one pod set a case, in columns of their names."""
    sets = {"name": "main", "count": case.pop("admissionCount"), "topologyAssignment": case.pop("existingTA")}
    pod_set = {
        key: case.pop(key) for key in ("topologyRequest", "count", "wantAssignment", "wantReason") if key in case
    }
    case["workload"] = {
        "kind": "Workload",
        "metadata": {"name": "test-wl", "namespace": "test-ns"},
        "status": {"unhealthyNodes": [{"name": case.pop("unhealthyNode")}], "admission": {"podSetAssignments": [sets]}},
    }
    return {"levels": levels, **case, "podSets": [{"podSetName": "main", "requests": {"cpu": 1000}, **pod_set}]}


def cycles(path: Path, shared: Shared) -> list[dict[str, Any]]:
    """Cases of scheduling cycles."""
    found = []
    for test, scope in tables(path).items():
        table = scope.names.get("cases") or scope.names.get("testCases") or {}
        for name, case in table.items():
            case.fields.pop("verify", None)
            rest = plain(case)
            common = [] if "clusterQueues" in rest else _fixtures(scope)
            queues = plain(scope.names.get("queues") or scope.names["lq"])
            nodes = rest.pop("nodes", None) or plain(scope.names.get("nodes", []))
            items = [one for key in _OBJECTS for one in rest.pop(key, [])] + common
            items += [rest.pop("workload")] if "workload" in rest else []
            for one in items:
                if one["kind"] == "Topology":
                    one["spec"]["levels"] = [{"nodeLabel": level} for level in one["spec"]["levels"]]
            items += queues if isinstance(queues, list) else [queues]
            found.append(
                {
                    "name": name,
                    "test": test,
                    "gates": rest.pop("featureGates", {}),
                    "nodes": shared.number(nodes),
                    "items": items,
                    **{short: rest.pop(key, {}) for key, short in _WANTS.items()},
                    **_outcome(rest),
                }
            )
    return found


def _fixtures(scope: Any) -> list[dict[str, Any]]:
    return [plain(scope.names[name]) for name in ("topology", "rf", "cq", "provCheck") if name in scope.names]


def _outcome(rest: dict[str, Any]) -> dict[str, Any]:
    """Who is evicted or preempted, by conditions and events; settings that no manifest has."""
    evicted = {
        f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        for one in rest.pop("wantWorkloads", [])
        for condition in one["status"].get("conditions", ())
        if condition["type"] == "Evicted" and condition["status"] == "True"
    }
    events = [one for one in rest.pop("wantEvents", None) or [] if one]
    evicted |= {one["of"] for one in events if one["reason"].startswith("EvictedDue") or one["reason"] == "Preempted"}
    rest.pop("eventCmpOpts", None)
    settings = {key: rest.pop(key) for key in ("resourceTransformations", "patchStatusErr") if key in rest}
    if rest:
        raise SystemExit(f"columns that are not read: {sorted(rest)}")
    return {"evicted": sorted(evicted), **settings}


def _write(path: Path, source: str, commit: str, cases: list[dict[str, Any]], shared: Shared) -> None:
    lines = [
        "{",
        f'"source":{json.dumps(f"kubernetes-sigs/kueue {source}")},"licence":"Apache-2.0","commit":"{commit}",',
        '"nodes":[',
        ",\n".join(json.dumps(one, separators=(",", ":")) for one in shared.lists),
        '],"cases":[',
        ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases),
        "]}",
    ]
    path.write_text("\n".join(lines) + "\n")
    print(f"{path}: {len(cases)} cases")


def main() -> None:
    """Reads both tables."""
    checkout, out = map(Path, sys.argv[1:3])
    commit = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    for source, read, name in ((_ASSIGNMENTS, assignments, "assignments"), (_CYCLES, cycles, "cycles")):
        shared = Shared()
        cases = read(checkout / source, shared)
        _write(out / f"kueue_{name}.json", str(source), commit, cases, shared)


if __name__ == "__main__":
    main()
