"""What the cases of refusals.cases name."""

from tests.work.serving_requests.test_traces import AZURE, EXCERPTS

from railyard.work.serving.arrivals import LogNormal
from railyard.work.serving.traces import read_trace, stream_trace
