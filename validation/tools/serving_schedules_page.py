#!/usr/bin/env python3
"""Writes docs/validation/serving-schedules.md: our serving engine's iterations against those of vLLM's own scheduler.

python validation/tools/serving_schedules_page.py
"""

from pathlib import Path

from railyard_validation.serving.schedules_page import text

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    page = text(ROOT / "validation/tests/serving/data")
    (ROOT / "docs/validation/serving-schedules.md").write_text(page, encoding="utf-8")
