"""Results of traces are shown as those of training steps."""

from railyard.work.training.present import PRESENTATION

__all__ = ["PRESENTATION"]
