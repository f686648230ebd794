"""A leaf-spine network of network namespaces in which FRR and lldpd run what a plan wrote."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

FRR = Path("/usr/lib/frr")
PROGRAMS = ("ip", "lldpd", "lldpcli", "vtysh")
DAEMONS = ("zebra", "bgpd", "bfdd")


def why() -> str:
    """Why it cannot run here; empty where it can."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    missing += [name for name in DAEMONS if not (FRR / name).exists()]
    if missing:
        return f"no {', '.join(missing)} here (Debian: frr lldpd iproute2)"
    probe = subprocess.run(["ip", "netns", "add", f"ry{os.getpid()}"], capture_output=True, check=False)
    if probe.returncode:
        return "no right to make network namespaces (CAP_NET_ADMIN)"
    subprocess.run(["ip", "netns", "del", f"ry{os.getpid()}"], check=True)
    return ""


def sh(*command: str, check: bool = True) -> str:
    environment = os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=60)
    assert not check or done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
    return done.stdout


class Lab:
    """Namespaces, cables, daemons; `with` takes all of it away."""

    def __init__(self) -> None:
        self.tag = f"ry{os.getpid()}"
        self.folder = Path(tempfile.mkdtemp(prefix="ry", dir="/run"))  # lldpcli gives up its rights before it connects
        self.folder.chmod(0o755)
        self.places = [self.folder]
        self.speakers: list[subprocess.Popen] = []
        self.devices: list[str] = []
        self.pids: list[int] = []
        self.inner = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for speaker in self.speakers:
            speaker.kill()
            speaker.wait()
        for pid in self.pids:
            sh("kill", "-9", str(pid), check=False)
        for device in self.devices:
            sh("ip", "netns", "del", self.space(device), check=False)
        for place in self.places:
            shutil.rmtree(place, ignore_errors=True)

    def space(self, device: str) -> str:
        return f"{self.tag}-{device}"

    def inside(self, device: str, *command: str, check: bool = True) -> str:
        return sh("ip", "netns", "exec", self.space(device), *command, check=check)

    def add(self, device: str) -> None:
        sh("ip", "netns", "add", self.space(device))
        self.devices.append(device)
        for key in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.default.accept_dad=0"):
            self.inside(device, "sysctl", "-q", "-w", key)
        self.inside(device, "ip", "link", "set", "lo", "up")

    def cable(self, a: str, port: str, b: str, other: str) -> None:
        """A pair of virtual interfaces, renamed in their namespaces: names of ports are not unique outside."""
        self.inner += 1
        ends = [(a, port, f"x{self.inner}a"), (b, other, f"x{self.inner}b")]
        (one, _, first), (two, _, second) = ends
        sh(
            "ip",
            "link",
            "add",
            first,
            "netns",
            self.space(one),
            "type",
            "veth",
            "peer",
            "name",
            second,
            "netns",
            self.space(two),
        )
        for device, name, old in ends:
            self.inside(device, "ip", "link", "set", old, "name", name)
            self.inside(device, "ip", "link", "set", name, "mtu", "9000" if device.startswith("node") else "9216", "up")

    def route(self, device: str, text: str) -> None:
        """Begins FRR with a file as it is."""
        name = self.space(device)
        place, run = Path("/etc/frr") / name, Path("/var/run/frr") / name
        for path in (place, run):
            path.mkdir(parents=True, exist_ok=True)
            self.places.append(path)
        (place / "frr.conf").write_text(text)
        (place / "vtysh.conf").write_text("service integrated-vtysh-config\n")
        sh("chown", "-R", "frr:frr", str(place), str(run))
        for daemon in DAEMONS:
            pid = run / f"{daemon}.pid"
            socket = ("-z", str(run / "zserv.api"), "--vty_socket", str(run), "-A", "127.0.0.1")
            extra = ("--bfdctl", str(run / "bfdd.sock")) if daemon == "bfdd" else ()
            self.inside(device, str(FRR / daemon), "-d", "-N", name, "-i", str(pid), *socket, *extra)
            self.pids.append(int(pid.read_text()))
        answer = self.inside(device, "vtysh", "-N", name, "-b", check=False)
        assert "%" not in answer, answer

    def open(self, cables, intents) -> None:
        """All devices of a plan with these cables, and FRR on its switches."""
        for device in {end for cable in cables for end in (cable[0], cable[2])}:
            self.add(device)
        for cable in cables:
            self.cable(*cable)
        for name, text in intents.items():
            self.route(name, text)

    def kill(self, device: str, daemon: str, signal: str) -> None:
        """A signal for a daemon of FRR."""
        pid = Path("/var/run/frr") / self.space(device) / f"{daemon}.pid"
        sh("kill", signal, pid.read_text().strip())

    def silence(self, device: str, port: str) -> None:
        """A port that sends nothing any more, while it has light."""
        self.inside(
            device, "tc", "qdisc", "add", "dev", port, "root", "tbf", "rate", "8bit", "burst", "1", "limit", "1"
        )

    def watch(self, device: str) -> Path:
        """Notes every change of a device's routes and next hops with its time."""
        path = self.folder / f"{device}.routes{len(self.speakers)}"
        command = ("ip", "netns", "exec", self.space(device), "ip", "-ts", "monitor", "route", "nexthop")
        with path.open("wb") as log:
            environment = os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "TZ": "UTC"}
            self.speakers.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))
        time.sleep(0.3)
        return path

    def announce(self, device: str) -> None:
        """Begins lldpd, with its name from the first frame on."""
        path, settings = self.folder / f"{device}.sock", self.folder / f"{device}.conf"
        settings.write_text(
            f"configure system hostname {device}\nconfigure lldp portidsubtype ifname\nconfigure lldp tx-interval 1\n"
        )
        command = ["lldpd", "-d", "-u", str(path), "-S", device, "-H", "0", "-I", "*", "-O", str(settings)]
        environment = os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
        with (self.folder / f"{device}.lldpd").open("wb") as log:
            inside = ["ip", "netns", "exec", self.space(device), *command]
            self.speakers.append(subprocess.Popen(inside, stdout=log, stderr=log, env=environment))

    def ask(self, device: str, question: str) -> dict:
        return json.loads(self.inside(device, "vtysh", "-N", self.space(device), "-c", question))

    def neighbours(self, device: str) -> str:
        return sh("lldpcli", "-u", str(self.folder / f"{device}.sock"), "-f", "json", "show", "neighbors")
