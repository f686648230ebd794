"""For all rooms: property tests say what holds, not how soon on a busy machine; `.cases` files are tables of tests.

Where slow tests are left out, property tests draw a quarter of their examples, and others every time.
"""

import gc

from hypothesis import settings
from tests.tables import Table

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


def pytest_runtestloop():
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    gc.unfreeze()


def pytest_collect_file(parent, file_path):
    return Table.from_parent(parent, path=file_path) if file_path.suffix == ".cases" else None
