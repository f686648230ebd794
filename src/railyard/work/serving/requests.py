"""The requests of a scenario: a trace or drawn ones, cut and brought to the load that is asked for.

Synthetic requests: arrivals, lengths, classes, and conversations whose prompts grow by what was said before.

A conversation starts with one of a few system prompts; the prompt of each turn is the system prompt, all that was said
before, and what is new:

    input_t = system + sum of new_1..new_t + sum of output_1..output_(t-1)

so that each turn shares all of its predecessor's whole blocks but the last, and all conversations of a system prompt
share its blocks. The next turn comes when the answer has been given (at an assumed pace, for the generator does not
know the deployment) and the user has thought. Conversations start at rate / mean turns. Those that a request is drawn
from began before it, as in a service that is up: what they sent before the first request is left out, so that the rate
is the one asked for from the beginning, and the prompts of the first minutes are as long as later ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.request_table import MOST_TOKENS, NO_SESSION, PS_PER_S, RequestTable, joined
from railyard.kit.errors import InputError
from railyard.kit.quantities import ranges
from railyard.work.scenario.load import blaming
from railyard.work.serving.arrivals import (
    ArrivalClock,
    Arrivals,
    FixedLength,
    Kind,
    LengthLaw,
    LogNormal,
    Pairs,
    block_hashes,
    generator,
)
from railyard.work.serving.summary import scaled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.work.scenario.load import Draft
    from railyard.work.serving.section import LengthsSection, RequestsSection, SyntheticSection


CHAT_INPUT = LogNormal(mean=1155, value=4142, percent=99, most=131_072)
CHAT_OUTPUT = LogNormal(mean=211, value=424, percent=90, most=16_384)
"""Means of Azure's conversation trace of November 2023 with the 99th percentile of its prompts, 90th of its answers."""


_MOST_BARREN = 10_000
_WARM = 7.0
"""Mean ends of a conversation that pass before the first request: the rate then lacks e^-7, a thousandth."""
_SAMPLE = 1024
_FEWEST = 1024
"""Turns of conversations that are made at a time at least: of the last few requests hardly any is ready at once."""


