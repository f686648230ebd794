"""The machine: servers with their scale-up domains, networks with their topologies and fabrics, storage.

>>> from railyard import catalog, cluster
>>> machine = cluster.build(cluster.ClusterSpec(accelerators=64, server="hgx-h100"), catalog.load())
>>> machine.servers
8
"""

from railyard.kit import lazily

with lazily(globals()):
    from railyard.cluster.bill import bill_of
    from railyard.cluster.build import build
    from railyard.cluster.fabric import Fabric, FabricSpec, fabrics
    from railyard.cluster.hardware import ScaleUp
    from railyard.cluster.links import Csr, CsrWeighted, Entities, LinkTable
    from railyard.cluster.machine import Cluster, StorageServers
    from railyard.cluster.memory_pool import PooledMemory
    from railyard.cluster.names import link_name, node_name
    from railyard.cluster.network import Network
    from railyard.cluster.notes import notes_of
    from railyard.cluster.routes import Routes
    from railyard.cluster.spec import Background, ClusterSpec, MemoryPoolSpec, NetworkSpec, Placement, StorageSpec
    from railyard.cluster.topology import TopologySpec, topologies

__all__ = [
    "Background",
    "Cluster",
    "ClusterSpec",
    "Csr",
    "CsrWeighted",
    "Entities",
    "Fabric",
    "FabricSpec",
    "LinkTable",
    "MemoryPoolSpec",
    "Network",
    "NetworkSpec",
    "Placement",
    "PooledMemory",
    "Routes",
    "ScaleUp",
    "StorageServers",
    "StorageSpec",
    "TopologySpec",
    "bill_of",
    "build",
    "fabrics",
    "link_name",
    "node_name",
    "notes_of",
    "topologies",
]
