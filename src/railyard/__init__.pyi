from railyard.face.api import Run as Run
from railyard.face.api import compare as compare
from railyard.face.api import explain as explain
from railyard.face.api import load as load
from railyard.face.api import query as query
from railyard.face.api import run as run
from railyard.face.api import simulate as simulate
from railyard.face.verb import command as command
from railyard.graph.record import Record as Record
from railyard.kit.errors import InputError as InputError
from railyard.kit.errors import RailyardError as RailyardError
from railyard.work.jobs.section import JobSection as Job
from railyard.work.scenario.cluster import ClusterSection as Cluster
from railyard.work.scenario.cluster import NetworkSection as Fabric

__all__ = [
    "Cluster",
    "Fabric",
    "InputError",
    "Job",
    "RailyardError",
    "Record",
    "Run",
    "__version__",
    "command",
    "compare",
    "explain",
    "load",
    "query",
    "run",
    "simulate",
]

__version__: str
