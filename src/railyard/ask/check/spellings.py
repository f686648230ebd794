"""Assertions as people write them, in the words that the kinds read: `survives any 1 spine`, `p99 step < 200us`.

Only what has one meaning is rewritten; all else goes on as it is, and is refused with the nearest right spelling.
"""

from __future__ import annotations

import re

from railyard.ask.check.figures import FIGURES

SIGNS = {
    "less than or equal to": "<=",
    "greater than or equal to": ">=",
    "more than": ">",
    "greater than": ">",
    "less than": "<",
    "at most": "<=",
    "at least": ">=",
    "below": "<",
    "under": "<",
    "above": ">",
    "over": ">",
    "≤": "<=",
    "≥": ">=",
    "=<": "<=",
    "=>": ">=",
}
"""Comparisons in words; longer ones first."""

_ONE = r"(?:any |the |a |an )*(?:one|1|single)?"
_LOST = r"(?:survives?|tolerates?|withstands?)(?: the)?(?: loss(?: of)?| failure(?: of)?| losing)?"
_SURVIVES = re.compile(
    rf"{_LOST} {_ONE} ?([a-z][\w-]*?)(?: (?:failure|failing|loss|down|lost|outage))?( with step < ?.+)?",
    re.IGNORECASE,
)
_ALONE = re.compile(r"no single (?:point of failure|points of failure)|no spof", re.IGNORECASE)
_DEADLOCK = re.compile(
    r"(?:no |free of )?(?:pfc )?deadlocks?(?:[ -]free)?(?:: .*)?|pfc deadlock[ -]free", re.IGNORECASE
)
_HEADROOM = re.compile(
    r"(?:pfc )?headroom(?: holds| ok| is enough| suffices| is sufficient)? (?:at|for|over) ?(.+?)(?: holds)?",
    re.IGNORECASE,
)
_PLURALS = {"spines": "spine", "leaves": "leaf", "leafs": "leaf", "links": "link", "cables": "link", "cable": "link"}


def plain(text: str) -> str:
    """An assertion in the words that its kind reads; the same text where it is none of these."""
    words = " ".join(text.split())
    if _ALONE.fullmatch(words):
        return "survives any one part"
    if _DEADLOCK.fullmatch(words) and words.lower() not in ("deadlock", "pfc deadlock", "deadlocks"):
        return "no PFC deadlock"
    if (found := _HEADROOM.fullmatch(words)) is not None:
        return f"headroom holds at {found[1]}"
    if (found := _SURVIVES.fullmatch(words)) is not None:
        return _survives(found[1].lower(), found[2] or "")
    return _figure(words)


def _survives(part: str, rest: str) -> str:
    part = _PLURALS.get(part, part)
    rest = re.sub(r"< ?(\d+(?:\.\d+)?)$", r"< \1 x", rest)
    return f"survives any one {part}{rest}"


def _figure(words: str) -> str:
    """`p99 step < 1s`, `GPU utilization above 90%`: names with blanks, in another order, comparisons in words."""
    for word, sign in SIGNS.items():
        bounds = (r"(?<!\w)", r"(?!\w)") if word[0].isalpha() else ("", "")
        words = re.sub(re.escape(word).join(bounds), sign, words, flags=re.IGNORECASE)
    found = re.fullmatch(r"([^<>=]*?) ?([<>=]+) ?(.*)", words)
    if found is None:
        return words
    name, sign, value = found.groups()
    parts = re.sub(r"99th percentile(?: of)?", "p99", re.sub(r" is$", "", name.lower())).replace("-", " ")
    listed = parts.replace("_", " ").split()
    known = {frozenset(one.split("_")): one for one in FIGURES}
    return f"{known.get(frozenset(listed), name)} {sign} {value}"
