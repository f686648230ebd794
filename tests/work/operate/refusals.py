"""What the cases of refusals.cases name."""

import math

from tests.tables import file
from tests.work.operate.test_formats import read
from tests.work.operate.test_owned import CHAT, DRAWN, TRACE, draft, prepared
from tests.work.operate.test_policies import jobs
from tests.work.operate.test_study import DRAWN as DRAWN_STUDY
from tests.work.operate.test_study import scenario as scenario_study
from tests.work.operate.test_study import steady_scenario as scenario
from tests.work.operate.yard import jobs as jobs_yard

from railyard.work.operate.failures import history
from railyard.work.operate.prepare import prepare
from railyard.work.operate.topology_file import expand_hostlist as expand
from railyard.work.scenario.load import expand as expand_variants
from railyard.work.study.study import run as operate
