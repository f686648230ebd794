"""What the cases of refusals.cases name."""

import math

from tests.operate.test_drawn import jobs
from tests.operate.test_formats import read
from tests.operate.test_owned import DRAWN, TRACE, prepared
from tests.operate.test_service import CHAT, draft
from tests.operate.test_steady import scenario
from tests.operate.test_study import DRAWN as DRAWN_STUDY
from tests.operate.test_study import scenario as scenario_study
from tests.operate.yard import jobs as jobs_yard
from tests.tables import file

from railyard.work.operate.failures import history
from railyard.work.operate.prepare import prepare
from railyard.work.operate.topology_file import expand_hostlist as expand
from railyard.work.scenario.variants import expand as expand_variants
from railyard.work.study.study import run as operate
