"""Measured training steps: a table with a row a run."""

from railyard.ask.calibrate.tables import training_fit
from railyard.ask.calibrate.tables.kind import TableKind, kinds
from railyard.ask.calibrate.tables.training_rows import METRICS, NEEDED

kinds.add(
    "training",
    TableKind(
        name="training",
        summary="Training steps, a row a run: what ran where, laid out how, and how long a step took.",
        columns=(*NEEDED, " or ".join(METRICS)),
        recognizes=lambda source: source.has(NEEDED, METRICS),
        calibrate=training_fit.calibrate,
    ),
)
