"""What the cases of refusals.cases name."""

from tests.engine.lab import yard

from railyard.collective.machine import Shape
from railyard.engine.lab.program import LibraryCall, parts
from railyard.engine.lab.wiring import laid_out, source_port
from railyard.graph import CollectiveKind
