"""The two waists: what runs (`TaskGraph`) and when it ran (`Timeline`), with their files."""

from railyard.graph.task_graph import CollectiveKind, Communicators, Kind, Label, Stream, TaskGraph
from railyard.graph.timeline import LinkSeries, Timeline

__all__ = ["CollectiveKind", "Communicators", "Kind", "Label", "LinkSeries", "Stream", "TaskGraph", "Timeline"]
