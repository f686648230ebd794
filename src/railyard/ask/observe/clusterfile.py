"""The cluster that a diagnosis is about: the section `cluster` of a scenario, or a file of that section alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard import catalog as catalogs
from railyard import cluster as clusters
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.scenario import load, problems
from railyard.work.scenario.cluster import ClusterSection

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.cluster import Cluster
    from railyard.graph import Record


def cluster_of(path: Path) -> Cluster:
    """Builds it. Whatever else stands in the file is not read: not its workload, and not its faults.

    Raises:
        InputError: The file describes no cluster, or one that cannot be built.
    """
    tree = yaml.read(path, if_empty="it has a section `cluster`, as a scenario")
    section, above = (tree.value["cluster"], "cluster") if "cluster" in tree.value else (tree, None)
    try:
        written = load.check(section, ClusterSection)
        return _built(written, section, _catalog(path, tree))
    except InputError as error:
        raise error.located(key=above) from None


def _built(written: ClusterSection, section: yaml.Node, catalog: catalogs.Catalog) -> Cluster:
    try:
        return clusters.build(written.spec(), catalog, written.arrangement())
    except InputError as error:
        raise problems.place(error, section, (), ClusterSection) from None


def cluster_for(record: Record, path: Path) -> Cluster:
    """The cluster of a record.

    Raises:
        InputError: As of `cluster_of`; or it is not the cluster that the record was made on.
    """
    cluster = cluster_of(path)
    if cluster.ranks < record.graph.ranks:
        raise InputError(
            "the cluster has fewer accelerators than the record ranks",
            file=path,
            found=cluster.ranks,
            allowed=f"at least {record.graph.ranks}",
        )
    if "links" in record.tables:
        counted, known = len(record.tables["links"]["bytes"]), cluster.links.physical
        if counted not in {known, len(cluster.links)}:
            raise InputError(
                "the record was made on another cluster",
                file=path,
                found=f"{known:,} links",
                allowed=f"the {counted:,} that the record counted",
            )
    return cluster


def seed_of(path: Path) -> int:
    """The seed that a scenario gives its run, by which switches hash; 0 where the file says none."""
    said = yaml.read(path, if_empty="it has a section `cluster`, as a scenario").value.get("seed")
    return said.value if said is not None and isinstance(said.value, int) else 0


def _catalog(path: Path, tree: yaml.Node) -> catalogs.Catalog:
    """The catalogue, with the file's entries over it."""
    extra = tree.value.get("catalog")
    return catalogs.load() if extra is None else catalogs.load(path.parent / str(extra.value))
