"""What the cases of refusals.cases name."""

from railyard.kit import quantities
from railyard.kit.schema import yaml
