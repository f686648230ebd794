"""`railyard operate`: a scenario in time, and forecasts from recorded faults."""

from __future__ import annotations

import json
import os
import webbrowser
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

from railyard.face.cli.terminal import Table, emit, say
from railyard.face.web.settings import ServerSettings, read_tokens
from railyard.kit.errors import InputError
from railyard.kit.files import readable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


_MOST_PEM_BYTES = 1 << 20


def serve(
    folder: Path,
    *,
    host: str,
    port: int,
    tokens: Path | None,
    certificate: Path | None,
    key: Path | None,
    proxied: bool,
    names: Sequence[str],
    runs: int,
    ray: str | None,
    processes: int,
    pages: bool,
    opened: bool,
) -> None:
    """Serves the page and the API, or the API alone, until it is stopped.

    Raises:
        InputError: The options contradict each other, the port is taken, or no Ray cluster answers.
    """
    if (certificate is None) != (key is None):
        raise InputError("a certificate and its key go together", key="certificate", hint="give both or none")
    if certificate is not None and key is not None:
        _check_pair(certificate, key)
    if not folder.is_dir():
        raise InputError("there is no such folder", file=folder)
    if ray is not None:
        from railyard.work.study.ray_workers import expect_answer
        from railyard.work.study.tasks import need

        need("ray", "distributed")
        expect_answer(ray)
    settings = ServerSettings(
        folder=folder.resolve(),
        host=host,
        port=port,
        people={} if tokens is None else read_tokens(tokens),
        proxied=proxied,
        certificate=None if certificate is None or key is None else (certificate, key),
        names=tuple(names),
        pages=pages,
        ray=ray,
    )
    settings = replace(settings, limits=replace(settings.limits, runs=runs))

    def announce(address: str) -> None:
        say(f"{'page' if pages else 'API'} of {settings.folder}: {address}{'' if pages else 'api/v1/openapi.json'}")
        say("hint: Ctrl-C ends it; runs that wait or were running go on when it starts again")
        if opened and pages and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            webbrowser.open(address)

    from railyard.face.web import serving

    serving.serve(settings, processes=processes, announce=announce)


def _check_pair(certificate: Path, key: Path) -> None:
    """Refuses a certificate and a key that no server could use.

    Raises:
        InputError: One of them is no PEM file, or the key is of another certificate or has a password.
    """
    import ssl

    for file in (certificate, key):
        readable(file, _MOST_PEM_BYTES)
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, lambda: "")
    except (ssl.SSLError, OSError) as error:
        raise InputError(
            f"this is no certificate whose key is {key}: {getattr(error, 'reason', None) or error.strerror}",
            file=certificate,
            allowed="PEM files, the key without a password",
        ) from None


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
