"""The names that `refusals.cases` uses."""

from pathlib import Path

import railyard

__all__ = ["EXAMPLE", "railyard"]

EXAMPLE = Path(__file__).parents[3] / "examples" / "straggler.yaml"
