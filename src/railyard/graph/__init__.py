"""The two waists: what runs (`TaskGraph`) and what happened (`Record`), with their files."""

from railyard.kit import lazily

with lazily(globals()):
    from railyard.graph.job import Job
    from railyard.graph.record import Record
    from railyard.graph.repeat import MergedJobs
    from railyard.graph.request_table import RequestTable
    from railyard.graph.task_graph import (
        AT_RECEIVER,
        AT_SENDER,
        HOST,
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
    "HOST",
    "CollectiveKind",
    "Communicators",
    "Job",
    "Kind",
    "Label",
    "MergedJobs",
    "Record",
    "RequestTable",
    "Stream",
    "TaskGraph",
]
