"""`railyard ui` and `railyard serve-api`: the page and its API until they are stopped."""

from __future__ import annotations

import os
import webbrowser
from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.face.cli.terminal import say
from railyard.face.web.settings import ServerSettings, read_tokens
from railyard.kit.errors import InputError
from railyard.kit.files import readable
from railyard.work.study.tasks import need

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
        InputError: A package is missing, options contradict each other, the port is taken, or no Ray cluster answers.
    """
    need("fastapi", "ui")
    if (certificate is None) != (key is None):
        raise InputError("a certificate and its key go together", key="certificate", hint="give both or none")
    if certificate is not None and key is not None:
        _check_pair(certificate, key)
    if not folder.is_dir():
        raise InputError("there is no such folder", file=folder)
    if ray is not None:
        from railyard.work.study.ray_workers import expect_answer

        need("ray", "ray")
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
