"""What a job does about limits of the network: sections made from the registries of its kinds."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, create_model

from railyard.work.scenario.section import Section, fields_given, section_of
from railyard.work.scenario.unions import tagged
from railyard.work.training.sync.spec import KINDS, Communication

_WORDS = {
    "compression": "Fewer bytes for a gradient.",
    "local_updates": "Replicas that step by themselves and meet every so many steps.",
    "asynchronous": "Gradients that are applied late.",
    "scheduling": "Order and pieces in which gradients are sent.",
    "sparse": "Rows of a table in place of all of it.",
    "dispatch": "Tokens on their way to experts in few bits.",
}


def _title(part: str, kind: str) -> str:
    words = f"{kind.replace('+', 'p')}-{part}".replace("_", "-").split("-")
    return "".join(word.capitalize() for word in words)


def one_of(part: str) -> Any:
    """A kind of a part: its name alone, or its name with keys."""
    sections = [section_of(record, _title(part, kind), tag=("kind", kind)) for kind, record in KINDS[part].items()]
    if len(sections) == 1:
        return Annotated[sections[0], tagged("kind")]
    return Annotated[functools.reduce(operator.or_, sections), Field(discriminator="kind"), tagged("kind")]


_FIELDS: dict[str, Any] = {part: (one_of(part) | None, Field(default=None, description=_WORDS[part])) for part in KINDS}

if TYPE_CHECKING:
    CommunicationSection = Section
else:
    CommunicationSection = create_model(
        "CommunicationSection",
        __base__=Section,
        __doc__="What the job does about limits of the network; published effects on convergence stand in the result.",
        **_FIELDS,
    )


def communication_of(section: Any) -> Communication | None:
    """The record of a section; None where nothing is asked."""
    if section is None:
        return None
    made: dict[str, Any] = {}
    for part in KINDS:
        written = getattr(section, part)
        if written is not None:
            record = KINDS[part].get(written.kind)
            made[part] = record(**fields_given(written, record))
    return Communication(**made) if made else None
