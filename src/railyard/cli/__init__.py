"""The command line. Data goes to stdout, words and progress to stderr.

Exit codes: 0 done; 1 a run that cannot finish, or a check that failed; 2 the input is wrong; 3 a fault of Railyard's own;
130 stopped by the user.
"""

from __future__ import annotations


def main() -> None:
    """Entry point of `railyard`."""
    import sys

    from railyard.cli.guard import run

    sys.exit(run(sys.argv[1:]))
