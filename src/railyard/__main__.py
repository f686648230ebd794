"""`python -m railyard`."""

from railyard.cli import main

main()
