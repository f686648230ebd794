"""Real QUIC (aioquic, CUBIC) over shaped paths in network namespaces, against `railyard.cluster.edge.transport`.

As `transport_lab.py`, whose carrier it uses. The ends run under a Python with `aioquic`, the first argument.

    validation/tools/quic_lab.py /path/to/python validation/data/edge/quic.csv
    validation/tools/quic_lab.py /path/to/python validation/data/edge/quic_unseen.csv unseen
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from transport_lab import Case, measure, write

ENDS = Path(__file__).with_name("quic_ends.py")
AT_ONCE = 3
REPEATS = 3


def cases() -> list[Case]:
    """Rates that Python carries; near and far, short and long, clean and lossy, deep and shallow buffers."""
    found = []
    for rate, rtt in ((2e6, 0.05), (4e6, 0.1), (8e6, 0.03), (8e6, 0.1), (8e6, 0.2)):
        found += [Case("quic-cubic", rate, rtt, 0.0, 1.0, size) for size in (60_000, 400_000)]
        found.append(Case("quic-cubic", rate, rtt, 0.0, 1.0, int(rate / 8.0 * 20.0)))
    found.append(Case("quic-cubic", 8e6, 0.1, 0.0, 0.3, 20_000_000))
    for loss, rtt in ((0.001, 0.03), (0.003, 0.05), (0.01, 0.03), (0.01, 0.1), (0.02, 0.06)):
        goodput = min(8e6, 1.3 * 1169 * 8 / rtt / loss**0.5)
        found.append(Case("quic-cubic", 8e6, rtt, loss, 1.0, int(goodput / 8.0 * 30.0)))
    return found


def unseen() -> list[Case]:
    """Settings that were chosen when the first ones had been looked at, predicted by what then stood."""
    found = []
    for rate, rtt, size in ((3e6, 0.04, 150_000), (3e6, 0.15, 2_000_000), (6e6, 0.08, 150_000), (6e6, 0.08, 2_000_000)):
        found.append(Case("quic-cubic", rate, rtt, 0.0, 1.0, size))
    for buffer, rtt in ((0.5, 0.08), (2.0, 0.08), (0.2, 0.15)):
        found.append(Case("quic-cubic", 6e6, rtt, 0.0, buffer, 12_000_000))
    for loss, rtt, rate in ((0.002, 0.04, 6e6), (0.005, 0.08, 6e6), (0.005, 0.02, 3e6), (0.015, 0.15, 6e6)):
        goodput = min(rate, 1.22 * 1165 * 8 / rtt / loss**0.5)
        found.append(Case("quic-cubic", rate, rtt, loss, 1.0, int(goodput / 8.0 * 30.0)))
    return found


def over_quic(python: str, certificate: str, key: str, spaces: tuple[str, str], case: Case) -> float:
    """Seconds from the data given to QUIC, encryption agreed, to the last byte received."""

    def end(space: str, *words: str) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", space, python, str(ENDS), *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    getter = end(spaces[1], "receive", str(case.size_bytes), certificate, key)
    assert getter.stdout is not None
    getter.stdout.readline()
    giver = end(spaces[0], "send", "10.9.0.2", str(case.size_bytes))
    try:
        assert giver.stdout is not None
        begun = float(giver.stdout.readline())
        return float(getter.stdout.readline()) - begun
    finally:
        giver.kill()
        for process in (getter, giver):
            process.wait(timeout=30)


def main(python: str, target: Path, which: str = "first") -> None:
    """Every case, and a CSV of what was measured."""
    found = {"first": cases, "unseen": unseen}[which]()
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = f"{folder}/cert.pem", f"{folder}/key.pem"
        make = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        subprocess.run(
            (*make, "-subj", "/CN=ry", "-days", "2", "-keyout", key, "-out", certificate),
            check=True,
            capture_output=True,
        )
        todo = [(case, repeat) for case in found for repeat in range(REPEATS if case.loss else 1)]
        write(target, measure(todo, AT_ONCE, lambda spaces, case: over_quic(python, certificate, key, spaces, case)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
