"""What the cases of refusals.cases name."""

from tests.ask.calibrate.test_runs import HEADER, KNOWN, log, of_constants
from tests.ask.calibrate.test_runs import collective_tables_written as written
from tests.ask.calibrate.test_tables import HEADER as HEADER_TABLES
from tests.ask.calibrate.test_tables import ROWS, RUN, write
from tests.tables import file

from railyard import catalog as catalogue
from railyard.ask.calibrate import measurements
from railyard.ask.calibrate.kinds.training import steps_of
from railyard.collective.constants import read_constants
from railyard.work.serving.software import parse, read_profiles
from railyard.work.training import pace as calibrated
