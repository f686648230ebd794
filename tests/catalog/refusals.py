"""What the cases of refusals.cases name."""

from tests.catalog.test_entries import CATALOG as CATALOG_SHOW
from tests.catalog.test_hf_config import given_config, written
from tests.catalog.test_names import CATALOG
from tests.catalog.test_user_entries import written as written_user_entries

from railyard import catalog
from railyard.catalog.hugging_face import hf_config
