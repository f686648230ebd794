"""Text of files from strangers: what is no text, never ends or never begins."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from railyard.errors import InputError
from railyard.files import expect_folder, keep_existing, read_text, write_text

if TYPE_CHECKING:
    from pathlib import Path


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "windows.conf"
    path.write_bytes(b"\xef\xbb\xbfSwitchName=s0\r\n")
    assert read_text(path) == "SwitchName=s0\r\n"


def test_a_pipe_that_nobody_writes_into_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert read_text(path) == ""


def test_a_pipe_that_is_written_into_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, b"job,nodes\n")
    os.close(writer)
    assert read_text(path) == "job,nodes\n"
    os.close(reader)


def test_a_device_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railyard.files.MOST_BYTES", 10)
    path = tmp_path / "long"
    path.write_text("0123456789")
    assert read_text(path) == "0123456789"
    path.write_text("0123456789a")
    with pytest.raises(InputError, match="larger than"):
        read_text(path)


@pytest.mark.parametrize("content", [b"\xff\xfea\0", b"caf\xe9"])
def test_what_is_no_text_is_refused_by_its_byte(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "noise"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is no UTF-8") as caught:
        read_text(path)
    assert caught.value.problems[0].file == str(path)


def test_a_folder_or_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_text(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read_text(tmp_path / "none")


def test_a_pipe_is_written_into_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_text(path, "a,b\n")
    assert path.is_fifo()
    assert os.read(reader, 100) == b"a,b\n"
    os.close(reader)
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


def test_places_where_nothing_can_be_written_are_refused_before_any_work(tmp_path: Path) -> None:
    file = tmp_path / "there.txt"
    file.write_text("kept")
    with pytest.raises(InputError, match="exists already"):
        keep_existing(file, force=False)
    keep_existing(file, force=True)
    with pytest.raises(InputError, match="no such folder"):
        keep_existing(tmp_path / "none" / "new.txt", force=True)
    with pytest.raises(InputError, match="this is a file"):
        expect_folder(file)
    with pytest.raises(InputError, match="this is a file"):
        expect_folder(file / "below")
    expect_folder(tmp_path / "made" / "later")


def test_a_table_whose_pages_lie_beyond_its_end_is_refused(tmp_path):
    """Polars panics over such a file instead of raising."""
    import polars as pl

    from railyard.files import read_frame, write_frame

    write_frame(tmp_path / "whole.parquet", pl.DataFrame({"a": list(range(5000))}))
    data = (tmp_path / "whole.parquet").read_bytes()
    # The footer says where its pages are; without the first half of the file they are not.
    (tmp_path / "cut.parquet").write_bytes(data[len(data) // 2 :])
    with pytest.raises(InputError, match="not readable Parquet"):
        read_frame(tmp_path / "cut.parquet")
