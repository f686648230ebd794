"""Small clusters of one-accelerator servers on shaped links, and graphs to run on them."""

import pytest

from railyard import catalog as catalogs
from railyard import cluster as clusters
from railyard.collective.policy import CollectivePolicy
from railyard.engine.lab import blueprint
from railyard.graph import CollectiveKind
from railyard.kit.schema import yaml
from railyard.work.scenario import load
from railyard.work.scenario.cluster import ClusterSection
from railyard.work.trace.builder import GraphBuilder

needs_lab = pytest.mark.skipif(bool(blueprint.missing()), reason=f"the lab needs {blueprint.missing()}")
STAR = {"kind": "leaf-spine", "ports_per_leaf": 64, "spines": 1}
CLOS = {"kind": "leaf-spine", "ports_per_leaf": 2, "spines": 2}
ONE = CollectivePolicy(connections=1)
MIB = 1 << 20


def cluster(tmp_path, ranks, topology, rate="200 Mb/s", *, fabric="lab", server="gh200-node"):
    """A cluster as a scenario's section describes it."""
    back_end = f"{{topology: {_flow(topology)}, fabric: {fabric}, link_rate: {rate}}}"
    file = tmp_path / "cluster.yaml"
    file.write_text(f"cluster: {{accelerators: {ranks}, server: {server}, back_end: {back_end}}}\n", encoding="utf-8")
    section = yaml.read(file, if_empty="it has a cluster").value["cluster"]
    return clusters.build(load.check(section, ClusterSection).spec(), catalogs.load())


def _flow(values):
    return "{" + ", ".join(f"{key}: {value}" for key, value in values.items()) + "}"


def collectives(ranks, kind, size, times=1):
    """Collectives of all ranks, one after another."""
    builder, before = GraphBuilder(ranks), None
    for _ in range(times):
        task = builder.collective(CollectiveKind[kind], "dp", tuple(range(ranks)), size)
        if before is not None:
            builder.wait(task, [(before, 1)])
        before = task
    return builder.build().graph
