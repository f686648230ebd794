"""What the cases of refusals.cases name."""

from tests.work.scenario.test_serving import BASE, LOOP, run

from railyard.face import api
from railyard.work.scenario import override
