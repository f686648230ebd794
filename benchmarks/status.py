"""Requests a second of status, with the CPU time of server, proxy and client apart; needs wrk, and nginx for --proxy.

    .venv/bin/python benchmarks/status.py --processes 2 --proxy --seconds 10

A busy machine gives any server less of a core: requests per CPU second of the server do not depend on that.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.face.web.server import Server, free_port  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TICKS = os.sysconf("SC_CLK_TCK")
PROXY = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 512; }}
http {{
  access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  upstream railyard {{ server 127.0.0.1:{server}; keepalive 32; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://railyard; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host 127.0.0.1; proxy_buffering off;
    }}
  }}
}}
"""


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--processes", type=int, default=1)
    given.add_argument("--seconds", type=int, default=8)
    given.add_argument("--connections", type=int, default=16)
    given.add_argument("--proxy", action="store_true")
    asked = given.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(serving(folder, asked.processes))
        job = server.ask("POST", "/jobs", {"text": "name: broken"})["id"]
        while server.ask("GET", f"/jobs/{job}")["state"] in {"queued", "running"}:
            time.sleep(0.2)
        proxy = stack.enter_context(proxied(folder, server.port)) if asked.proxy else None
        port = server.port if proxy is None else proxy[1]
        for path in ("/health", f"/jobs/{job}", "/jobs"):
            print(measured(path, port, asked, server.process.pid, None if proxy is None else proxy[0]))


def measured(path: str, port: int, asked: argparse.Namespace, server: int, proxy: int | None) -> str:
    """A line on one path."""
    before = [0.0 if pid is None else cpu_s(pid) for pid in (server, proxy)]
    address = f"http://127.0.0.1:{port}/api/v1{path}"
    words = f"time -p wrk -t1 -c{asked.connections} -d{asked.seconds}s --latency {address}"
    ran = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=True)
    mine, other = (0.0 if pid is None else cpu_s(pid) - then for pid, then in zip((server, proxy), before, strict=True))
    many, rate = int(found(r"(\d+) requests in", ran.stdout)), float(found(r"Requests/sec:\s+([\d.]+)", ran.stdout))
    client = sum(float(found(rf"{name} ([\d.]+)", ran.stderr)) for name in ("user", "sys"))
    wrong = re.findall(r"(?:Non-2xx|Socket errors).*", ran.stdout)
    late, each = found(r"99%\s+(\S+)", ran.stdout), many / mine if mine else 0.0
    return (
        f"{path.rpartition('/')[0] or path}: {rate:.0f}/s of {many:,}, p99 {late}, errors: {wrong or 'none'};"
        f" CPU s: server {mine:.2f} ({each:,.0f} requests a CPU second), proxy {other:.2f}, client {client:.2f};"
        f" load {os.getloadavg()[0]:.1f}"
    )


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"no {pattern} in: {text}")
    return match[1]


def cpu_s(pid: int) -> float:
    """Of a process and those that it started, so far."""
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    total = 0
    for one in (pid, *map(int, listed)):
        words = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += int(words[11]) + int(words[12])
    return total / TICKS


@contextmanager
def serving(folder: Path, processes: int) -> Iterator[Server]:
    """A server as users start it, and all of its processes up."""
    server = Server(folder, free_port())
    words = ["-m", "railyard", "serve-api", str(folder), "--port", str(server.port), "--processes", str(processes)]
    server.process = subprocess.Popen([sys.executable, *words], stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(lambda: server.ask("GET", "/health"))
        time.sleep(5 if processes > 1 else 0)
        yield server
    finally:
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()


@contextmanager
def proxied(folder: Path, server: int) -> Iterator[tuple[int, int]]:
    """The process of an nginx in front, and its port."""
    port, file = free_port(), folder / "nginx.conf"
    file.write_text(PROXY.format(folder=folder, server=server, port=port))
    process = subprocess.Popen(["nginx", "-c", str(file), "-p", str(folder)], stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        yield process.pid, port
    finally:
        process.terminate()
        process.wait()


def wait_for(ready: Callable[[], object]) -> None:
    for _ in range(300):
        try:
            ready()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the server does not answer")


if __name__ == "__main__":
    main()
