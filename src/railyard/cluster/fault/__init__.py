"""What goes wrong, and when: one record a kind, for scenarios and packet runs alike."""

from railyard.cluster.fault.accelerator_down import AcceleratorDown
from railyard.cluster.fault.bit_errors import BitErrors
from railyard.cluster.fault.degrade_link import DegradeLink
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
from railyard.cluster.fault.host_down import HostDown
from railyard.cluster.fault.late import Late
from railyard.cluster.fault.link_down import LinkDown
from railyard.cluster.fault.misconfigured import Misconfigured
from railyard.cluster.fault.nic_down import NicDown
from railyard.cluster.fault.slow_accelerator import SlowAccelerator
from railyard.cluster.fault.switch_down import SwitchDown

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
    "Misconfigured",
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
