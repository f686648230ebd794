"""What the cases of refusals.cases name."""

from tests.face.web.server import free_port
from tests.face.web.test_shelf import ANNA, BERT
from tests.tables import file

from railyard.face.api.client import Client
from railyard.face.web.settings import read_tokens
