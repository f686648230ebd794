"""What the cases of refusals.cases name."""

import numpy as np
from tests.collective.test_symmetry import machine
from tests.collective.test_uneven_all_to_all import heavy, mesh
from tests.collective.test_written import GATHER, searched_for
from tests.collective.test_written import machine as machine_written
from tests.tables import file

from railyard.collective import CollectivePolicy, Schedule, Send, choose
from railyard.collective.machine import Shape
from railyard.collective.synthesis.network import read_network
from railyard.collective.synthesis.of_cluster import MOST_RANKS, network_of
from railyard.collective.synthesis.uneven import matrix_of, synthesize_uneven
from railyard.graph import CollectiveKind
from railyard.graph import CollectiveKind as Kind
