"""What the cases of refusals.cases name."""

from tests.engine.packet_user.test_mix import go, written
from tests.engine.packet_user.test_user_control import EXAMPLE, incast, made, no_such_field, no_such_function, sets_rate
from tests.engine.packet_user.test_user_control import go as go_user_control

from railyard.engine import packet
from railyard.engine.packet.compiling import SLOTS
from railyard.engine.packet.user import UserControl, load
from railyard.work.scenario.packet import chosen
