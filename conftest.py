"""Runs every Python block of the documentation, each in a fresh name space; blocks of `py` only show."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

pytest_collect_file = Sybil(
    path="docs",
    parsers=[PythonCodeBlockParser()],
    patterns=["*.md"],
    fixtures=[],
    teardown=dict.clear,  # pytest keeps name spaces until the interpreter ends, and with them runs of the core
).pytest()
