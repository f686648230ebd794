"""A training step before it is replicated over ranks: slots, the spaces they are replicated over, and the expansion."""

from railyard.work.training.program.expand import copies_in, expand
from railyard.work.training.program.slots import NONE, Lattice, Slots, Space, StepProgram

__all__ = ["NONE", "Lattice", "Slots", "Space", "StepProgram", "copies_in", "expand"]
