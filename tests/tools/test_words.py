"""`tools/words`: finds avoided words and repeated names, and no room has more than its budget."""

import ast
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = """# Glossary

apart, as a term

## Words that we avoid

| avoid | write |
|---|---|
| apart, told apart | separate |
| stands in | is in |
"""


@pytest.fixture
def words(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import words

    return words


def found(words, text):
    return [hit.group().lower() for hit in words.pattern(words.avoided(GLOSSARY)).finditer(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Told apart by name", ["told apart"]),
        ("it stands\nin a file", ["stands\nin"]),
        ("the apartment, an apart-hotel, who understands in time", []),
    ],
)
def test_phrases_are_found_as_whole_words(words, text, expected):
    assert found(words, text) == expected


def test_code_links_and_the_glossary_itself_do_not_count(words):
    text = "`apart` [x](apart.md)\n```\napart\n```\nlast: apart"
    ((line, prose),) = words.texts_of_page(text)
    assert line == 1
    assert prose.count("apart") == 1
    assert prose.splitlines()[-1] == "last: apart"
    assert found(words, next(words.texts_of_page(GLOSSARY))[1]) == ["apart"]


def test_docstrings_and_messages_count_and_keys_do_not(words):
    module = '"""Two\n\nstand apart."""\nKEY = "apart"\nraise ValueError(f"{KEY} is held apart")\n'
    texts = list(words.texts_of_module(ast.parse(module)))
    assert sorted(texts) == [(1, "Two\n\nstand apart."), (5, " is held apart")]


def test_a_name_of_two_modules_is_listed_with_both(words):
    trees = {
        "p.a.x": ast.parse("class Job: ...\ndef run(): ...\n"),
        "p.b": ast.parse("class Job: ...\ndef _run(): ...\n"),
    }
    assert words.names(trees) == {"Job": ["p.a.x", "p.b"]}
    assert words.counts([], words.names(trees))["names"] == {"a": 1, "b": 1}


def test_a_count_may_only_fall(words):
    budget = {"words": {"docs": 1, "kit": 3}, "names": {}}
    now = {"words": {"docs": 2, "kit": 2}, "names": {"graph": 1}}
    assert [line.split(":")[0] for line in words.exceeded(now, budget)] == ["docs", "graph"]
    assert words.lowered(now, budget) == {"words": {"docs": 1, "kit": 2}, "names": {}}


def test_no_room_has_more_than_its_budget(words):
    trees = words.structure.modules(words.structure.PACKAGE)
    now = words.counts(words.hits(trees), words.names(trees))
    assert words.exceeded(now, json.loads(words.BUDGET.read_text("utf-8"))) == []
    assert words.avoided((words.ROOT / words.GLOSSARY).read_text("utf-8")), (
        "the glossary has no table of words to avoid"
    )
