"""`python -m railyard`."""

from railyard.face.cli import main

main()
