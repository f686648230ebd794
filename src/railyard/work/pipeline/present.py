"""Results of pipelines are shown as those of services."""

from railyard.work.serving.present import PRESENTATION
from railyard.work.study.presentation import presentations

presentations.add("pipeline", PRESENTATION)
