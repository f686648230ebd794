"""What the cases of refusals.cases name."""

from tests.ask.plan.test_decide import SCENARIO
from tests.ask.plan.test_designs_axes import STORE, values
from tests.ask.plan.test_designs_plan import EFFORT, planned
from tests.ask.plan.test_designs_plan import values as values_designs_plan
from tests.ask.plan.test_designs_service import planned as planned_designs_service
from tests.ask.plan.test_designs_service import values as values_designs_service
from tests.ask.plan.test_designs_space import PLAN, begun
from tests.ask.plan.test_growth import values as values_growth

from railyard.ask.plan.growth import growth
from railyard.ask.plan.planned import begin
from railyard.ask.plan.worth import worth
from railyard.catalog.grids import grid
from railyard.work.scenario import load
from railyard.work.scenario.load import from_values
