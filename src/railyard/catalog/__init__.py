"""Facts as data: accelerators, servers, NICs, switches, cables, storage, models, prices; each number has its origin.

>>> from railyard import catalog
>>> catalog.load().accelerator("H100").name
'h100-sxm'
"""

from railyard.kit import lazily

with lazily(globals()):
    from railyard.catalog.model import MLA, Model
    from railyard.catalog.show import Listing, Row
    from railyard.catalog.store import KINDS, Catalog, load
    from railyard.catalog.types import (
        Accelerator,
        AccessLink,
        Appliance,
        Cable,
        Device,
        Drafter,
        Entry,
        MemoryPool,
        Nic,
        OpticalSwitch,
        Price,
        Range,
        ScaleUpRack,
        Server,
        Storage,
        Switch,
    )
    from railyard.kit.schema.quantity import Provenance

__all__ = [
    "KINDS",
    "MLA",
    "Accelerator",
    "AccessLink",
    "Appliance",
    "Cable",
    "Catalog",
    "Device",
    "Drafter",
    "Entry",
    "Listing",
    "MemoryPool",
    "Model",
    "Nic",
    "OpticalSwitch",
    "Price",
    "Provenance",
    "Range",
    "Row",
    "ScaleUpRack",
    "Server",
    "Storage",
    "Switch",
    "load",
]
