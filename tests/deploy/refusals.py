"""What the cases of refusals.cases name."""

from tests.deploy.scenarios import draft, planned
from tests.deploy.test_bring_up import EXAMPLE
from tests.deploy.test_check import judged
from tests.deploy.test_patching import patched
from tests.deploy.test_tuned_files import quiet

from railyard.ask.bring_up.racks import Lead, check
from railyard.ask.bring_up.study import study
from railyard.ask.check import check as grammar
from railyard.ask.deploy.emit.configurations import rendered
from railyard.work.scenario import load
