"""What the cases of refusals.cases name."""

from dataclasses import replace

import numpy as np
from tests.serving_engine.columns import pool, rows
from tests.serving_engine.test_bad_input import GOOD
from tests.serving_engine.test_closed_form import pool as pool_closed_form
from tests.serving_engine.test_closed_form import requests
from tests.serving_engine.test_lockstep import _pool, _served

from railyard.engine.serving import Deployment, Links, Outages, Router, simulate
from railyard.engine.serving.closed_form import expected
from railyard.engine.serving.deployment import Autoscale
