"""What the cases of refusals.cases name."""

from tests.stages.test_bad_input import _FILE
from tests.tables import file

from railyard.work.scenario import load
from railyard.work.study.study import prepare
