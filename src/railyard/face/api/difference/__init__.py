"""How two results of the same question differ: figures that moved, and what was changed between them."""

from railyard.face.api.difference.difference import difference
from railyard.face.api.difference.documents import Document, read

__all__ = ["Document", "difference", "read"]
