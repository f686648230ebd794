"""`railyard ui`: the page and its API until they are stopped."""

from __future__ import annotations

import os
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from railyard.face.terminal import Ray, say
from railyard.face.verb import verb
from railyard.kit.errors import InputError
from railyard.kit.files import readable

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Scenarios and runs.")]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; elsewhere than here: --tokens.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=1, max=65535, help="TCP port.")]
Tokens = Annotated[
    Path | None, typer.Option("--tokens", metavar="FILE", help="A line `name token` a person; each has a folder.")
]
Certificate = Annotated[Path | None, typer.Option("--certificate", metavar="FILE", help="TLS certificate (PEM).")]
CertificateKey = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Key of the certificate (PEM).")]
Proxied = Annotated[bool, typer.Option("--behind-proxy", help="A proxy in front encrypts.")]
Names = Annotated[
    list[str] | None, typer.Option("--name", metavar="HOST", help="Name that browsers use; may be repeated.")
]
AtOnce = Annotated[int, typer.Option("--runs", metavar="N", min=1, max=64, help="Runs at a time.")]
_MOST_PEM_BYTES = 1 << 20


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
            f"the certificate does not match the key {key}: {getattr(error, 'reason', None) or error.strerror}",
            file=certificate,
            allowed="PEM files, the key without a password",
        ) from None


@verb("ui", "Open the page in a browser, or serve its API.", example="railyard ui", group="build", order=48)
def ui(
    folder: Folder = Path(),
    *,
    host: Host = "127.0.0.1",
    port: Port = 8421,
    tokens: Tokens = None,
    certificate: Certificate = None,
    key: CertificateKey = None,
    proxied: Proxied = False,
    names: Names = None,
    runs: AtOnce = 1,
    ray: Ray = None,
    opened: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser where there is a screen.")] = True,
    alone: Annotated[bool, typer.Option("--api-only", help="Serve the API without the page.")] = False,
    processes: Annotated[
        int, typer.Option("--processes", metavar="N", min=1, max=64, help="That answer; one of them starts runs.")
    ] = 1,
) -> None:
    """Serve the page over a folder of scenarios and runs, the same files as the command line's.

    The API is described at /api/v1/openapi.json; with `--api-only` there is nothing else.

    Raises:
        InputError: A package is missing, options contradict each other, the port is taken, or no Ray cluster answers.
    """
    from railyard.face.web.settings import ServerSettings, read_tokens
    from railyard.work.study.tasks import need

    need("fastapi", "ui")
    if (certificate is None) != (key is None):
        raise InputError("a certificate and its key go together", key="certificate", hint="give both or none")
    if certificate is not None and key is not None:
        _check_pair(certificate, key)
    if not folder.is_dir():
        raise InputError("there is no such folder", file=folder)
    if ray is not None:
        from railyard.work.study.workers import expect_answer

        need("ray", "ray")
        expect_answer(ray)
    settings = ServerSettings(
        folder=folder.resolve(),
        host=host,
        port=port,
        people={} if tokens is None else read_tokens(tokens),
        proxied=proxied,
        certificate=None if certificate is None or key is None else (certificate, key),
        names=tuple(names or ()),
        pages=not alone,
        ray=ray,
    )
    settings = replace(settings, limits=replace(settings.limits, runs=runs))

    def announce(address: str) -> None:
        say(f"{'API' if alone else 'page'} of {settings.folder}: {address}{'api/v1/openapi.json' if alone else ''}")
        say("hint: Ctrl-C stops the server; unfinished runs continue when it starts again")
        if opened and not alone and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            webbrowser.open(address)

    from railyard.face.web import application

    application.serve(settings, processes=processes, announce=announce)
