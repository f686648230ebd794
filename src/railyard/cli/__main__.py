"""`python -m railyard.cli`."""

from railyard.cli import main

main()
