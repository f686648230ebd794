"""What the cases of refusals.cases name."""

import numpy as np
from tests.cluster.test_cluster import machine
from tests.cluster.test_fabrics import machine as machine_fabrics
from tests.cluster.test_links import machine as machine_scale_up
from tests.cluster.test_machines import KNOWN, path
from tests.cluster.test_management import KNOWN as KNOWN_PLACEMENT
from tests.cluster.test_management import SPEC, cluster, spec
from tests.cluster.test_management import tenancy_cluster as cluster_tenancy
from tests.cluster.test_ports import KNOWN as KNOWN_PORTS
from tests.cluster.test_ports import built

from railyard import catalog
from railyard import cluster as cluster_railyard
from railyard.cluster import ClusterSpec, NetworkSpec, Placement, bill_of, build
from railyard.cluster.fabric import from_mapping
from railyard.cluster.host_path import HostSpec
from railyard.cluster.nccl import machine as machine_nccl
from railyard.cluster.spec import ClusterSpec as ClusterSpecSpec
from railyard.cluster.spec import NetworkSpec as NetworkSpecSpec
from railyard.cluster.tenancy import tenancy_of
from railyard.cluster.topology import Dragonfly
from railyard.cluster.topology import from_mapping as from_mapping_topology
