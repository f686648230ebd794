"""What the cases of refusals.cases name."""

from tests.explain.test_runs import SCENARIO

import railyard
