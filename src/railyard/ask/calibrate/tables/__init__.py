"""Constants from a user's own measurements, `railyard calibrate runs`: one file a kind of measurement, in `kinds/`."""

from railyard.ask.calibrate.tables.kind import Calibrated, Constant, Judged, Source, TableKind, kinds, read

__all__ = ["Calibrated", "Constant", "Judged", "Source", "TableKind", "kinds", "read"]
