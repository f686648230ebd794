"""Jobs and what became of them, in SQLite: what was accepted is there after every kill of server or worker.

The state of a job is asked for most often, and answered as bytes before any routing. An answer is made once for each
change of the jobs and sent as it is until the next; routes that describe these answers send the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from threading import RLock
from typing import TYPE_CHECKING, Any

from railyard.face.web.documents import ENDED, Health, NewJob, Outcome, QueuedJob, Template, TextFault
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from starlette.types import ASGIApp, Receive, Scope, Send

    from railyard.face.web.documents import State


MOST_ATTEMPTS = 2
"""A job whose process was killed from outside is begun again once: what kills it twice is probably the job."""

_TABLES = """
create table if not exists work (
  id text primary key, owner text not null, text text not null, about text not null, state text not null,
  created real not null, started real, ended real, stage text not null default '', share real not null default 0,
  outcome text, faults text not null default '[]', attempts integer not null default 0,
  stopping integer not null default 0, change integer not null
);
create index if not exists work_by_change on work (owner, change);
create index if not exists work_by_state on work (state, created);
create table if not exists cookies (
  digest text primary key, owner text not null, token text not null, until real not null
);
drop table if exists sessions;
"""

_COLUMNS = "id, owner, about, state, created, started, ended, stage, share, outcome, faults, change"


@dataclass(frozen=True)
class Taken:
    """A job that runs from now on.

    Attributes:
        owner: Who asked for it.
    """

    id: str
    owner: str
    request: NewJob


class JobJournal:
    """Jobs of everybody; may be used from several threads and processes.

    Args:
        path: The database; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._lock = RLock()
        self._database = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = normal")
        self._database.executescript(_TABLES)

    def close(self) -> None:
        """Ends its use."""
        with self._lock:
            self._database.close()

    @contextmanager
    def _changing(self) -> Iterator[int]:
        """Makes a change as a whole or not at all; gives its number."""
        with self._lock:
            self._database.execute("begin immediate")
            try:
                (last,) = self._database.execute("select coalesce(max(change), 0) from work").fetchone()
                yield last + 1
            except BaseException:
                self._database.execute("rollback")
                raise
            self._database.execute("commit")

    def _rows(self, where: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(f"select {_COLUMNS} from work {where}", values).fetchall()

    def add(self, owner: str, request: NewJob) -> QueuedJob:
        """A new job at the end of the queue."""
        name = uuid.uuid4().hex[:12]
        with self._changing() as change:
            self._database.execute(
                "insert into work (id, owner, text, about, state, created, change) values (?, ?, ?, ?, 'queued', ?, ?)",
                (name, owner, request.text, request.model_dump_json(exclude={"text"}), time.time(), change),
            )
        return self.job(owner, name)

    def job(self, owner: str, name: str) -> QueuedJob:
        """A job of that person.

        Raises:
            KeyError: That person has no such job.
        """
        rows = self._rows("where id = ? and owner = ?", (name, owner))
        if not rows:
            raise KeyError(name)
        return _job(rows[0])

    def jobs(self, owner: str, *, since: int = 0, most: int = 500) -> list[QueuedJob]:
        """The jobs of a person that changed after the change `since`, latest first."""
        rows = self._rows("where owner = ? and change > ? order by created desc, id limit ?", (owner, since, most))
        return [_job(row) for row in rows]

    def stamp(self) -> tuple[int, int]:
        """Another one whenever jobs may have changed, by whomever; cheaper than to look."""
        with self._lock:
            (others,) = self._database.execute("pragma data_version").fetchone()
            return int(others), self._database.total_changes

    def last_change(self) -> int:
        """Number of the last change of any job."""
        with self._lock:
            (last,) = self._database.execute("select coalesce(max(change), 0) from work").fetchone()
            return int(last)

    def count(self, state: State, owner: str | None = None) -> int:
        """Jobs in that state."""
        with self._lock:
            (found,) = self._database.execute(
                "select count(*) from work where state = ? and (? is null or owner = ?)", (state, owner, owner)
            ).fetchone()
            return int(found)

    def take(self) -> Taken | None:
        """The job that waited longest, running from now on."""
        with self._changing() as change:
            row = self._database.execute(
                "select id, owner, text, about from work where state = 'queued' order by created, id limit 1"
            ).fetchone()
            if row is None:
                return None
            self._database.execute(
                "update work set state = 'running', started = ?, stage = '', share = 0, attempts = attempts + 1,"
                " change = ? where id = ?",
                (time.time(), change, row[0]),
            )
        name, owner, text, about = row
        return Taken(name, owner, NewJob(text=text, **json.loads(about)))

    def progress(self, name: str, stage: str, share: float) -> None:
        """Records the progress of a running job."""
        with self._changing() as change:
            self._database.execute(
                "update work set stage = ?, share = ?, change = ? where id = ? and state = 'running'",
                (stage[:200], min(max(share, 0.0), 1.0), change, name),
            )

    def end(self, name: str, state: State, *, outcome: Outcome | None = None, faults: Sequence[TextFault] = ()) -> None:
        """Records the end of a running job."""
        listed = json.dumps([fault.model_dump(exclude_none=True) for fault in faults])
        given = None if outcome is None else outcome.model_dump_json()
        with self._changing() as change:
            self._database.execute(
                "update work set state = ?, ended = ?, outcome = ?, faults = ?,"
                " share = case when ? = 'done' then 1 else share end, change = ? where id = ? and state = 'running'",
                (state, time.time(), given, listed, state, change, name),
            )

    def killed(self, name: str, reason: str) -> None:
        """A job whose process was killed from outside: back into the queue, or failed if that happened before."""
        with self._changing() as change:
            row = self._database.execute("select attempts from work where id = ?", (name,)).fetchone()
            if row is not None and row[0] < MOST_ATTEMPTS:
                self._database.execute(
                    "update work set state = 'queued', started = null, stage = '', share = 0, change = ?"
                    " where id = ? and state = 'running'",
                    (change, name),
                )
                return
        self.end(name, "failed", faults=[TextFault(message=reason)])

    def stop(self, owner: str, name: str) -> QueuedJob:
        """Ends a job that waits, and has one that runs ended by whoever runs it.

        Raises:
            KeyError: That person has no such job.
        """
        job = self.job(owner, name)
        if job.state in ENDED:
            return job
        with self._changing() as change:
            self._database.execute(
                "update work set state = 'stopped', ended = ?, change = ? where id = ? and state = 'queued'",
                (time.time(), change, name),
            )
            self._database.execute("update work set stopping = 1 where id = ? and state = 'running'", (name,))
        return self.job(owner, name)

    def stopping(self) -> set[str]:
        """Running jobs that are to be ended."""
        with self._lock:
            rows = self._database.execute("select id from work where state = 'running' and stopping = 1").fetchall()
        return {row[0] for row in rows}

    def resume(self) -> int:
        """Puts jobs that a killed server left running back into the queue; their number."""
        with self._changing() as change:
            return self._database.execute(
                "update work set state = case when stopping = 1 then 'stopped' else 'queued' end, started = null,"
                " stage = '', share = 0, attempts = 0, change = ? where state = 'running'",
                (change,),
            ).rowcount

    def open_session(self, secret: str, owner: str, token: str, until: float) -> None:
        """Remembers whose cookie that is, and forgets expired ones.

        Args:
            secret: Of the cookie; its digest is kept.
            owner: Name of the user who logged in.
            token: SHA-256 of the token with which that was.
            until: Seconds since 1970.
        """
        with self._lock:
            self._database.execute("delete from cookies where until < ?", (time.time(),))
            self._database.execute("insert into cookies values (?, ?, ?, ?)", (_digest(secret), owner, token, until))

    def close_session(self, secret: str) -> None:
        """Forgets a cookie."""
        with self._lock:
            self._database.execute("delete from cookies where digest = ?", (_digest(secret),))

    def owner_of(self, secret: str, tokens: Mapping[str, str]) -> str | None:
        """Owner of a cookie; nobody if its token is no longer one of that person.

        Args:
            secret: Of the cookie.
            tokens: SHA-256 of the token of each person.
        """
        with self._lock:
            row = self._database.execute(
                "select owner, token from cookies where digest = ? and until > ?", (_digest(secret), time.time())
            ).fetchone()
        return str(row[0]) if row is not None and tokens.get(row[0]) == row[1] else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _job(row: tuple[Any, ...]) -> QueuedJob:
    name, _owner, about, state, created, started, ended, stage, share, outcome, faults, change = row
    return QueuedJob(
        **json.loads(about),
        id=name,
        state=state,
        created=created,
        started=started,
        ended=ended,
        stage=stage,
        share=share,
        eta_s=_to_go_s(started, share) if state == "running" else None,
        outcome=None if outcome is None else Outcome.model_validate_json(outcome),
        faults=[TextFault(**fault) for fault in json.loads(faults)],
        change=change,
    )


def _to_go_s(started: float | None, share: float) -> float | None:
    """Seconds to go if the rest goes as fast as what is done; None before that says anything."""
    if started is None or share < 0.02:
        return None
    return (time.time() - started) * (1.0 - share) / share


_ABOUT = (
    ("fabrics", "Which fabric? Six fabrics for one training job, with their prices."),
    ("layout", "Which layout? Every layout of a training job that fits, the best ones simulated."),
    ("oversubscription", "How many uplinks does this job pay for?"),
    ("serving", "A model that answers requests: latency, goodput, cost of a million tokens."),
)


@cache
def templates() -> list[Template]:
    """Scenarios to start from, with their text."""
    commented = files("railyard.work.scenario").joinpath("template.yaml").read_text(encoding="utf-8")
    return [
        *(Template(name=name, about=about, text=_text(name)) for name, about in _ABOUT),
        Template(name="commented", about="Every part of a scenario, explained where it stands.", text=commented),
    ]


def _text(name: str) -> str:
    return files("railyard.face.web").joinpath("starters", f"{name}.yaml").read_text(encoding="utf-8")


HEALTH = "/api/v1/health"
JOB = "/api/v1/jobs/"

_FRESH_S = 0.5
"""How long an answer may be sent without a change: the time to go is a guess from the clock."""
_MOST = 4096
"""Maximum number of cached answers; beyond that all are recomputed."""


class Status:
    """Answers by the number of the last change."""

    def __init__(self, journal: JobJournal) -> None:
        self._journal = journal
        self._kept: dict[tuple[str, str], bytes] = {}
        self._stamp, self._until = (-1, -1), 0.0

    def health(self) -> bytes:
        """A `Health`."""
        return self._answer(("", ""), self._health)

    def job(self, owner: str, name: str) -> bytes:
        """A `QueuedJob`.

        Raises:
            KeyError: That person has no such job.
        """
        return self._answer((owner, name), lambda: self._journal.job(owner, name).model_dump_json())

    def _health(self) -> str:
        counts = {state: self._journal.count(state) for state in ("running", "queued")}
        return Health(version=version(), running=counts["running"], queued=counts["queued"]).model_dump_json()

    def _answer(self, key: tuple[str, str], make: Callable[[], str]) -> bytes:
        now, stamp = time.monotonic(), self._journal.stamp()
        if stamp != self._stamp or now >= self._until or len(self._kept) >= _MOST:
            self._kept.clear()
            self._stamp, self._until = stamp, now + _FRESH_S
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make().encode()
        return found


class StatusFirst:
    """ASGI middleware that answers for `Status` and passes on what it has no answer to.

    Args:
        app: What answers everything else.
        status: Knows where jobs stand.
    """

    def __init__(self, app: ASGIApp, status: Status) -> None:
        self.app = app
        self.status = status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        body = self._body(scope) if scope["type"] == "http" and scope["method"] == "GET" else None
        if body is None:
            await self.app(scope, receive, send)
            return
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _body(self, scope: Scope) -> bytes | None:
        path = scope["path"]
        if path == HEALTH:
            return self.status.health()
        if not path.startswith(JOB):
            return None
        try:
            return self.status.job(scope["state"]["person"], path[len(JOB) :])
        except KeyError:
            return None
