"""For all rooms: property tests say what holds, not how soon on a busy machine; `.cases` files are tables of tests."""

import gc

from hypothesis import settings
from tests.tables import Table

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

gc.disable()  # what is collected lives as long as the session: no need to look through it again and again


def pytest_runtestloop():
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    gc.unfreeze()


def pytest_collect_file(parent, file_path):
    return Table.from_parent(parent, path=file_path) if file_path.suffix == ".cases" else None
