"""YAML text to a tree with places: what is read, what is refused, and where the fault is said to be."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.kit.errors import InputError
from railyard.kit.schema import yaml


def problem_of(text: str):
    with pytest.raises(InputError) as caught:
        yaml.parse_mapping(text, "x.yaml")
    return caught.value.problems[0]


def test_every_value_knows_its_place():
    tree = yaml.parse_mapping("a:\n  - 1\n  - b: two\n", "x.yaml")
    inner = tree.value["a"].value[1]
    assert (inner.keys["b"].line, inner.keys["b"].column) == (3, 5)
    assert (inner.value["b"].mark.line, inner.value["b"].mark.column) == (3, 8)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3:1", "3:1"),  # 181 in YAML 1.1
        ("no", "no"),  # false in YAML 1.1
        ("1_000", "1_000"),
        ("012", 12),
        ("1e6", 1e6),  # text in YAML 1.1
        ("true", True),
        ("~", None),
        ("'8'", "8"),
        ("$2.10/h", "$2.10/h"),
        ("2024-01-01", "2024-01-01"),
        ("-.5", -0.5),
        ("1.2.3", "1.2.3"),
        ("9" * 400, "9" * 400),
    ],
)
def test_scalars_follow_yaml_1_2(text, value):
    read = yaml.parse(text, "x.yaml").value
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "words", "line", "column"),
    [
        ("a: 1\na: 2\n", "appears twice", 2, 1),
        ("a: [1, 2\n", "not valid YAML", 2, 1),
        ("a: 1\n b: 2\n", "not valid YAML", 2, 3),
        ("a:\tb: c\n\t- d", "not valid YAML", 1, 5),
        ("a: !!python/object:os.system x\n", "tags such as", 1, 4),
        ("a: *b\n", "has no anchor", 1, 4),
        ("? [1, 2]\n: 3\n", "a key must be a word", 1, 3),
        ("<<: {a: 1}\n", "merge keys", 1, 1),
        ("- 1\n", "expected a mapping of keys, got a list", 1, 1),
        ("a: 1\n---\nb: 2\n", "second document", 2, 1),
        ("", "the file is empty", None, None),
        ("# only a comment\n", "the file is empty", None, None),
        ("a: \x07", "U+0007", 1, None),
    ],
)
def test_faults_are_placed(text, words, line, column):
    problem = problem_of(text)
    assert words in problem.message
    assert (problem.file, problem.line, problem.column) == ("x.yaml", line, column)


def test_deep_nesting_and_exponential_anchors_are_refused():
    assert "deep" in problem_of("a: " + "[" * 500 + "]" * 500).message
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    assert "values" in problem_of(bomb).message


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "first.yaml").write_text("a: 1")
    with pytest.raises(InputError, match="no such file") as caught:
        yaml.read(tmp_path / "frist.yaml")
    assert "first.yaml" in caught.value.problems[0].hint
    with pytest.raises(InputError, match="folder"):
        yaml.read(tmp_path)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"a: 1\nb: \xe9t\xe9\n")
    with pytest.raises(InputError, match="UTF-8") as caught:
        yaml.read(latin)
    assert caught.value.problems[0].line == 2
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (yaml.MAX_BYTES + 1))
    with pytest.raises(InputError, match="larger than 4 MiB"):
        yaml.read(large)
    marked = tmp_path / "bom.yaml"
    marked.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert yaml.read(marked).plain() == {"a": 1}


@given(st.text(max_size=200) | st.text(alphabet="ab:-[]{}&*!|>'\"#%@`,? \n\t0\\", max_size=60))
def test_any_text_is_read_or_refused_with_words(text):
    with contextlib.suppress(InputError):
        yaml.parse_mapping(text, "x.yaml")


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(plain)
def test_python_values_keep_their_value(value):
    assert yaml.from_plain(value, yaml.Mark("x")).plain() == value
