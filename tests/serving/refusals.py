"""What the cases of refusals.cases name."""

from tests.serving.test_apart import run
from tests.serving.test_cache_width import cost
from tests.serving.test_kv_store import job
from tests.serving.test_placing import pools
from tests.serving.test_reuse import of

from railyard.work.serving.layout import ServingLayout
