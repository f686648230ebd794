"""Which engines may be asked for where requests are served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.work.scenario.load import Draft

ENGINE = "serving"
_USUAL = ("flow", ENGINE)


def check_engine(draft: Draft, engine: str | None) -> None:
    """Refuses engines of training steps.

    Raises:
        InputError: It is one of them.
    """
    name = engine or draft.scenario.engine
    if name not in _USUAL:
        error = InputError(
            "requests are served by the serving engine, which shares links as `flow` does",
            key="engine",
            found=name,
            hint="leave `engine` out",
        )
        raise error.located(file=f"--engine {name}") if engine else draft.blame(error)
