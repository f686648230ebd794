from railyard.face.api import Run as Run
from railyard.face.api import compare as compare
from railyard.face.api import explain as explain
from railyard.face.api import load as load
from railyard.face.api import query as query
from railyard.face.api import run as run
from railyard.kit.errors import InputError as InputError
from railyard.kit.errors import RailyardError as RailyardError

__all__ = ["InputError", "RailyardError", "Run", "__version__", "compare", "explain", "load", "run"]

__version__: str
