"""What the cases of refusals.cases name."""

import pickle
import struct

from tests.ask.observe.test_spoilt import Hostile

from railyard.ask.observe.diagnose import diagnose
from railyard.ask.observe.gather import gather
from railyard.ask.observe.operations import Dependencies, OperationGroup, read_operations
