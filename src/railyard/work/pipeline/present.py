"""Results of pipelines are shown as those of services."""

from railyard.work.serving.present import PRESENTATION

__all__ = ["PRESENTATION"]
