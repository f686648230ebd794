"""`python -m railyard.face.cli`."""

from railyard.face.cli import main

main()
