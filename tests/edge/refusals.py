"""What the cases of refusals.cases name."""

from pathlib import Path

import numpy as np
from tests.edge.test_rounds import cohort
from tests.edge.test_study import ROUNDS

from railyard.engine import rounds as buffered
from railyard.face import api
from railyard.work.scenario import load
