"""A headless Chromium, where the machine has one."""

import os
import shutil
import subprocess
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

HEADLESS = (
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--virtual-time-budget=4000",
    "--enable-logging=stderr", "--lang=en-US",
)  # fmt: skip


def browse(address: str, profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Opens a page; what it is in the end on stdout with `--dump-dom`, its console on stderr."""
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    command = [str(CHROMIUM), *HEADLESS, *sandbox, f"--user-data-dir={profile}", *options, address]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
