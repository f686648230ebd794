"""What the cases of refusals.cases name."""

from railyard.kit import quantities
