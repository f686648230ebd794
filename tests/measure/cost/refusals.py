"""What the cases of refusals.cases name."""

import math

from railyard.measure.cost.capital import component_of
from railyard.measure.cost.serving import Day, Unit
