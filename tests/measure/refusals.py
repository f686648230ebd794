"""What the cases of refusals.cases name."""

from railyard.measure.job import job_time
