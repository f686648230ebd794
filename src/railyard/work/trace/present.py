"""Results of traces are shown as those of training steps."""

from railyard.work.study.presentation import presentations
from railyard.work.training.present import PRESENTATION

presentations.add("trace", PRESENTATION)
