"""What the cases of refusals.cases name."""

from tests.work.serving.test_apart import run
from tests.work.serving.test_iteration_cost import pools
from tests.work.serving.test_networks import job
from tests.work.serving.test_states import cost, of

from railyard.work.serving.layout import ServingLayout
