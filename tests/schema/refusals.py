"""What the cases of refusals.cases name."""

from railyard.kit.schema import yaml
