"""What the cases of refusals.cases name."""

from pathlib import Path

import numpy as np
from tests.work.federated.test_rounds import cohort
from tests.work.federated.test_study import ROUNDS

from railyard.engine import rounds as buffered
from railyard.face import api
from railyard.work.scenario import load
