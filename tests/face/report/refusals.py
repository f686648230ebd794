"""What the cases of refusals.cases name."""

import json

from tests.face.report.test_answers import audit

from railyard.measure.result.answers import answer_from
