"""What the cases of refusals.cases name."""

from tests.face.explain.test_explain import SCENARIO

import railyard
