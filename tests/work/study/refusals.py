"""What the cases of refusals.cases name."""

from tests.work.study.test_deaths import STEP, variant
from tests.work.study.test_jobs import SERVING, TRAINING, job, placed, scenario

from railyard.face import api
from railyard.face.web.views import prices
from railyard.work.study.workers import workers
