"""While a run is going: progress, other threads, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from railyard import engine
from railyard.engine.faults import FaultColumns
from railyard.engine.probing import counters, in_bytes
from railyard.graph import MergedJobs
from railyard.kit.errors import InputError

from .hand import Entity, Graph, Links, lowered
from .test_max_min import crowd
from .test_semantics import GIGABYTE_PER_S, play


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
        from railyard.cluster import Entities
        from railyard.engine.lowering import LoweredGraph
        from railyard.graph import Communicators, Label, MergedJobs, TaskGraph
        from types import SimpleNamespace

        n = 1 << 22
        graph = TaskGraph.of(1, duration_ps=np.ones(n, np.int64), labels=[Label("forward", "task")])
        bundles = {"bundle_of": np.full(1, -1, np.int32), "with_bundles": lambda rate: rate}
        links = SimpleNamespace(rate_bps=np.ones(1), physical=1, **bundles)
        low = LoweredGraph(Entities.stacked([]), np.full(n, -1, np.int32))
        told = []

        def progress(done, total, now_ps):
            if not told:
                print("running", flush=True)
            told.append(done)

        try:
            while True:
                engine.get("flow").run(MergedJobs.of(graph), low, links, progress=progress)
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


# What cannot run is refused or told in words that name the task.


@pytest.mark.parametrize(
    ("column", "value", "word"),
    [
        ("kind", 9, "unknown kind"),
        ("rank", 7, "rank out of range"),
        ("rank", -1, "rank out of range"),
        ("duration_ps", -1, "duration out of range"),
        ("dep_idx", 5, "dependency out of range"),
        ("dep_ptr", 1, "dep_ptr does not span"),
    ],
)
def test_columns_that_do_not_fit_are_refused(column, value, word):
    graph = Graph(2)
    graph.compute(0, 5)
    graph.compute(0, 5, 0)
    columns, low = lowered(graph, [])
    getattr(columns.graph, column)[0] = value
    with pytest.raises(InputError, match=word):
        engine.get("flow").run(columns, low, Links([1.0]))


@pytest.mark.parametrize(("groups", "word"), [([[0, 0]], "a rank twice"), ([[]], "without members"), ([[4]], "member")])
def test_impossible_communicators_are_refused(groups, word):
    graph = Graph(2, groups=groups)
    graph.collective(0, 0)
    with pytest.raises(InputError, match=word):
        play(graph, [Entity({0: 1.0}, 1.0)])


def test_columns_of_another_type_are_converted_or_refused_never_misread():
    graph = Graph(1)
    graph.compute(0, 5)
    columns, low = lowered(graph, [])
    wide = MergedJobs.of(replace(columns.graph, rank=columns.graph.rank.astype(np.int64)))
    assert engine.get("flow").run(wide, low, Links([1.0])).end_ps.tolist() == [5]


@pytest.mark.parametrize("name", ["flow", "analytic"])
def test_every_engine_says_what_it_is_and_leaves_out(name):
    record = engine.get(name)
    assert record.name == name
    assert record.summary.endswith(".")
    assert record.left_out


# Link utilization over time.


def test_utilization_of_a_link_that_is_used_half_of_the_time():
    graph = Graph(1)
    graph.compute(0, 500_000_000)
    graph.transfer(0, 0, 0, 0)
    record = play(graph, [Entity({0: 0.5, 1: 1.0}, 500_000)], [GIGABYTE_PER_S] * 2, probes=engine.Probes(16))
    assert record.table("sampled_links")["link"].tolist() == [0, 1]
    time_ps, utilization = record.table("link_series").values()
    step = time_ps[1]
    assert time_ps.tolist() == (np.arange(len(time_ps)) * step).tolist()
    assert 8 <= len(time_ps) <= 16
    busy = np.clip((time_ps + step - 500_000_000) / step, 0, None).clip(max=(1_000_000_000 - time_ps) / step)
    assert utilization[:, 1] == pytest.approx(np.clip(busy, 0, 1), abs=1e-6)
    assert utilization[:, 0] == pytest.approx(np.clip(busy, 0, 1) / 2, abs=1e-6)


def test_only_the_links_asked_for_in_their_order():
    graph = Graph(1)
    graph.transfer(0, 0, 0)
    probes = engine.Probes(samples=4, links=[2, 0])
    record = play(graph, [Entity({0: 1.0, 2: 0.5}, 1_000)], [GIGABYTE_PER_S] * 3, probes=probes)
    assert record.table("sampled_links")["link"].tolist() == [2, 0]
    utilization = record.table("link_series")["utilization"]
    assert (utilization[0] > 0).all()
    assert utilization[0, 1] == pytest.approx(2 * utilization[0, 0])


def test_no_probes_no_series():
    assert list(play(Graph(1)).tables) == ["links"]


def test_probing_changes_nothing():
    graph = Graph(4)
    for rank in range(4):
        graph.transfer(rank, 0, rank)
        graph.transfer(rank, 0, rank)
    rows = [Entity({0: 1.0, rank + 1: 1.0}, 1_000.0 * (rank + 1)) for rank in range(4)]
    plain = play(graph, rows, [GIGABYTE_PER_S] * 5)
    probed = play(graph, rows, [GIGABYTE_PER_S] * 5, probes=engine.Probes(samples=32))
    assert plain.digest() == probed.digest()


def test_time_at_full_load():
    """Link 0 is full while 1,000 bytes pass at 1 byte a ns; of link 1 half is used. Counting changes nothing else."""
    graph = Graph(1)
    graph.transfer(0, 0, 0)
    rows = [Entity({0: 1.0, 1: 0.5}, 1_000)]
    counted = play(graph, rows, [GIGABYTE_PER_S] * 2, probes=engine.Probes(full=True))
    assert counted.table("links")["full_ps"].tolist() == [1_000_000, 0]
    assert counted.digest() == play(graph, rows, [GIGABYTE_PER_S] * 2).digest()


def test_of_a_bundle_the_slower_member_is_full():
    """Links 0 to 2 are bundle 3; the bundle was full for 70 ps and link 0 by itself for 5."""
    links = SimpleNamespace(bundle_of=np.array([3, 3, 3]))
    result = SimpleNamespace(link_bytes=np.zeros(4), link_full_ps=np.array([5, 0, 0, 70]))

    def full(*rows):
        return counters(result, FaultColumns.of(rows), links)["full_ps"].tolist()

    assert full() == [75, 70, 70, 70]
    assert full((0, 0, 1, 0.5, 0)) == [5, 70, 0, 70]


def test_windows_keep_every_link_in_a_byte():
    """Link 0 carries 30 % of its rate for the second half of a millisecond, link 1 all of it: 76.5 and 255 of 255."""
    graph = Graph(1)
    graph.compute(0, 500_000_000)
    graph.transfer(0, 0, 0, 0)
    probes = engine.Probes(windows=16)
    record = play(graph, [Entity({0: 0.3, 1: 1.0}, 500_000)], [GIGABYTE_PER_S] * 2, probes=probes)
    time_ps, load = record.table("link_windows").values()
    assert load.dtype == np.uint8
    assert load.shape == (len(time_ps), 2)
    step = int(time_ps[1])
    before, within = time_ps + step <= 500_000_000, (time_ps >= 500_000_000) & (time_ps + step <= 1_000_000_000)
    assert (load[before] == 0).all()
    assert set(map(tuple, load[within].tolist())) <= {(76, 255), (77, 255)}
    carried = (load / 255 * step).sum(axis=0) * 1e-12 * 1e9
    assert carried == pytest.approx([150_000, 500_000], rel=0.01)
    assert "link_series" not in record.tables


def test_bytes_of_loads_are_rounded_and_bounded():
    assert in_bytes(np.array([0.0, 0.001, 0.003, 0.5, 0.999, 1.0, 1.4])).tolist() == [0, 0, 1, 128, 255, 255, 255]
