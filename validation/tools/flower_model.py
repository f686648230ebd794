"""What a round of Flower takes: polls and looks by the clock, whose phases go on from stage to stage, round to round.

A client asks, sleeps 3 s where there is nothing, and asks again; after a reply it asks at once. The driver pushes the
questions of a stage, looks, sleeps 3 s, looks again, until all have answered (`flwr` 1.10: client/app.py,
server/driver/grpc_driver.py). So a stage in which clients only answer takes 3 s, or 6 s where the last reply misses the
look by a moment. Whether it does follows from phases: who answered just before the last look asks just before the next.

Every 20 s or so a client says that it is there, over the connection that carries its update: behind an update that
takes longer than the call may, it does not get through, and 30 s after the last time the server puts an error in its
place.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

POLL_S = 3.0
NOTICED_S, PINGS_S = 30.0, (17.5, 22.5)
"""So long after its last ping a client is gone, and the server gets an error in its place; what is between two pings
(`flwr` 1.10, common/constant.py: 0.8 +- 0.1 of the interval less a call's timeout)."""
PING_CALL_S = 5.0
DRAWS = 400


@dataclass(frozen=True)
class Hosts:
    """Processor seconds of Flower by itself, measured in a job of a few clients; a number a stage.

    Attributes:
        client_s: Of a client for a message: poll, loading the app, masks, reply.
        pull_s: Of the driver for each reply that it pulls.
        ask_s: Of the driver for each client before the questions of a stage are out.
        link_s: Of the server between them, for a message.
    """

    client_s: tuple[float, ...]
    pull_s: tuple[float, ...]
    ask_s: tuple[float, ...]
    link_s: tuple[float, ...]


class Work(NamedTuple):
    """Of each client, between question and reply of the stage with the model; float64[clients], seconds.

    Attributes:
        before_s: Download and local work.
        upload_s: Of the update.
    """

    before_s: np.ndarray
    upload_s: np.ndarray


@dataclass
class Standing:
    """Where a job stands between two stages.

    Attributes:
        now: Of the driver.
        asks: float64[clients], when each asks next.
        here: bool[clients], who is asked in this round.
    """

    now: float
    asks: np.ndarray
    here: np.ndarray


def rounds_s(
    work: Work, hosts: Hosts, rounds: int, *, apart_s: float, gone: tuple[np.ndarray, int] | None = None
) -> np.ndarray:
    """float64[draws, rounds], what each round takes over the phases in which a job may begin.

    Args:
        work: In the stage with the model.
        hosts: What processors take, by stage: 4 in a round with SecAgg+, of which the third has the model; else 1.
        rounds: Of the job.
        apart_s: Between the starts of two clients, which give their phases.
        gone: bool[clients], who leaves, and in which round: when it has the model. None: nobody does.
    """
    random, count, stages = np.random.default_rng(1), len(work.before_s), len(hosts.client_s)
    found = np.zeros((DRAWS, rounds))
    for draw in range(DRAWS):
        phases = (np.arange(count) * apart_s + random.uniform(0.0, POLL_S)) % POLL_S
        standing, left = Standing(0.0, phases, np.ones(count, bool)), np.zeros(count, bool)
        for number in range(rounds):
            begun = standing.now
            standing.here = ~left
            if gone is not None and number == gone[1]:
                left = gone[0]
            for stage in range(stages):
                mine = work if stage == stages // 2 else None
                _stage(standing, (mine, left), hosts, stage, random)
            found[draw, number] = standing.now - begun
    return found


def _stage(
    standing: Standing, does: tuple[Work | None, np.ndarray], hosts: Hosts, stage: int, random: np.random.Generator
) -> None:
    """A question to all who are here, and their replies, or errors in their place; `does` has who has left."""
    work, left = does
    here = np.flatnonzero(standing.here)
    cores = float(os.cpu_count() or 1)
    standing.now += hosts.ask_s[stage] * len(here)
    asks = standing.asks[here]
    asks = asks + np.ceil(np.maximum(standing.now - asks, 0.0) / POLL_S) * POLL_S
    # Messages queue for the processors in the order in which they are asked for, and in which their work ends.
    each = (hosts.client_s[stage] + hosts.link_s[stage]) / 2.0
    began = _queued(asks, each / cores) + each
    free = began if work is None else began + work.before_s[here] + work.upload_s[here]
    free = _queued(free, each / cores) + each
    done = free if work is None else _noticed((began, free), Work(*(of[here] for of in work)), left[here], random)
    look, pulled = standing.now, 0
    while True:
        there = int((done <= look).sum())
        look += (there - pulled) * hosts.pull_s[stage]
        pulled = there
        if pulled == len(here):
            break
        look += POLL_S
    standing.asks[here] = free + POLL_S
    standing.here[here[done < free]] = False
    standing.now = look


def _noticed(
    between: tuple[np.ndarray, np.ndarray], work: Work, left: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """When the server has each one's reply, or an error: of who left, and of whose pings wait behind the update."""
    began, free = between
    pinged = random.uniform(0.0, random.uniform(*PINGS_S, len(began)))  # before its upload began, or it left
    starved = work.upload_s - PING_CALL_S > NOTICED_S - pinged
    done = np.where(starved, np.minimum(began + work.before_s - pinged + NOTICED_S, free), free)
    return np.where(left, began + NOTICED_S - pinged, done)


def _queued(at_s: np.ndarray, each_s: float) -> np.ndarray:
    """When requests that come at times begin to be served one after the other."""
    order = np.argsort(at_s, kind="stable")
    waits = np.arange(len(at_s)) * each_s
    found = np.empty_like(at_s)
    found[order] = np.maximum.accumulate(at_s[order] - waits) + waits
    return found
