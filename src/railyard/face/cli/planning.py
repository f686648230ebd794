"""The group `railyard plan`, by itself: the command line is built without what plans need."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from railyard.face.cli import signals

DESIGNS = "designs"
"""The command that a name of a file stands for."""


class Planning(TyperGroup):
    """Commands, or the name of a plan in the place of one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What is no command is a plan, which says itself when it is ready to be stopped."""
        if args and args[0] not in self.commands:
            args = [DESIGNS, *args]
        if args and args[0] != DESIGNS:
            signals.ready()
        return super().resolve_command(ctx, args)
