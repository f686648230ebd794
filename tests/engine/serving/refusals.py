"""What the cases of refusals.cases name."""

from dataclasses import replace

import numpy as np
from tests.engine.serving.columns import pool, rows
from tests.engine.serving.test_closed_form import GOOD, requests
from tests.engine.serving.test_closed_form import closed_form_pool as pool_closed_form
from tests.engine.serving.test_everything import _pool, _served

from railyard.engine.serving import Deployment, Links, Outages, Router, simulate
from railyard.engine.serving.closed_form import expected
from railyard.engine.serving.deployment import Autoscale
