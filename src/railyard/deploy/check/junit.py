"""Assertions as a JUnit report, for the test pages of build systems."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.deploy.check.check import Checked

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write (section 2.2)."""


def junit(scenario: str, checked: Sequence[Checked]) -> str:
    """The report: a case for every assertion of every variant, with a failure where it does not hold.

    Args:
        scenario: Its name.
        checked: The assertions.
    """
    failed = str(sum(not one.outcome.holds for one in checked))
    counts = {"tests": str(len(checked)), "failures": failed, "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": _clean(scenario), **counts, "skipped": "0"})
    several = len({one.variant for one in checked}) > 1
    for one in checked:
        name = f"{one.assertion} [{one.variant}]" if several else one.assertion
        case = ElementTree.SubElement(suite, "testcase", {"classname": _clean(scenario), "name": _clean(name)})
        if not one.outcome.holds:
            ElementTree.SubElement(case, "failure", {"message": _clean(one.outcome.found), "type": "assertion"})
        words = f"found: {one.outcome.found}" + (f"\n{one.outcome.remark}" if one.outcome.remark else "")
        ElementTree.SubElement(case, "system-out").text = _clean(words)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _clean(text: str) -> str:
    return _FORBIDDEN.sub(lambda found: repr(found[0])[1:-1], text)
