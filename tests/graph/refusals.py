"""What the cases of refusals.cases name."""

from dataclasses import replace

import numpy as np
from tests.graph.test_files import graph_of
from tests.graph.test_record import bare

from railyard.graph import Record, parquet
