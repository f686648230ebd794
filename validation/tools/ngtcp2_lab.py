"""Real QUIC with BBR (ngtcp2 of Debian) over shaped paths in namespaces, against `railyard.cluster.edge.transport`.

As `transport_lab.py`, whose carrier it uses. A client gets a file over HTTP/3; from its log, in milliseconds, is taken
what lies between its request's arrival at the server (half a round trip after it was sent) and the last byte received.

    apt-get install ngtcp2-client ngtcp2-server
    validation/tools/ngtcp2_lab.py validation/data/edge/quic_bbr.csv
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from transport_lab import Case, measure, write

AT_ONCE = 3
REPEATS = 3
WINDOW = "200M"
STAMP = re.compile(r"^I(\d+) .*", re.MULTILINE)


def cases() -> list[Case]:
    """Near and far, short and long, clean and lossy, deep and shallow buffers."""
    found = []
    for rate, rtt in ((5e6, 0.04), (10e6, 0.08), (10e6, 0.2)):
        sizes = (200_000, 1_000_000, int(rate / 8.0 * 20.0))
        found += [Case("quic-bbr", rate, rtt, 0.0, 1.0, size) for size in sizes]
    found.append(Case("quic-bbr", 10e6, 0.1, 0.0, 0.3, 25_000_000))
    for loss, rtt in ((0.002, 0.04), (0.01, 0.08), (0.02, 0.15)):
        found.append(Case("quic-bbr", 10e6, rtt, loss, 1.0, 25_000_000))
    return found


def over_quic(folder: str, spaces: tuple[str, str], case: Case) -> float:
    """Seconds from the request's arrival to the last byte."""
    name = f"{case.size_bytes}"
    server = ["gtlsserver", "-q", "--cc=bbr", "--no-pmtud", "--max-udp-payload-size=1200", "-d", folder]
    server += ["10.9.0.1", "4433", f"{folder}/key.pem", f"{folder}/cert.pem"]
    client = ["gtlsclient", "--no-pmtud", "--exit-on-all-streams-close", f"--max-data={WINDOW}"]
    client += [f"--max-stream-data-bidi-local={WINDOW}", f"--download={folder}/got-{spaces[1]}"]
    client += ["10.9.0.1", "4433", f"https://10.9.0.1:4433/{name}"]
    Path(folder, f"got-{spaces[1]}").mkdir(exist_ok=True)
    giver = subprocess.Popen(
        ["ip", "netns", "exec", spaces[0], *server], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(0.5)
        done = subprocess.run(
            ["ip", "netns", "exec", spaces[1], *client], capture_output=True, text=True, timeout=200, check=True
        )
        got = Path(folder, f"got-{spaces[1]}", name)
        if got.stat().st_size != case.size_bytes:
            raise RuntimeError(f"{got.stat().st_size} of {case.size_bytes} bytes came")
        got.unlink()
        return between_s(done.stdout + done.stderr) - case.rtt_s / 2.0
    finally:
        giver.kill()
        giver.wait()


def between_s(log: str) -> float:
    """From the first packet sent with a request (stream 0) to the last one received with an answer."""
    lines = log.splitlines()
    sent = next(line for line in lines if re.match(r"^I\d+ .* frm tx .*STREAM\(0x0.\) id=0x0 ", line))
    got = next(line for line in reversed(lines) if re.match(r"^I\d+ .* frm rx .*STREAM\(0x0.\) id=0x0 ", line))
    return (int(got[1:9]) - int(sent[1:9])) / 1000.0


def main(target: Path) -> None:
    """Every case, and a CSV of what was measured."""
    found = cases()
    with tempfile.TemporaryDirectory() as folder:
        make = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        files = ("-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem")
        subprocess.run((*make, "-subj", "/CN=ry", "-days", "2", *files), check=True, capture_output=True)
        for case in found:
            Path(folder, f"{case.size_bytes}").write_bytes(bytes(case.size_bytes))
        todo = [(case, repeat) for case in found for repeat in range(REPEATS if case.loss else 1)]
        write(target, measure(todo, AT_ONCE, lambda spaces, case: over_quic(folder, spaces, case)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
