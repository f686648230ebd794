"""A server as users start it, in a process of its own."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

STARTS_S = 120
"""For a server to answer, on a machine with a lot else to do."""


def free_port():
    """A port that nothing listens at, from below those that systems give to outgoing connections: it stays free."""
    draw = random.SystemRandom()
    while True:
        port = draw.randrange(10_000, 32_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def until(look, seconds=STARTS_S):
    """What `look` finds, once it finds something."""
    begin = time.monotonic()
    while not (found := look()):
        assert time.monotonic() - begin < seconds, f"not within {seconds} s"
        time.sleep(0.05)
    return found


class Server:
    def __init__(self, folder, port, *options):
        self.folder, self.port, self.options = folder, port, options
        self.address = f"http://127.0.0.1:{port}"
        self.process = None

    def start(self):
        command = [sys.executable, "-m", "railyard", "ui", str(self.folder), "--port", str(self.port), "--no-open"]
        command += self.options
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
        begin = time.monotonic()
        while time.monotonic() - begin < STARTS_S and self.process.poll() is None:
            try:
                return self.ask("GET", "/health")
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"the server does not answer; its exit code is {self.process.poll()}")

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            f"{self.address}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=STARTS_S) as answer:
            return json.load(answer)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(STARTS_S)


@contextmanager
def running(folder, *options):
    server = Server(folder, free_port(), *options)
    try:
        server.start()
        yield server
        server.stop()
    finally:
        if server.process.poll() is None:
            server.kill()
