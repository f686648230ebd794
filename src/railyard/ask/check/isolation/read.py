"""Files of switches by operating system: how they end, and what reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.check.isolation import read_eos, read_frr, read_junos, read_sonic
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.ask.check.isolation.configured import Configured

ENDINGS = {"frr": "frr.conf", "sonic": "config_db.json", "eos": "eos.cfg", "junos": "junos.set"}
"""What follows a switch's name."""

INTERFACES = "interfaces"
"""The same of FRR's second file: devices that it cannot make."""

_READERS = {"eos": read_eos.read, "junos": read_junos.read}


def second(system: str, text: str) -> str:
    """How a second file of a switch ends, without which the first is not all; empty where there is none.

    Args:
        system: Its operating system.
        text: Of the first file.
    """
    return ENDINGS["frr"] if system == "sonic" and read_sonic.routes_itself(text) else ""


def _routing(name: str, texts: Mapping[str, str], ending: str) -> tuple[str, str]:
    if not ending:
        return "", ""
    file = f"{name}.{ending}"
    if not texts.get(file):
        raise InputError("a switch of the plan has no file of its routing", found=file, allowed=sorted(texts)[:4])
    return file, texts[file]


DUAL = frozenset({"frr"})
"""Systems whose files have servers' IPv6 too."""


def configured(system: str, name: str, texts: Mapping[str, str], family: int = 4) -> Configured:
    """What a switch's files say of tenants.

    Args:
        system: Its operating system.
        name: Of the device.
        texts: Files by name.
        family: 4, or 6 of a system in `DUAL`.

    Raises:
        InputError: Its file is missing, or cannot be read.
    """
    file = f"{name}.{ENDINGS[system]}"
    if file not in texts:
        raise InputError("a switch of the plan has no file", found=file, allowed=sorted(texts)[:4])
    try:
        if system == "frr":
            devices = f"{name}.{INTERFACES}"
            return read_frr.read(name, file, texts[file], (devices, texts.get(devices, "")), family)
        if system == "sonic":
            return read_sonic.read(name, file, texts[file], _routing(name, texts, second(system, texts[file])))
        return _READERS[system](name, file, texts[file])
    except (KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
        raise InputError(f"the file cannot be read: {type(error).__name__} {error}", file=file) from None
