"""What the cases of refusals.cases name."""

from dataclasses import replace

from tests.agreement import yard
from tests.engine.packet_collectives.test_plans import executed
from tests.engine.packet_collectives.test_step import APART, EVERYBODY, EXACT, MIB, REDUCE, SIXTY_FOUR, pair

from railyard.cluster.topology import RailOnly
from railyard.collective import CollectivePolicy
from railyard.engine.background import Bursts
from railyard.engine.packet.engine import PacketEngine
