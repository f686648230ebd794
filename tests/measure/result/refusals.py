"""What the cases of refusals.cases name."""

import json

from railyard.measure.result.reading import result_from
