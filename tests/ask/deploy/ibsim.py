"""A simulated InfiniBand fabric with the real OpenSM and infiniband-diags."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

LIBRARY = next(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"), None)
MISSING = [
    name
    for name in ("ibsim", "opensm", "ibnetdiscover", "perfquery")
    if not shutil.which(name, path="/usr/bin:/usr/sbin:/bin")
]
WHY = (
    ""
    if LIBRARY and not MISSING
    else f"no {', '.join(MISSING) or 'libumad2sim'} here (Debian: ibsim-utils opensm infiniband-diags)"
)


class Fabric:
    """ibsim over a net file; `with` stops it."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        (folder / "net").write_text(text)
        first = re.search(r'^(?:Ca|Hca)\s+\d+\s+"([^"]+)"', text, re.MULTILINE)
        self.environment = os.environ | {
            "IBSIM_SOCKNAME": f"sim-{os.getpid()}-{time.monotonic_ns()}",
            "SIM_HOST": first[1],
            "OSM_TMP_DIR": str(folder),
            "OSM_CACHE_DIR": str(folder),
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        }
        self.manager = None
        self.log = (folder / "ibsim.log").open("wb")
        self.sim = subprocess.Popen(
            ["ibsim", "-s", "-N", "32768", "-S", "4096", "-P", "131072", "net"],
            cwd=folder, env=self.environment, stdin=subprocess.PIPE, stdout=self.log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def __enter__(self):
        for _ in range(200):
            if b"ready" in (self.folder / "ibsim.log").read_bytes():
                return self
            assert self.sim.poll() is None, (self.folder / "ibsim.log").read_text()
            time.sleep(0.05)
        raise AssertionError("ibsim does not begin")

    def __exit__(self, *_):
        if self.manager is not None:
            self.manager.kill()
            self.manager.wait()
        self.sim.stdin.close()
        self.sim.kill()
        self.sim.wait()
        self.log.close()

    def console(self, *commands: str) -> None:
        """Typed into ibsim; returns once it has answered."""
        for command in commands:
            self.sim.stdin.write(f"{command}\n".encode())
        self.sim.stdin.flush()
        time.sleep(0.3)

    def run(self, *command: str, codes: tuple[int, ...] = (0,)) -> str:
        """A program that believes it stands on the fabric's first host; ibqueryerrors ends with 1 at errors."""
        environment = self.environment | {"LD_PRELOAD": str(LIBRARY)}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode in codes, done.stdout + done.stderr
        return done.stdout

    def manage(self, engine: str = "minhop") -> None:
        """OpenSM, one sweep; dumps its forwarding tables."""
        folder = str(self.folder)
        self.run("opensm", "-R", engine, "-o", "-D", "0x43", "--dump_files_dir", folder, "-f", f"{folder}/opensm.log")

    def serve(self, engine: str = "minhop") -> None:
        """OpenSM that stays: it answers queries, and sweeps when cables change."""
        log = self.folder / "served.log"
        environment = self.environment | {"LD_PRELOAD": str(LIBRARY)}
        command = ["opensm", "-R", engine, "-d2", "-D", "0x43", "--dump_files_dir", str(self.folder), "-f", str(log)]
        self.manager = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(200):
            if log.exists() and b"SUBNET UP" in log.read_bytes():
                return
            assert self.manager.poll() is None, log.read_text()
            time.sleep(0.05)
        raise AssertionError("OpenSM does not begin")

    def tables(self) -> dict[str, dict[int, int]]:
        """Ports by destination, switch by switch, as OpenSM dumped them."""
        out: dict[str, dict[int, int]] = {}
        for line in (self.folder / "opensm-lfts.dump").read_text().splitlines():
            head = re.match(r"Unicast lids.*\('([^']*)'\)", line)
            row = re.match(r"(0x[0-9a-f]+)\s+(\d+)", line)
            if head:
                mine = out.setdefault(head[1], {})
            elif row:
                mine[int(row[1], 16)] = int(row[2])
        return out
