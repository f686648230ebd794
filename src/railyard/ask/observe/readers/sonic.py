"""SONiC: COUNTERS_DB as JSON (`redis-dump`, `sonic-db-dump -n COUNTERS_DB`), with SAI counters by OID.

`COUNTERS_PORT_NAME_MAP` gives the ports' names; `COUNTERS:oid:0x...` holds `SAI_PORT_STAT_...` and
`SAI_QUEUE_STAT_...` as strings.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.reader import Count, Piece, Reader, is_count, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.observe.sources import Source


def recognises(_: str, head: bytes) -> bool:
    """By its keys."""
    return b"COUNTERS_PORT_NAME_MAP" in head or b"COUNTERS:oid" in head or b"SAI_PORT_STAT_" in head


def read(source: Source) -> Piece:
    """Counters of every port and queue.

    Raises:
        InputError: The file is damaged, or holds none.
    """
    try:
        found = json.loads(source.everything())
    except (ValueError, RecursionError) as error:
        raise InputError(f"the file is damaged: {error}", file=source.name) from None
    tables = found if isinstance(found, dict) else {}
    names: dict[str, str] = {}
    for key in ("COUNTERS_PORT_NAME_MAP", "COUNTERS_QUEUE_NAME_MAP"):
        names |= {oid: name for name, oid in _values(tables.get(key)).items()}
    piece = Piece(source.name)
    for key, table in tables.items():
        if key.startswith("COUNTERS:oid"):
            oid = key.removeprefix("COUNTERS:")
            for name, value in _values(table).items():
                if name.startswith("SAI_") and is_count(value):
                    piece.counts.append(Count("", names.get(oid, oid), name, float(value)))
    if not piece.counts:
        raise InputError("no counter of a port is in it", file=source.name, allowed="a dump of COUNTERS_DB")
    return piece


def _values(table: Any) -> dict[str, str]:
    """A hash, as redis-dump writes it (`value`) or plainly."""
    plain = table.get("value", table) if isinstance(table, dict) else {}
    return {str(key): str(value) for key, value in plain.items()} if isinstance(plain, dict) else {}


readers.add("sonic", Reader("sonic", "SONiC's COUNTERS_DB as JSON", recognises, read))
