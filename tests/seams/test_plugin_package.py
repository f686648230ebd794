"""`examples/plugin` is built and installed as a user would, and its own tests run against what was installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"


def python(*words: str, folder: Path, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env={**os.environ, **more}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_template_installs_and_passes_its_tests(tmp_path):
    site = tmp_path / "site"
    python("-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(PLUGIN), folder=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    python("-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(wheel), folder=tmp_path)
    words = ("-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={PLUGIN}", str(PLUGIN / "tests"))
    assert "7 passed" in python(*words, folder=tmp_path, PYTHONPATH=str(site))


def test_a_package_that_raises_is_named(tmp_path):
    about = tmp_path / "broken-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[railyard.plugins]\nx = broken_module\n")
    (tmp_path / "broken_module.py").write_text("import nothing_like_this\n")
    done = subprocess.run(
        [sys.executable, "-m", "railyard", "schema"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "the plugin `x` of the package `broken` raises ModuleNotFoundError" in done.stderr
    assert "pip uninstall broken" in done.stderr
