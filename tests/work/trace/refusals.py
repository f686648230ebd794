"""What the cases of refusals.cases name."""

from tests.tables import file
from tests.work.trace.test_goal import HEAD, written
from tests.work.trace.test_htsim import DATA, G
from tests.work.trace.test_htsim import written as written_htsim_matrix
from tests.work.trace.test_scenario import BASE, EXAMPLES, scenario

from railyard.work.scenario import load
from railyard.work.scenario.packet import assign
from railyard.work.study import study
from railyard.work.trace.builder import Failure
from railyard.work.trace.chakra import read
from railyard.work.trace.formats import read_flows as read_formats
from railyard.work.trace.htsim_matrix import read as read_htsim_matrix
from railyard.work.traffic.htsim_topology import k_ary
from railyard.work.traffic.htsim_topology import read as read_htsim_topology
from railyard.work.traffic.htsim_wiring import wire
