"""What the cases of refusals.cases name."""

from railyard.work.training.stages import layer_counts
