"""Commands that serve the page and its API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.cli.completion import Ray
from railyard.face.cli.installed import app

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Scenarios and runs.")]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; elsewhere than here: --tokens.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=1, max=65535, help="TCP port.")]
Tokens = Annotated[
    Path | None, typer.Option("--tokens", metavar="FILE", help="A line `name token` a person; each has a folder.")
]
Certificate = Annotated[Path | None, typer.Option("--certificate", metavar="FILE", help="TLS certificate (PEM).")]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Key of the certificate (PEM).")]
Proxied = Annotated[bool, typer.Option("--behind-proxy", help="A proxy in front encrypts.")]
Names = Annotated[
    list[str] | None, typer.Option("--name", metavar="HOST", help="Name that browsers use; may be repeated.")
]
AtOnce = Annotated[int, typer.Option("--runs", metavar="N", min=1, max=64, help="Runs at a time.")]


@app.command(short_help="The page: write, check, run and compare scenarios in a browser.")
def ui(
    folder: Folder = Path(),
    *,
    host: Host = "127.0.0.1",
    port: Port = 8421,
    tokens: Tokens = None,
    certificate: Certificate = None,
    key: Key = None,
    proxied: Proxied = False,
    names: Names = None,
    runs: AtOnce = 1,
    ray: Ray = None,
    opened: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser where there is a screen.")] = True,
) -> None:
    """Serve the page over a folder of scenarios and runs, the same files as the command line's."""
    from railyard.face.cli import serve

    serve.serve(
        folder,
        host=host,
        port=port,
        tokens=tokens,
        certificate=certificate,
        key=key,
        proxied=proxied,
        names=names or (),
        runs=runs,
        ray=ray,
        processes=1,
        pages=True,
        opened=opened,
    )


@app.command("serve-api", short_help="The API of the page, for programs and behind a proxy.")
def serve_api(
    folder: Folder = Path(),
    *,
    host: Host = "127.0.0.1",
    port: Port = 8421,
    tokens: Tokens = None,
    certificate: Certificate = None,
    key: Key = None,
    proxied: Proxied = False,
    names: Names = None,
    runs: AtOnce = 1,
    ray: Ray = None,
    processes: Annotated[
        int, typer.Option("--processes", metavar="N", min=1, max=64, help="That answer; one of them starts runs.")
    ] = 1,
) -> None:
    """Serve the API over a folder of scenarios and runs; its description is at /api/v1/openapi.json."""
    from railyard.face.cli import serve

    serve.serve(
        folder,
        host=host,
        port=port,
        tokens=tokens,
        certificate=certificate,
        key=key,
        proxied=proxied,
        names=names or (),
        runs=runs,
        ray=ray,
        processes=processes,
        pages=False,
        opened=False,
    )
