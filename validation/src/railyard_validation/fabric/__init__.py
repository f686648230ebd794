"""Published figures of fabrics, run again: `railyard validate fabric`."""

from railyard_validation.fabric.figure import FIGURES, FabricReport, Figure, Row, validate_fabric

__all__ = ["FIGURES", "FabricReport", "Figure", "Row", "validate_fabric"]
