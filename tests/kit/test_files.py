"""Text of files from strangers: what is no text, never ends or never begins."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from railyard.kit.errors import InputError
from railyard.kit.files import (
    MOST_BYTES,
    copy_file,
    expect_folder,
    keep_existing,
    opened,
    read_bytes,
    read_text,
    readable,
    write_text,
)


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "windows.conf"
    path.write_bytes(b"\xef\xbb\xbfSwitchName=s0\r\n")
    assert read_text(path) == "SwitchName=s0\r\n"


def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "it")
    return tmp_path / "it"


def held_pipe(tmp_path: Path) -> Path:
    """One whose writer never writes: to read it would never end."""
    os.open(pipe(tmp_path), os.O_RDWR | os.O_CLOEXEC)
    return tmp_path / "it"


def socket_file(tmp_path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "it"))
    return tmp_path / "it"


def sparse(tmp_path: Path) -> Path:
    with (tmp_path / "it").open("wb") as file:
        file.truncate(10 << 30)
    return tmp_path / "it"


@pytest.mark.parametrize("reads", [read_text, read_bytes, readable, lambda path: opened(path, MOST_BYTES)])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (pipe, "this is a named pipe, not a regular file"),
        (held_pipe, "this is a named pipe, not a regular file"),
        (lambda _: Path("/dev/zero"), "this is a device, not a regular file"),
        (socket_file, "this is a socket, not a regular file"),
        (lambda folder: folder, "cannot be read: Is a directory"),
        (lambda folder: folder / "none", "no such file"),
    ],
)
def test_only_a_regular_file_is_opened(tmp_path: Path, make, words, reads) -> None:
    with pytest.raises(InputError, match=words) as caught:
        reads(make(tmp_path))
    assert caught.value.problems[0].file is not None


@pytest.mark.parametrize("reads", [read_text, read_bytes])
def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path, reads) -> None:
    with pytest.raises(InputError, match=r"larger than 256 MiB(.|\n)*found: 10,240 MiB"):
        reads(sparse(tmp_path))
    (tmp_path / "it").write_text("0123456789")
    assert len(reads(tmp_path / "it", 10)) == 10
    with pytest.raises(InputError, match="larger than"):
        reads(tmp_path / "it", 9)


@pytest.mark.parametrize("change", [b"one more line\n", b""])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, change: bytes) -> None:
    """It grows, or is cut off; what was read of it by then ends."""
    path = tmp_path / "growing.csv"
    path.write_bytes(b"a,b\n" * 200_000)
    with opened(path) as file, pytest.raises(InputError, match=r"growing\.csv(.|\n)*800,000 when it was opened"):  # noqa: PT012
        file.readline()
        with path.open("ab" if change else "wb") as writer:
            writer.write(change)
        for _ in range(300_000):
            file.readline()


def test_a_file_is_read_in_pieces_and_from_any_place(tmp_path: Path) -> None:
    path = tmp_path / "it"
    data = os.urandom(1_000_000)
    path.write_bytes(data)
    with opened(path) as file:
        assert file.read(3) + file.read() == data
        file.seek(-5, os.SEEK_END)
        assert file.read(100) == data[-5:]
        assert (file.read(), file.read(1)) == (b"", b"")
        file.seek(700_000)
        assert file.read1(10) == data[700_000:700_010]
    copy_file(path, tmp_path / "copy")
    assert read_bytes(tmp_path / "copy") == data


@pytest.mark.parametrize("content", [b"\xff\xfea\0", b"caf\xe9"])
def test_what_is_no_text_is_refused_by_its_byte(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "noise"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not UTF-8") as caught:
        read_text(path)
    assert caught.value.problems[0].file == str(path)


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
    with pytest.raises(InputError, match="already exists"):
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

    from railyard.kit.files import read_frame, write_frame

    write_frame(tmp_path / "whole.parquet", pl.DataFrame({"a": list(range(5000))}))
    data = (tmp_path / "whole.parquet").read_bytes()
    # The footer says where its pages are; without the first half of the file they are not.
    (tmp_path / "cut.parquet").write_bytes(data[len(data) // 2 :])
    with pytest.raises(InputError, match="not readable Parquet"):
        read_frame(tmp_path / "cut.parquet")
