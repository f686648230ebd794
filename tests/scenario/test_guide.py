"""Every YAML block of the guides is a part of a valid scenario."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railyard.kit.schema import yaml
from railyard.work.scenario import load
from railyard.work.scenario.variants import expand

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = [
    (page, number, text)
    for page in ("tutorial/index.md", "how-to/scenario.md")
    for number, text in enumerate(
        re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize(("page", "number", "text"), BLOCKS)
def test_a_block_is_part_of_a_scenario(page, number, text, small):
    values = {**yaml.read(small).plain(), **yaml.parse_mapping(text, f"{page}, block {number}").plain()}
    assert expand(load.from_values(values))


def test_there_are_blocks():
    assert len(BLOCKS) >= 7
