"""Chakra execution traces of MLCommons: protocol buffers or JSON, one file a rank or an archive of them."""

from __future__ import annotations

from railyard.work.trace.importer import Importer, importers

_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
_TAR = slice(257, 262)


def is_archive(data: bytes) -> bool:
    """Whether bytes begin like a zip file, a compressed file or a tar file."""
    return data.startswith(_ARCHIVES) or data[_TAR] == b"ustar"


CHAKRA = importers.add(
    "chakra",
    Importer(
        name="chakra",
        summary="Chakra execution traces: nodes that compute and communicate, one file a rank.",
        reader="railyard.work.trace.chakra",
        recognizes=lambda head: is_archive(head) or head.lstrip()[:1] in (b"{", b"["),
        suffixes=(".et", ".json"),
        options=("ranks", "flops"),
        folders=True,
    ),
)
