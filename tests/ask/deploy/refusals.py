"""What the cases of refusals.cases name."""

from tests.ask.deploy.scenarios import draft, planned
from tests.ask.deploy.test_bring_up import EXAMPLE
from tests.ask.deploy.test_check import judged
from tests.ask.deploy.test_collectives import quiet
from tests.ask.deploy.test_plan import patched

from railyard.ask.bring_up.racks import Lead, check
from railyard.ask.bring_up.study import study
from railyard.ask.check import check as grammar
from railyard.ask.deploy.emit.configurations import rendered
from railyard.work.scenario import load
