"""What the cases of refusals.cases name."""

from tests.study.test_deaths import STEP, variant
from tests.study.test_job_tenants import placed
from tests.study.test_jobs import SERVING, TRAINING, job, scenario

from railyard.face import api
from railyard.work.study import repricing
from railyard.work.study.workers import workers
