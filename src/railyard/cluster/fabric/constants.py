"""Sources of the constants of fabrics, said once."""

from __future__ import annotations

from railyard.kit.schema.bounds import Provenance

DEEPSEEK_LATENCY = (
    "DeepSeek-V3 hardware paper (ISCA 2025), table 5: 64-byte latency {same} us on one leaf and {cross} us across two "
    "hops more; less 20 m of cable a hop"
)


def vendor(text: str, source: str, year: int) -> Provenance:
    """The maker's own figure."""
    return Provenance(text, source, year, "vendor")


def measured(text: str, source: str, year: int) -> Provenance:
    """A published measurement."""
    return Provenance(text, source, year, "measured")


def estimated(text: str, source: str, year: int) -> Provenance:
    """Derived, remembered or assumed: a parameter to be calibrated."""
    return Provenance(text, source, year, "estimated")
