"""What a switch fetches at its first boot, where that is not its configuration itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard.ask.deploy.emit.provision.intent import ENDING

if TYPE_CHECKING:
    from railyard.ask.deploy.emit.provision.intent import Boot

FRR = """#!/bin/bash
# CUMULUS-AUTOPROVISIONING
set -e
curl --fail --silent --show-error --output /etc/frr/frr.conf.new {url}
mv /etc/frr/frr.conf.new /etc/frr/frr.conf
hostnamectl set-hostname {name}
{devices}systemctl restart frr
"""
"""The mark in its second line is what ZTP of Cumulus Linux asks for."""

DEVICES = """curl --fail --silent --show-error --output /etc/network/interfaces.d/tenants.intf.new {url}
mv /etc/network/interfaces.d/tenants.intf.new /etc/network/interfaces.d/tenants.intf
ifreload --all
"""
"""Devices of tenants: there before FRR routes over them."""

JUNOS = """#!/bin/sh
cli -c 'configure exclusive; load set {url}; commit and-quit comment "first boot"'
"""


def file_of(boot: Boot, system: str, folder: str) -> tuple[str, str] | None:
    """Name in the plan's folder and text; None where a device fetches its configuration, or nothing.

    Args:
        boot: A device.
        system: Its operating system.
        folder: URL of the plan's folder.
    """
    if not boot.file or system == "eos":
        return None
    url = f"{folder}switches/{boot.device}.{ENDING[system]}"
    if system == "sonic":
        source = {"source": url, "destination": "/etc/sonic/config_db.json", "secure": False}
        steps: dict[str, object] = {"01-configdb-json": {"url": source}}
        if boot.second:  # there before the tables say that it counts
            own = {"source": boot.second, "destination": "/etc/sonic/frr/frr.conf", "secure": False}
            steps = {"01-download": {"files": [{"url": own}]}, "02-configdb-json": {"url": source}}
        return f"provision/ztp/{boot.device}.json", json.dumps({"ztp": steps}, indent=1) + "\n"
    devices = DEVICES.format(url=boot.second) if boot.second else ""
    text = (FRR if system == "frr" else JUNOS).format(url=url, name=boot.device, devices=devices)
    return f"provision/ztp/{boot.device}.sh", text
