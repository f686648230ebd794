"""Measured serving runs: a table with a row a load."""

from railyard.ask.calibrate.tables import serving_fit
from railyard.ask.calibrate.tables.kind import TableKind, kinds
from railyard.ask.calibrate.tables.serving_fit import METRICS, NEEDED

kinds.add(
    "serving",
    TableKind(
        name="serving",
        summary="Serving runs in a closed loop, a row a load: what served on what, and what a token took.",
        columns=(*NEEDED, " or ".join(METRICS)),
        recognizes=lambda source: source.has(NEEDED, METRICS),
        calibrate=serving_fit.calibrate,
    ),
)
