"""Commands of railyard where something is installed: in one process, which begins with the first of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ASKED = """
import contextlib, io, json, sys
from railyard.face.cli import guard

for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = guard.run(json.loads(line))
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


class Shell:
    """A folder in which commands run; `environment` says what is installed."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder, self.process = folder, None
        self.environment = {**os.environ, **environment}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.communicate()

    def begun(self, *words: str) -> subprocess.Popen[str]:
        """Python with these words."""
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        return subprocess.Popen([sys.executable, *words], cwd=self.folder, env=self.environment, text=True, **pipes)

    def python(self, *words: str) -> str:
        """What Python prints with these words, in a process of its own."""
        with self.begun(*words) as process:
            out, _ = process.communicate()
        assert process.returncode == 0, out
        return out

    def ended(self, *command: str) -> tuple[int, str, str]:
        """Exit code, data and words of a command."""
        self.process = self.process or self.begun("-c", ASKED)
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return tuple(json.loads(self.process.stdout.readline()))

    def railyard(self, *command: str) -> str:
        code, out, err = self.ended(*command)
        assert code == 0, err
        return out

    def refused(self, *command: str) -> str:
        code, _, err = self.ended(*command)
        assert code == 2, err
        return err
