"""`no PFC deadlock`: routes and priorities let no links wait for one another in a circle.

A link that is paused waits for the links by which the switch at its end sends on what arrives there. Traffic that
pauses has one priority (`LOSSLESS`), which no switch changes, so that links alone are the channels. If no chain of such
waits closes, nothing can deadlock: W. Dally and C. Seitz, "Deadlock-free message routing in multiprocessor
interconnection networks", IEEE Trans. Computers C-36(5), 1987; for adaptive choices among equal-cost links every choice
counts, which is sufficient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from railyard.ask.check.assertion import Outcome, assertions
from railyard.ask.check.waits import circle, waits
from railyard.cluster.names import link_name
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from railyard.ask.check.assertion import Subject

SHOWN = 4


@dataclass(frozen=True)
class NoDeadlock:
    """Pauses cannot deadlock."""

    forms: ClassVar[tuple[str, ...]] = ("no PFC deadlock",)

    @classmethod
    def read(cls, text: str) -> Self:
        """See `Assertion`."""
        if text.lower() != "no pfc deadlock":
            hint = did_you_mean(text, cls.forms)
            raise InputError(f"`{text}` is no assertion", found=text, allowed=f"`{cls.forms[0]}`", hint=hint)
        return cls()

    def check(self, subject: Subject) -> None:
        """See `Assertion`."""
        network = subject.cluster.back_end
        fabric, wiring = network.fabric, network.wiring
        if fabric.credit_buffer_bytes:
            raise InputError(
                f"the fabric `{fabric.name}` gives credits, whose virtual lanes no scenario describes",
                found=fabric.name,
            )
        if fabric.pauses and (wiring.detour is not None or wiring.routes_through_ports):
            message = f"`{network.topology}` sends traffic by ways that its tables of routes do not say"
            raise InputError(message, found=network.topology)

    def judge(self, subject: Subject) -> Outcome:
        """See `Assertion`."""
        network = subject.cluster.back_end
        if not network.fabric.pauses:
            return Outcome(f"`{network.fabric.name}` does not pause", holds=True)
        edges = waits(network.wiring)
        found = circle(edges)
        if not found:
            return Outcome(f"{edges.shape[1]:,} waits of links for links, none in a circle", holds=True)
        names = [link_name(subject.cluster, network.link_offset + link) for link in found[:SHOWN]]
        more = ", ..." if len(found) > SHOWN else ""
        return Outcome(f"{len(found)} links wait for one another in a circle: {', '.join(names)}{more}", holds=False)


assertions.add("no", NoDeadlock)
