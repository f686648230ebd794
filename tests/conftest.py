"""For all rooms: property tests say what holds, not how soon on a busy machine; `.cases` files are tables of tests."""

from hypothesis import settings
from tests.tables import Table

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collect_file(parent, file_path):
    return Table.from_parent(parent, path=file_path) if file_path.suffix == ".cases" else None