@dataclass(frozen=True)
class RequestClass:
    """One kind of requests.

    Attributes:
        share: Of requests, or of conversations where there are any; shares need not add up to 1.
        input_tokens: Prompts, or what is new in a turn; a number is a fixed length.
        pairs: Both together, in place of the two.
    """

    name: str = "request"
    share: float = 1.0
    input_tokens: LengthLaw | int = CHAT_INPUT
    output_tokens: LengthLaw | int = CHAT_OUTPUT
    pairs: Pairs | None = None

    def draw(self, random: Sequence[np.random.Generator], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`count` prompts and answers."""
        if self.pairs is not None:
            return self.pairs.draw(random[0], count)
        return _law(self.input_tokens).draw(random[0], count), _law(self.output_tokens).draw(random[1], count)


@dataclass(frozen=True)
class Sessions:
    """Conversations of several turns.

    Attributes:
        turns: Mean number; geometric, 1 for single requests.
        think_s: Mean time a user thinks; exponential.
        answer_s_per_token: Assumed pace of answers, for the time of the next turn.
        system_prompts: Number of different ones, each as likely as another.
        block_tokens: Tokens of a hashed block; whole blocks have hashes.
        most_input_tokens: A conversation ends before a prompt would be longer.
    """

    turns: float = 3.0
    think_s: float = 30.0
    answer_s_per_token: float = 0.02
    system_tokens: int = 0
    system_prompts: int = 1
    block_tokens: int = 16
    most_input_tokens: int = 131_072

    def __post_init__(self) -> None:
        for name, low, high in (
            ("turns", 1, 1000),
            ("think_s", 0, 1e6),
            ("answer_s_per_token", 0, 100),
            ("system_tokens", 0, 10**7),
            ("system_prompts", 1, 2**31),
            ("block_tokens", 1, 10**6),
            ("most_input_tokens", self.system_tokens + 1, MOST_TOKENS),
        ):
            if not low <= getattr(self, name) <= high:
                raise InputError(
                    "this is out of range", key=name, found=getattr(self, name), allowed=f"{low} to {high}"
                )


def synthetic(
    count: int,
    *,
    rate_per_s: float,
    kind: Kind = "poisson",
    input_tokens: LengthLaw | int = CHAT_INPUT,
    output_tokens: LengthLaw | int = CHAT_OUTPUT,
    pairs: Pairs | None = None,
    classes: Sequence[RequestClass] = (),
    sessions: Sessions | None = None,
    seed: int = 0,
    **process: float,
) -> RequestTable:
    """Requests by a law.

    Args:
        count: How many.
        rate_per_s: Mean arrivals a second, of all turns of all conversations.
        kind: Process of arrivals, see `railyard.work.serving.arrivals`.
        input_tokens: Lengths of prompts (of what is new in a turn); a number is a fixed length.
        output_tokens: Lengths of answers.
        pairs: Both together, as a trace has them.
        classes: Several kinds of requests, each with lengths of its own, in place of the three above.
        sessions: Conversations; without them every request stands alone and shares nothing.
        seed: Decides every draw.
        process: Further parameters of the process: `cv`, `period_s`, `swing`, `on_s`, `off_s`.

    Raises:
        InputError: A parameter is out of range, or the requests would span more than 106 days.
    """
    kinds = tuple(classes) or (RequestClass("request", 1.0, input_tokens, output_tokens, pairs),)
    parts = list(stream_synthetic(count, Arrivals(rate_per_s, kind, **process), kinds, sessions=sessions, seed=seed))
    return joined(parts)


def stream_synthetic(
    count: int,
    arrivals: Arrivals,
    classes: Sequence[RequestClass] = (RequestClass(),),
    *,
    sessions: Sessions | None = None,
    seed: int = 0,
    chunk: int = 65_536,
) -> Iterator[RequestTable]:
    """The same requests in pieces; they do not depend on the size of the pieces.

    Raises:
        InputError: A parameter is out of range.
    """
    if count < 1 or chunk < 1:
        raise InputError(
            "at least one request is needed, in pieces of at least one", found=f"{count} in pieces of {chunk}"
        )
    maker = _Maker(arrivals, tuple(classes), sessions, seed)
    made = 0
    while made < count:
        left = count - made
        piece = maker.conversations(min(chunk, max(left, _FEWEST))) if sessions else maker.single(min(chunk, left))
        piece = piece.head(count - made) if len(piece) > count - made else piece
        made += len(piece)
        if len(piece):
            yield piece


@dataclass
class _Maker:
    arrivals: Arrivals
    classes: tuple[RequestClass, ...]
    sessions: Sessions | None
    seed: int
    started: int = 0
    barren: int = 0
    pending: list[NDArray[np.int64]] = field(default_factory=lambda: [np.zeros(0, np.int64)] * 5)

    def __post_init__(self) -> None:
        shares = np.array([one.share for one in self.classes], float)
        if not len(shares) or not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
            raise InputError("classes need shares of 0 or more, one of them more", key="share", found=shares.tolist())
        if len({one.name for one in self.classes}) < len(shares):
            raise InputError("two classes have the same name", key="name", found=[one.name for one in self.classes])
        self.bounds = np.cumsum(shares)[:-1] / shares.sum()
        turns = self.sessions.turns if self.sessions else 1.0
        process = {name: getattr(self.arrivals, name) for name in ("kind", "cv", "period_s", "swing", "on_s", "off_s")}
        self.clock = ArrivalClock(Arrivals(self.arrivals.rate_per_s / turns, **process), self.seed)
        self.origin = self._origin()
        self.choice, self.turns, self.thinking, self.prompts = (generator(self.seed, n) for n in (2, 3, 4, 5))
        self.lengths = [
            (generator(self.seed, 16 + 2 * n), generator(self.seed, 17 + 2 * n)) for n in range(len(self.classes))
        ]

    def _origin(self) -> int:
        """Time of the first request in ps after the first conversation: when as many are under way as always."""
        plan = self.sessions
        if plan is None or plan.turns <= 1:
            return 0
        shares = np.diff(self.bounds, prepend=0.0, append=1.0)
        random = generator(self.seed, 6), generator(self.seed, 7)
        answers = sum(
            share * one.draw(random, _SAMPLE)[1].mean() for share, one in zip(shares, self.classes, strict=True)
        )
        gap_s = plan.think_s + float(answers) * plan.answer_s_per_token
        return round(_WARM * plan.turns * gap_s * PS_PER_S)

    def single(self, count: int) -> RequestTable:
        """The next requests that stand alone."""
        arrival = self.clock.next(count)
        kind = np.searchsorted(self.bounds, self.choice.random(count), side="right")
        new, answer = self._drawn(kind)
        return self._requests(arrival, new, answer, kind=kind.astype(np.int16))

    def conversations(self, chunk: int) -> RequestTable:
        """Starts further conversations and gives the turns that none of a later one can precede."""
        plan = self.sessions or Sessions()
        starts = self.clock.next(max(1, math.ceil(chunk / plan.turns))) - self.origin
        turns = self.turns.geometric(1 / plan.turns, len(starts))
        session = np.repeat(np.arange(self.started, self.started + len(starts)), turns)
        system = (self.prompts.random(len(starts)) * plan.system_prompts).astype(np.int64)
        kind = np.repeat(np.searchsorted(self.bounds, self.choice.random(len(starts)), side="right"), turns)
        new, answer = self._drawn(kind)
        first = np.repeat(np.cumsum(turns) - turns, turns)
        prompt = plan.system_tokens + _since(new, first) + _since(answer, first) - answer
        wait = np.rint(self.thinking.standard_exponential(len(new)) * plan.think_s * PS_PER_S).astype(np.int64)
        gap = wait + answer * round(plan.answer_s_per_token * PS_PER_S)
        arrival = np.repeat(starts, turns) + _since(gap, first) - gap
        rows = [arrival, prompt, answer, session, np.repeat(system, turns) * len(self.classes) + kind]
        fits = prompt <= plan.most_input_tokens
        self.started += len(starts)
        self.barren = 0 if fits.any() else self.barren + len(starts)
        fits &= arrival >= 0
        if self.barren > _MOST_BARREN:
            raise InputError("no prompt is as short as this", key="most_input_tokens", found=plan.most_input_tokens)
        return self._ready([column[fits] for column in rows], int(starts[-1]), plan)

    def _ready(self, rows: list[NDArray[np.int64]], frontier: int, plan: Sessions) -> RequestTable:
        together = [np.concatenate(pair) for pair in zip(self.pending, rows, strict=True)]
        order = np.argsort(together[0], kind="stable")
        ready = int(np.searchsorted(together[0][order], frontier, side="left"))
        self.pending = [column[order[ready:]] for column in together]
        arrival, prompt, answer, session, mark = (column[order[:ready]] for column in together)
        system, kind = np.divmod(mark, len(self.classes))
        blocks = prompt // plan.block_tokens
        place = ranges(0, blocks)
        shared = (place + 1) * plan.block_tokens <= plan.system_tokens
        # System prompts and conversations are told apart by sign: owners below zero are system prompts.
        owner = np.where(shared, -1 - np.repeat(system, blocks), np.repeat(session, blocks))
        return self._requests(
            arrival,
            prompt,
            answer,
            kind=kind.astype(np.int16),
            session=session,
            block_ptr=np.concatenate(([0], np.cumsum(blocks))),
            block_hash=block_hashes(owner, place),
            block_tokens=plan.block_tokens,
        )

    def _drawn(self, kind: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        new, answer = np.zeros(len(kind), np.int64), np.zeros(len(kind), np.int64)
        for number, (one, random) in enumerate(zip(self.classes, self.lengths, strict=True)):
            of_class = kind == number
            new[of_class], answer[of_class] = one.draw(random, int(of_class.sum()))
        return new, answer

    def _requests(
        self, arrival: NDArray[np.int64], prompt: NDArray[np.int64], answer: NDArray[np.int64], **others: Any
    ) -> RequestTable:
        others.setdefault("session", np.full(len(arrival), NO_SESSION))
        return RequestTable(
            arrival,
            prompt.astype(np.int32),
            answer.astype(np.int32),
            kinds=tuple(one.name for one in self.classes),
            source=f"synthetic {self.arrivals.kind}, {self.arrivals.rate_per_s:g} a second, seed {self.seed}",
            **others,
        )


def _since(values: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Running sums that restart at row `first[i]` of each group."""
    sums = np.cumsum(values)
    return sums - (sums - values)[first]


def _law(length: LengthLaw | int) -> LengthLaw:
    return FixedLength(length) if isinstance(length, int) else length


def requests_of(draft: Draft) -> RequestTable:
    """What a scenario asks, and when.

    Raises:
        InputError: The trace cannot be read (its own line is named), or the load cannot be reached.
    """
    work = draft.scenario.work(draft.kind)
    section: RequestsSection = work.requests
    with blaming(draft, "workload", draft.kind, "requests"):
        found = _drawn(section.synthetic, draft.scenario.seed) if section.synthetic else _read(draft, section)
        if section.first is not None:
            found = found.head(section.first)
        if len(found) < 1:
            raise InputError("there are no requests")
        if section.users:
            work.check_users(section.users)
            at_once = np.zeros_like(found.arrival_ps)
            return replace(found, arrival_ps=at_once, source=f"synthetic, {section.users} users")
        drawn, law = found.rate_per_s, section.synthetic and section.synthetic.rate
        # A draw comes out faster or slower than its law; at another rate by as much, so that runs agree.
        part = section.load if section.rate is None else law and section.rate / law
        rate = part * drawn if part else section.rate or 0.0
        return found if rate == drawn else scaled(found, rate=rate, how=section.scale, seed=draft.scenario.seed)


def _read(draft: Draft, section: RequestsSection) -> RequestTable:
    from railyard.work.serving.traces import read_trace

    path = draft.folder / str(section.trace)
    if not path.is_file():
        raise InputError("there is no such trace file", key="trace", found=section.trace)
    return read_trace(path, section.format, sort=section.sort, empty="drop" if section.drop_empty else "refuse")


def _drawn(section: SyntheticSection, seed: int) -> RequestTable:
    talks = section.turns > 1 or section.system > 0
    process: dict[str, Any] = {} if section.cv is None else {"cv": section.cv}
    with_sessions = Sessions(
        turns=section.turns,
        think_s=30.0 if section.think is None else section.think,
        system_tokens=section.system,
        system_prompts=section.system_prompts,
    )
    return synthetic(
        section.count,
        rate_per_s=section.rate or 1.0,
        kind=section.arrivals,
        input_tokens=_lengths(section.input),
        output_tokens=_lengths(section.output),
        sessions=with_sessions if talks else None,
        seed=seed,
        **process,
    )


def _lengths(section: LengthsSection) -> LengthLaw | int:
    return max(round(section.mean), 1) if section.p99 is None else LogNormal(section.mean, section.p99)
