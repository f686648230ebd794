"""Array types of the room."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.signedinteger[Any]]
"""Integers of any width: ranks, ports, nodes, links."""
