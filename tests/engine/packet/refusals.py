"""What the cases of refusals.cases name."""

import dataclasses
from dataclasses import replace

import numpy as np
from tests.engine.packet.test_connections import RATE_BPS
from tests.engine.packet.test_examples import RATE
from tests.engine.packet.test_pfc import STATIC, ring
from tests.engine.packet.test_rdma import RATE_BPS as RATE_BPS_RDMA
from tests.engine.packet.test_rdma import go
from tests.engine.packet.test_running import G400, broken
from tests.engine.packet.test_threads import G400 as G400_THREADS
from tests.engine.packet.test_threads import US, permutation

from railyard.engine.packet import Settings, Traffic, crossbar, fat_tree, leaf_spine, run
from railyard.engine.packet.faults import both_ways, down
from railyard.work.scenario.packet import assign as assign_packet
from railyard.work.scenario.packet import fabric
from railyard.work.scenario.packet.settings import PacketSettings, assign
