"""What the cases of refusals.cases name."""

from tests.tables import file
from tests.work.pipeline.test_journeys import _FILE

from railyard.work.scenario import load
from railyard.work.study.study import prepare
