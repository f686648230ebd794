"""Faults: one record per kind, for scenarios and packet runs alike."""

from railyard.cluster.fault.degraded import BitErrors, DegradeLink, Late, MisconfiguredSwitch, SlowAccelerator
from railyard.cluster.fault.downs import AcceleratorDown, HostDown, LinkDown, NicDown, SwitchDown
from railyard.cluster.fault.fault import (
    Effect,
    Fault,
    LinkErrors,
    LinkRate,
    LinkSetting,
    Places,
    RankDeath,
    RankDelay,
    RankSpeed,
    Spell,
    Spells,
    faults,
)

__all__ = [
    "AcceleratorDown",
    "BitErrors",
    "DegradeLink",
    "Effect",
    "Fault",
    "HostDown",
    "Late",
    "LinkDown",
    "LinkErrors",
    "LinkRate",
    "LinkSetting",
    "MisconfiguredSwitch",
    "NicDown",
    "Places",
    "RankDeath",
    "RankDelay",
    "RankSpeed",
    "SlowAccelerator",
    "Spell",
    "Spells",
    "SwitchDown",
    "faults",
]
