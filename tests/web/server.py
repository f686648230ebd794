"""A server as users start it, in a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        self.address = f"http://127.0.0.1:{port}"
        self.process = None

    def start(self):
        command = [sys.executable, "-m", "railyard", "ui", str(self.folder), "--port", str(self.port), "--no-open"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
        for _ in range(300):
            try:
                return self.ask("GET", "/health")
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the server does not answer")

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            f"{self.address}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


@contextmanager
def running(folder):
    server = Server(folder, free_port())
    server.start()
    try:
        yield server
    finally:
        server.stop()
