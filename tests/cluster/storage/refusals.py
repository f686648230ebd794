"""What the cases of refusals.cases name."""

from tests.cluster.storage.test_memory_pool import job, machine

from railyard import catalog
