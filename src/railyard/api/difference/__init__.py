"""How two results of the same question differ: figures that moved, and what was changed between them."""

from railyard.api.difference.difference import difference
from railyard.api.difference.documents import Document, read

__all__ = ["Document", "difference", "read"]
