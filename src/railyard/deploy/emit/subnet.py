"""OpenSM: its options and partitions. Roots of the tree it finds by itself: no plan knows addresses of switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def files(regular: bool) -> Iterator[tuple[str, str]]:
    """`opensm.conf` and `partitions.conf`.

    Args:
        regular: Whether it is a fat tree: ftree first then, and Up/Down where one cable is missing and ftree gives up.
    """
    options = {
        "routing_engine": "ftree,updn" if regular else "updn,minhop",
        "partition_config_file": "/etc/opensm/partitions.conf",
        "sweep_interval": "10",
    }
    yield "opensm/opensm.conf", "".join(f"{key} {value}\n" for key, value in options.items())
    yield "opensm/partitions.conf", "Default=0x7fff, ipoib, defmember=full : ALL=full;\n"
