"""The committed stub of the core says what the built core has."""

from __future__ import annotations

import runpy
from pathlib import Path

BIND = Path(__file__).parents[2] / "cpp" / "bind"


def test_the_stub_is_fresh():
    script = runpy.run_path(str(BIND / "write_stub.py"))
    assert script["STUB"].read_text(encoding="utf-8") == script["stub_text"](), "run `python cpp/bind/write_stub.py`"
