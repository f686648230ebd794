"""The page on the way from a file to a result: its functions exist, and are first called in its order."""

from __future__ import annotations

import functools
import re
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from railyard.face.cli.guard import run as railyard

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/explanation/walk.md").read_text(encoding="utf-8")
MOST_STOPS = 12
SECTIONS = {text.split(":")[0]: text for text in PAGE.split("\n## ")[1:]}
SMALL = """
cluster: {accelerators: 16, server: hgx-h100}
workload:
"""
TRAINING = f"{SMALL}  training: {{model: llama-3.2-1b, global_batch: 32, sequence: 2048, parallelism: {{tp: 2}}}}\n"
SERVING = f"""{SMALL}  serving:
    model: llama-3-8b
    requests: {{synthetic: {{rate: 4, input: 500, output: 50, count: 200}}}}
    pools: {{both: {{replicas: 2}}}}
    slo: {{ttft: 1 s}}
"""
COMMANDS = {
    "Training": lambda path, out: ["run", str(path(TRAINING)), "--out", out],
    "Serving": lambda path, out: ["run", str(path(SERVING)), "--out", out],
    "Packets": lambda _path, out: [
        "packet",
        "--traffic",
        str(ROOT / "tests/engine/packet/data/incast.cm"),
        "--out",
        out,
    ],
}


def stops(name):
    return re.findall(r"^\| \d+ \| `([\w.]+):([\w.]+)` \|", SECTIONS[name], re.MULTILINE)


def code_of(module, name):
    return functools.reduce(getattr, name.split("."), import_module(module)).__code__


@contextmanager
def calls_of(codes):
    """Functions in the order of their first calls, on any thread."""
    found = []

    def note(frame, event, _argument):
        if event == "call" and frame.f_code in codes and frame.f_code not in found:
            found.append(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.mark.parametrize("name", COMMANDS)
def test_functions_are_called_in_the_order_of_the_page(name, tmp_path, capsys):
    named = stops(name)
    assert 8 <= len(named) <= MOST_STOPS
    assert max(Counter(named).values()) == 1
    codes = {code_of(module, function): f"{module}:{function}" for module, function in named}

    def path(text):
        file = tmp_path / "small.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    with calls_of(codes) as found:
        assert railyard([*COMMANDS[name](path, str(tmp_path / "runs")), "--quiet", "--json"]) == 0
    capsys.readouterr()
    assert [codes[code] for code in found] == [f"{module}:{function}" for module, function in named]


def test_functions_that_the_text_names_exist():
    named = re.findall(r"`(railyard\.[\w.]+):([\w.]+)`", PAGE)
    assert len(named) >= 33
    assert all(code_of(module, function) for module, function in named)
