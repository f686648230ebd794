"""While a run is going: progress, other threads, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from railyard import engine

from .hand import Links, lowered
from .test_differential import crowd


def busy_graph():
    graph, rows, capacity = crowd(2, flows=300, links=40)
    return lowered(graph, rows), Links(capacity)


def test_progress_ends_with_all_tasks():
    columns, links = busy_graph()
    seen = []
    timeline = engine.get("flow").run(*columns, links, progress=lambda *told: seen.append(told))
    assert seen[-1] == (len(columns[0].graph), len(columns[0].graph), timeline.makespan_ps)
    assert all(done <= total for done, total, _ in seen)


def test_ctrl_c_ends_a_run_at_once():
    """The child says when the core is at work (its progress is called from there); then it is interrupted."""
    script = textwrap.dedent(
        """
        import numpy as np
        from railyard import engine
        from railyard.engine.lowering import Entities, Lowered
        from railyard.graph import Communicators, Label, Merged, TaskGraph
        from types import SimpleNamespace

        n = 1 << 22
        none = lambda dtype: np.zeros(n, dtype)
        graph = TaskGraph(
            ranks=1, kind=none(np.uint8), rank=none(np.int32), peer=none(np.int32), duration_ps=np.ones(n, np.int64),
            size_bytes=none(np.int64), count=none(np.int32), collective=none(np.uint8), stream=none(np.uint8),
            label=none(np.int32), dep_ptr=np.zeros(n + 1, np.int64), labels=[Label("forward", "task")],
        )
        bundles = {"bundle_of": np.full(1, -1, np.int32), "with_bundles": lambda rate: rate}
        links = SimpleNamespace(rate_bps=np.ones(1), physical=1, **bundles)
        low = Lowered(Entities.stacked([]), np.full(n, -1, np.int32))
        told = []

        def progress(done, total, now_ps):
            if not told:
                print("running", flush=True)
            told.append(done)

        try:
            while True:
                engine.get("flow").run(Merged.of(graph), low, links, progress=progress)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=60)
    assert rest == "interrupted\n"
    assert child.returncode == 0


def test_what_progress_raises_comes_out():
    columns, links = busy_graph()

    def stop(done, total, now_ps):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        engine.get("flow").run(*columns, links, progress=stop)


def test_runs_in_threads_are_the_same_runs():
    columns, links = busy_graph()
    alone = engine.get("flow").run(*columns, links).digest()
    digests = []
    threads = [
        threading.Thread(target=lambda: digests.append(engine.get("flow").run(*columns, links).digest()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert digests == [alone] * 4
