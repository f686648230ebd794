"""What goes wrong, and when: one record a kind, for scenarios and packet runs alike."""

from railyard.fault.accelerator_down import AcceleratorDown
from railyard.fault.bit_errors import BitErrors
from railyard.fault.degrade_link import DegradeLink
from railyard.fault.effect import Effect, LinkErrors, LinkRate, LinkSetting, RankDeath, RankDelay, RankSpeed, Spell
from railyard.fault.fault import Fault, Places, Spells, faults
from railyard.fault.host_down import HostDown
from railyard.fault.late import Late
from railyard.fault.link_down import LinkDown
from railyard.fault.misconfigured import Misconfigured
from railyard.fault.nic_down import NicDown
from railyard.fault.slow_accelerator import SlowAccelerator
from railyard.fault.switch_down import SwitchDown

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
