"""For all rooms: property tests say what holds, not how soon on a busy machine; `.cases` files are tables of tests.

Where slow tests are left out, property tests draw a quarter of their examples, and others every time.
"""

import gc
import math
import time

import pytest
from hypothesis import settings
from tests.tables import Table

from railyard.work.study.tasks import Done, call, failure
from railyard.work.study.workers import Local

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

FEWEST = 15
"""Examples of a property test, unless it asks for less."""

gc.disable()  # what is collected lives as long as the session: no need to look through it again and again


def pytest_collection_modifyitems(config, items):
    if config.option.markexpr == "not slow":
        for function in {item.obj for item in items if hasattr(getattr(item, "obj", None), "hypothesis")}:
            drawn = function._hypothesis_internal_use_settings
            fewer = min(drawn.max_examples, max(FEWEST, drawn.max_examples // 4))
            function._hypothesis_internal_use_settings = settings(drawn, max_examples=fewer)


@pytest.fixture
def cli(capsys):
    """Runs a command in this process: its exit code, what it printed, and its words."""
    from railyard.face.cli import guard

    def call(*words: str):
        code = guard.run(words)
        out, err = capsys.readouterr()
        return code, out, err

    return call


RUN_IN_WORKERS = Local.run


def run_here(pool, tasks, until=math.inf):
    """Tasks one after another in this process, which has imported already what each worker would import anew."""
    if pool._begin is not None or any(task.limit_s for task in tasks):
        yield from RUN_IN_WORKERS(pool, tasks, until)
        return
    for number, task in enumerate(tasks):
        if time.monotonic() >= until:
            return
        try:
            done = Done(number, call(task.function, task.argument))
        except Exception as error:  # whatever a task does wrong is its result
            done = Done(number, error=failure(error))
        yield done


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    Local.run = RUN_IN_WORKERS if item.get_closest_marker("processes") else run_here


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    Local.run = RUN_IN_WORKERS


def pytest_runtestloop():
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    gc.unfreeze()


def pytest_collect_file(parent, file_path):
    return Table.from_parent(parent, path=file_path) if file_path.suffix == ".cases" else None
