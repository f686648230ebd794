"""The command line with all its commands."""

from __future__ import annotations

from typing import Any

import typer

from railyard.face.cli import verbs
from railyard.face.cli.roots import app, calibration, catalog, operating, planning

__all__ = ["app", "calibration", "catalog", "command", "operating", "planning"]

verbs.load()


def command() -> Any:
    """The whole command line as one command."""
    return typer.main.get_command(app)
