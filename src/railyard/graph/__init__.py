"""The two waists: what runs (`TaskGraph`) and what happened (`Record`), with their files."""

from railyard.graph.record import Record
from railyard.graph.task_graph import (
    AT_RECEIVER,
    AT_SENDER,
    CollectiveKind,
    Communicators,
    Kind,
    Label,
    Stream,
    TaskGraph,
)

__all__ = [
    "AT_RECEIVER",
    "AT_SENDER",
    "CollectiveKind",
    "Communicators",
    "Kind",
    "Label",
    "Record",
    "Stream",
    "TaskGraph",
]
