"""What the cases of refusals.cases name."""

import numpy as np

from railyard.work.training.schedule import Sequence, emit, schedules
