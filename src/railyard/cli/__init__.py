"""The command line. Data goes to stdout, words and progress to stderr.

Exit codes: 0 done; 1 a run that cannot finish (memory and disk too), or a check that failed; 2 the input is wrong; 3 a
fault of Railyard's own; 130 stopped by the user.
"""

from __future__ import annotations


def main() -> None:
    """Entry point of `railyard`."""
    import signal
    import sys

    from railyard.cli import endless
    from railyard.cli.guard import at_once, run

    # A run that a scheduler ends is cleared up like one that the user stops.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    endless.watch(at_once)
    sys.exit(run(sys.argv[1:]))
