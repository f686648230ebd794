"""The command line. Data goes to stdout, words and progress to stderr.

Exit codes: 0 done; 1 a run that cannot finish (memory and disk too), or a check that failed; 2 the input is wrong; 3 an
internal error; 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations


def main() -> None:
    """Entry point of `railyard`."""
    import sys

    from railyard.face import signals

    arguments = sys.argv[1:]
    signals.listen(waits=True)  # until the guard can say what ended the command
    from railyard.face.cli.guard import at_once, end, run

    signals.watch(at_once)
    code = run(arguments)
    if signals.came():
        end(code)  # without waiting for threads
    sys.exit(code)
