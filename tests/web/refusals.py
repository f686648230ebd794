"""What the cases of refusals.cases name."""

from tests.tables import file
from tests.web.server import free_port
from tests.web.test_guard import ANNA, BERT

from railyard.face.api.client import Client
from railyard.face.web.settings import read_tokens
