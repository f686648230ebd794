"""The files of a Chakra trace: one a rank, in a folder, beside one another, or in an archive."""

from __future__ import annotations

import io
import lzma
import re
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.work.trace import chakra_protobuf
from railyard.work.trace.builder import MOST, content
from railyard.work.trace.formats.chakra import is_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from railyard.work.trace.chakra_order import ChakraNode, RankTrace


_LAST_US = MOST // 10**6


def decoded(data: bytes) -> RankTrace:
    """The trace in the bytes of a file.

    Raises:
        InputError: They are no trace.
    """
    decode = chakra_protobuf.decoded_json if data.lstrip()[:1] in (b"{", b"[") else chakra_protobuf.decoded
    found = decode(data)
    _check(found.nodes)
    return found


def _check(nodes: list[ChakraNode]) -> None:
    if not nodes:
        raise InputError("the trace holds no nodes")
    if len({node.id for node in nodes}) < len(nodes):
        raise InputError("two nodes of the trace have the same number")
    for node in nodes:
        if not 0 <= node.duration_us <= _LAST_US:
            raise InputError(f"node {node.id} ({node.name}) takes too long", found=node.duration_us)


_NUMBERED = re.compile(r"(.*\.)(\d+)\.(et|json)")
_SUFFIXES = (".et", ".json")


def files_of(path: Path) -> list[tuple[Path, bytes]]:
    """Name and content of the file of every rank, in order.

    Args:
        path: A folder, an archive (tar, zip), or one file; files `name.<rank>.et` stand for all of that name.

    Raises:
        InputError: There is no trace, one of a rank is missing, or a file cannot be read.
    """
    if path.is_dir():
        return _opened(path, _ranked(path, sorted(file.name for file in path.iterdir())), _reader(path))
    data = content(path)
    if is_archive(data):
        found = _unpacked(path, data)
        return _opened(path, _ranked(path, sorted(found)), lambda name: found[name])
    match = _NUMBERED.fullmatch(path.name)
    if match is None:
        return [(path, data)]
    siblings = [file.name for file in path.parent.iterdir() if _same(match, file.name)]
    if f"{match[1]}0.{match[3]}" not in siblings:
        return [(path, data)]  # the number is not that of a rank
    return _opened(path.parent, _ranked(path, siblings), _reader(path.parent))


def _same(match: re.Match[str], name: str) -> bool:
    other = _NUMBERED.fullmatch(name)
    return other is not None and (other[1], other[3]) == (match[1], match[3])


def _reader(folder: Path) -> Callable[[str], bytes]:
    return lambda name: content(folder / name)


def _opened(place: Path, names: list[str], read: Callable[[str], bytes]) -> list[tuple[Path, bytes]]:
    return [(place / name, read(name)) for name in names]


def _ranked(path: Path, names: Iterable[str]) -> list[str]:
    """Names of the files of all ranks, in order of rank.

    Raises:
        InputError: There are none, or one is missing.
    """
    traces = [name for name in names if name.endswith(_SUFFIXES) and not Path(name).name.startswith("._")]
    if not traces:
        raise InputError("the folder holds no trace", file=path, allowed="files named <name>.<rank>.et or .json")
    numbered = [match for name in traces if (match := _NUMBERED.fullmatch(name))]
    if not numbered:
        return traces[:1]
    stem, _, suffix = numbered[0].groups()
    ranks = {int(match[2]): match[0] for match in numbered if (match[1], match[3]) == (stem, suffix)}
    missing = next((rank for rank in range(len(ranks)) if rank not in ranks), None)
    if missing is not None:
        raise InputError(f"the trace has no file of rank {missing}", file=path, allowed=f"{stem}{missing}.{suffix}")
    return [ranks[rank] for rank in range(len(ranks))]


def _unpacked(path: Path, data: bytes) -> dict[str, bytes]:
    """The traces of an archive by name.

    Raises:
        InputError: It cannot be read.
    """
    try:
        if data.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(data)) as packed:
                return {name: packed.read(name) for name in packed.namelist() if name.endswith(_SUFFIXES)}
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            members = [member for member in tar if member.isfile() and member.name.endswith(_SUFFIXES)]
            return {member.name: file.read() for member in members if (file := tar.extractfile(member))}
    except (OSError, EOFError, ValueError, RuntimeError, NotImplementedError) as error:
        raise InputError("the archive cannot be read", file=path, found=str(error)) from None
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        raise InputError("the archive cannot be read", file=path, found=str(error)) from None
