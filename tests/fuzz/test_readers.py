"""Every reader reads what was once found to break one, and files of its kind spoilt at random, or refuses them."""

from __future__ import annotations

import random

import pytest
from tests.fuzz.readers import CORPUS, TARGETS

from railyard.kit.errors import RailyardError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python's own, of escapes in broken pickles

SPOILT = 40
"""Files a reader; `make fuzz` tries millions."""


def attempt(target, folder, data):
    path = target.place(folder)
    path.write_bytes(data)
    try:
        target.read(path)
    except RailyardError:
        return "refused"
    return "read"


def spoilt(data, draw):
    """The file with a piece left out, doubled, or of other bytes."""
    first = draw.randrange(len(data) + 1)
    last = min(len(data), first + draw.randrange(1, 24))
    piece = draw.choice(
        [b"", data[first:last] * 2, draw.randbytes(last - first), b"-1", b"1e999", b"\xff", b'"', b"[", b"\n"]
    )
    return data[:first] + piece + data[last:]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_file_is_read_or_refused(target, tmp_path):
    seeds = list(target.seeds())
    assert seeds, "nothing to begin with"
    for path in sorted((CORPUS / target.name).glob("*")):
        attempt(target, tmp_path, path.read_bytes())
    draw = random.Random(target.name)
    for _ in range(SPOILT):
        attempt(target, tmp_path, spoilt(draw.choice(seeds), draw))


def test_every_reader_reads_one_of_its_files(tmp_path):
    """A reader that refuses all that it begins with would be tried in vain."""
    for target in TARGETS:
        if target.name in ("results", "record"):  # they want other files beside it
            continue
        found = {attempt(target, tmp_path, data) for data in list(target.seeds())[:12]}
        assert "read" in found, target.name


def test_every_folder_of_the_corpus_belongs_to_a_reader():
    assert {path.name for path in CORPUS.iterdir()} <= {target.name for target in TARGETS}
