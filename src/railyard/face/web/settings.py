"""Settings with which a server starts; wrong combinations are refused before anything listens."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LEAST_TOKEN = 24
"""Characters of a token: shorter ones can be guessed."""

LOCAL = "local"
"""Person who works on a server without tokens."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


@dataclass(frozen=True)
class WorkLimits:
    """Limits on one person's work.

    Attributes:
        runs: Runs at a time, of everybody.
        memory_bytes: Address space of a run's process.
        run_s: Seconds of a run, after which it is stopped.
        preview_s: Seconds that a check or an estimate may take.
        uploads: Files that one person has uploaded.
        queued: Jobs of one person that wait.
        writes_per_min: Requests of one person that change something, check or estimate.
    """

    runs: int = 1
    memory_bytes: int = 16 << 30
    run_s: float = 6 * 3600.0
    preview_s: float = 20.0
    body_bytes: int = 4 << 20
    upload_bytes: int = 256 << 20
    uploads_bytes: int = 4 << 30
    uploads: int = 2000
    archive_bytes: int = 4 << 30
    queued: int = 100
    writes_per_min: int = 600


@dataclass(frozen=True)
class ServerSettings:
    """Settings with which a server starts.

    Attributes:
        folder: Scenarios and runs; with tokens, a folder for each person is below it.
        host: Address that it listens at.
        port: TCP port.
        people: SHA-256 of the token of each person, in hexadecimal; empty where one person needs none.
        proxied: Whether a proxy in front encrypts.
        certificate: Certificate and key of TLS, as files.
        names: Further names under which browsers reach the server.
        pages: Whether the page is served too, not only the API.
        limits: Of what one person's work may take.
        ray: Address of a Ray cluster on which sweeps, plans and tunings run; None: this machine.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8421
    people: Mapping[str, str] = field(default_factory=dict)
    proxied: bool = False
    certificate: tuple[Path, Path] | None = None
    names: tuple[str, ...] = ()
    pages: bool = True
    limits: WorkLimits = field(default_factory=WorkLimits)
    ray: str | None = None

    @property
    def state(self) -> Path:
        """Folder of files that only the server reads."""
        return self.folder / ".railyard"

    def folder_of(self, person: str) -> Path:
        """The folder of a person: nobody else sees it."""
        return self.folder if not self.people else self.folder / "people" / person

    def person_of(self, token: str) -> str | None:
        """Person with a token; a wrong one takes as long."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        found = None
        for name, known in self.people.items():
            if hmac.compare_digest(digest, known):
                found = name
        return found


def checked(settings: ServerSettings) -> ServerSettings:
    """The settings, with their folder in place.

    Raises:
        InputError: The server could be reached from elsewhere without a token or without encryption.
    """
    if not is_loopback(settings.host):
        if not settings.people:
            raise InputError(
                f"`{settings.host}` can be reached from other machines without a token",
                key="host",
                found=settings.host,
                allowed="127.0.0.1, ::1, localhost without tokens",
                hint="give `--tokens FILE`, a line `name token` a person",
            )
        if settings.certificate is None and not settings.proxied:
            raise InputError(
                f"tokens would cross the network to `{settings.host}` unencrypted",
                key="host",
                found=settings.host,
                hint="give `--certificate FILE --key FILE`, or `--behind-proxy` where a proxy encrypts",
            )
    try:
        settings.state.mkdir(parents=True, exist_ok=True)
        for person in settings.people:
            settings.folder_of(person).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder cannot be written: {error.strerror}", file=settings.folder) from None
    if not os.access(settings.folder, os.W_OK):
        raise InputError("the folder cannot be written", file=settings.folder)
    return settings


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_tokens(path: Path) -> dict[str, str]:
    """SHA-256 of the token of each person, from a file with a line `name token` each.

    Raises:
        InputError: The file cannot be read, a line has another form, a name appears twice or a token is short.
    """
    people: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise InputError("expected `name token`", file=path, line=number)
        name, token = words
        if not _NAME.fullmatch(name):
            raise InputError(
                "this is not a valid name",
                file=path,
                line=number,
                found=name[:40],
                allowed="up to 32 of a-z, 0-9, `_` and `-`, a letter or digit first",
            )
        if name in people:
            raise InputError(f"`{name}` appears twice", file=path, line=number)
        if len(token) < LEAST_TOKEN:
            raise InputError(
                f"the token of `{name}` is too short",
                file=path,
                line=number,
                found=f"{len(token)} characters",
                allowed=f"at least {LEAST_TOKEN}",
                hint="`python -c 'import secrets; print(secrets.token_urlsafe(24))'` makes one",
            )
        people[name] = hashlib.sha256(token.encode()).hexdigest()
    if not people:
        raise InputError("the file has no tokens", file=path, allowed="a line `name token` a person")
    return people
