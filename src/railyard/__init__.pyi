from railyard.api import Run as Run
from railyard.api import compare as compare
from railyard.api import explain as explain
from railyard.api import load as load
from railyard.api import query as query
from railyard.api import run as run
from railyard.errors import InputError as InputError
from railyard.errors import RailyardError as RailyardError

__all__ = ["InputError", "RailyardError", "Run", "__version__", "compare", "explain", "load", "run"]

__version__: str
