"""`railyard operate`: a scenario in time, and forecasts from recorded faults."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

from railyard.face.cli.terminal import Table, emit
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


PLAY = "scenario"
"""The command that a name of a file stands for."""


class Operating(TyperGroup):
    """Commands, or the name of a scenario in the place of one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What is no command is a scenario."""
        if args and args[0] not in self.commands:
            args = [PLAY, *args]
        return super().resolve_command(ctx, args)


def scenario(file: Path, *, sets: Sequence[str], varies: Sequence[str], out: Path, as_json: bool, quiet: bool) -> None:
    """Plays a scenario and prints its figures.

    Raises:
        InputError: The scenario or its trace is wrong, or asks for other work.
    """
    from railyard.face.cli import running, terminal

    kind = terminal.scenario(file, sets).kind
    if kind != "operate":
        hint = f"`railyard run {file}` runs it"
        raise InputError("the scenario is not of many jobs for months", key="workload", found=kind, hint=hint)
    running.run(file, sets=sets, varies=varies, engine=None, out=out, as_json=as_json, quiet=quiet)


def failures(fit: Path, *, servers: int, days: float, as_json: bool) -> None:
    """Forecasts faults from recorded ones.

    Raises:
        InputError: The file is wrong, or too short for a forecast.
    """
    from railyard.work.operate.failures import history
    from railyard.work.operate.failures.history import forecast

    found = forecast(history.read(fit, servers, days))
    if as_json:
        emit(json.dumps(found.plain()))
        return
    table = Table(("what the coming weeks bring", "low", "mean or p50", "high, p90 or p95"), (1, 2, 3))
    table.add("faults a week", f"{found.low:.1f}", f"{found.mean:.1f}", f"{found.high:.1f}")
    table.add("hours until a server is back", "", f"{found.repair_p50_h:.0f}", f"{found.repair_p90_h:.0f}")
    table.add("servers away at once", "", f"{found.out_mean:.1f}", f"{found.out_p95:.0f}")
    table.print()
