"""`railyard completion`: what a shell needs to complete commands, options and names of the catalogue."""

from __future__ import annotations

from typer import completion

from railyard.face.cli.tables import emit
from railyard.kit.errors import InputError, did_you_mean

COMPLETING = "_RAILYARD_COMPLETE"
"""Set by the script of a shell while it asks for what may follow."""

SHELLS = ("bash", "zsh", "fish", "powershell")


def script(shell: str) -> None:
    """Prints the script for a shell.

    Raises:
        InputError: There is none for it.
    """
    if shell not in SHELLS:
        raise InputError(
            "there is no completion for this shell", found=shell, allowed=SHELLS, hint=did_you_mean(shell, SHELLS)
        )
    emit(completion.get_completion_script(prog_name="railyard", complete_var=COMPLETING, shell=shell))


def prepare() -> None:
    """Lets the command line answer a shell that asks."""
    completion.completion_init()


def entries(incomplete: str) -> list[str]:
    """Names of the catalogue that begin so."""
    from railyard import catalog

    shelf = catalog.load(None)
    return sorted({name for kind in catalog.KINDS for name in shelf.names(kind) if name.startswith(incomplete)})
