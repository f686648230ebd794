"""What is released: hashed locks, a bill of materials of what is inside, audits that hide nothing, signed sums."""

import json
import re
import shutil
import subprocess
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return __import__


def test_every_pin_has_hashes_and_no_address(tool):
    pins = tool("pins")
    assert [path.name for path in pins.LOCKS] == ["run.txt", "dev.txt", "fuzz.txt", "release.txt"]
    for path in pins.LOCKS:
        assert "://" not in path.read_text()
        assert [pin.place for pin in pins.read(path).pins if not pin.hashes] == []
    every = pins.read(pins.LOCKS[3]).closure()
    assert len({pin.name for pin in every}) == len(every)
    # Wheels for other machines too: one of polars for each platform that it is built for.
    assert len(next(pin for pin in every if pin.name == "numpy").hashes) > 40


def test_every_installation_from_a_lock_wants_hashes_and_wheels():
    text = (ROOT / "Makefile").read_text()
    assert "--require-hashes --only-binary :all:" in next(li for li in text.splitlines() if li.startswith("LOCKED"))
    assert [li for li in text.splitlines() if "-r requirements" in li and "$(LOCKED)" not in li] == []


def test_what_builds_and_what_runs_is_pinned(tool):
    pins = tool("pins")
    run = {pin.name for pin in pins.read(pins.LOCKS[0]).pins}
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = document["project"]
    asked = [
        *project["dependencies"],
        *project["optional-dependencies"]["ui"],
        *document["build-system"]["requires"],
        "cmake",
        "ninja",
    ]
    assert {pins.normalized(Requirement(one).name) for one in asked} <= run


@pytest.mark.parametrize(
    ("line", "words"),
    [("numpy>=1.2", r"a\.txt:2: `numpy>=1\.2` is no pin"), ("numpy==1.2 --hash=md5:00", r"a\.txt:2: `--hash=md5:00`")],
)
def test_a_line_that_is_no_pin_is_named(tool, tmp_path, line, words):
    (tmp_path / "a.txt").write_text(f"# words\n{line}\n")
    with pytest.raises(SystemExit, match=words):
        tool("pins").read(tmp_path / "a.txt")


def test_the_bill_of_materials_is_what_is_pinned(tool):
    pins = tool("pins")
    bill = json.loads(pins.SBOM.read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (bill["specVersion"], bill["metadata"]["component"]["version"]) == ("1.6", project["version"])
    assert "timestamp" not in bill["metadata"]
    have = {row["purl"] for row in bill["components"]}
    run = {f"pkg:pypi/{pin.name}@{pin.version}" for pin in pins.read(pins.LOCKS[0]).pins}
    assert {one for one in have if one.startswith("pkg:pypi")} <= run
    assert {one for one in run if one.split("@")[0].endswith(("/numpy", "/nanobind", "/starlette"))} <= have
    lock = json.loads((ROOT / "frontend/package-lock.json").read_text())["packages"]
    inside = {key.removeprefix("node_modules/"): row for key, row in lock.items() if key and not row.get("dev")}
    scripts = {f"pkg:npm/{name.replace('@', '%40')}@{row['version']}" for name, row in inside.items()}
    assert {one for one in have if one.startswith("pkg:npm")} == scripts
    roots = next(row for row in bill["dependencies"] if row["ref"] == "railyard")["dependsOn"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["ui"]]
    wanted = {f"pypi:{pins.normalized(Requirement(one).name)}" for one in asked} | {"pypi:nanobind"}
    optional = {row["name"] for row in bill["components"] if row["scope"] == "optional"}
    assert "starlette" in optional
    assert "pydantic" not in optional
    assert set(roots) == wanted | {f"npm:{name}" for name in inside}


@pytest.mark.skipif(find_spec("cyclonedx") is None, reason="cyclonedx-python-lib is in requirements/release.txt")
def test_the_bill_of_materials_is_valid_and_fresh(tool):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    pins = tool("pins")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(pins.SBOM.read_text()) is None
    bom = tool("sbom").document()
    assert str(bom.serial_number) in pins.SBOM.read_text()


def test_licences_of_what_is_inside_are_in_the_wheel(tool):
    pins = tool("pins")
    text = (ROOT / "THIRD-PARTY.txt").read_text()
    for row in json.loads(pins.SBOM.read_text())["components"]:
        if "properties" in row:
            full = f"{row['group']}/{row['name']}" if "group" in row else row["name"]
            assert f"\n{full} {row['version']}\n" in text
    assert "THIRD-PARTY.txt" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license-files"]


RANGES = [{"introduced": "1.2"}, {"fixed": "1.4.1"}, {"introduced": "2.0"}, {"last_affected": "2.3"}]


@pytest.mark.parametrize(
    ("version", "hit"),
    [
        ("1.1.9", False),
        ("1.2", True),
        ("1.4", True),
        ("1.4.1", False),
        ("2.0rc1", False),
        ("2.3", True),
        ("2.3.1", False),
    ],
)
def test_ranges_of_advisories(tool, version, hit):
    assert tool("osv").within(RANGES, version) is hit


def test_what_cannot_be_ordered_hides_nothing(tool):
    assert tool("osv").within([{"introduced": "0"}, {"fixed": "r2020-final"}], "3.1")


def test_advisories_of_a_folder(tool, tmp_path, monkeypatch, capsys):
    def advisory(identity, name, **more):
        ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99999"}]}]
        package = {"ecosystem": "PyPI", "name": name}
        return {"id": identity, "affected": [{"package": package, "ranges": ranges}], **more}

    (tmp_path / "a.json").write_text(json.dumps(advisory("PYSEC-1", "Typing_Extensions")))
    (tmp_path / "b.yaml").write_text(json.dumps(advisory("PYSEC-2", "numpy", withdrawn="2024-01-01T00:00:00Z")))
    (tmp_path / "c.json").write_text(json.dumps(advisory("PYSEC-3", "not-ours")))
    audit = tool("audit")
    monkeypatch.setattr("sys.argv", ["audit", "--advisories", str(tmp_path)])
    assert audit.main() == 1
    assert re.search(r"1 found\n  typing-extensions \S+: PYSEC-1\n$", capsys.readouterr().out)


def test_a_service_that_does_not_answer_has_judged_nothing(tool, monkeypatch, capsys):
    audit = tool("audit")
    silent = {
        "dependencies": [{"name": "numpy", "skip_reason": "not found"}],
        "message": "405 Method Not Allowed - POST",
    }
    monkeypatch.setattr(audit, "parsed", lambda command, folder: silent)
    monkeypatch.setattr("sys.argv", ["audit"])
    assert audit.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [bool(re.match(r"(PyPI|npm): 0 of \d+ packages judged, 0 found; SKIPPED \d+: ", li)) for li in lines] == [
        True
    ] * 2
    monkeypatch.setattr("sys.argv", ["audit", "--must"])
    assert audit.main() == 1
    found = {"dependencies": [{"name": "numpy", "version": "1", "vulns": [{"id": "PYSEC-9"}]}], "vulnerabilities": {}}
    monkeypatch.setattr(audit, "parsed", lambda command, folder: found)
    assert audit.main() == 1
    assert "  numpy 1: PYSEC-9\n" in capsys.readouterr().out


def wheel(path, text, date=(1980, 1, 1, 0, 0, 0)):
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a/b.py", date), text)
        archive.writestr(zipfile.ZipInfo("a/c.py", (1980, 1, 1, 0, 0, 0)), "same")
    return path


def test_builds_that_differ_are_named_by_member(tool, tmp_path):
    differing = tool("release").differing
    one = wheel(tmp_path / "1" / "a.whl", "x = 1")
    assert differing(one, wheel(tmp_path / "2" / "a.whl", "x = 1")) == ""
    assert differing(one, wheel(tmp_path / "3" / "a.whl", "x = 2")) == "a.whl: the two builds differ in a/b.py"
    later = wheel(tmp_path / "4" / "a.whl", "x = 1", date=(1980, 1, 1, 0, 0, 2))
    assert differing(one, later) == "a.whl: the two builds differ in a/b.py"


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen here")
def test_sums_are_signed_and_a_changed_file_is_noticed(tool, tmp_path):
    release = tool("release")
    out, key = tmp_path / "out", tmp_path / "key"
    out.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    release.written(release.Commit.head(), [wheel(tmp_path / "1" / "a.whl", "x = 1")], out)
    release.signed(out, key)
    statement = json.loads((out / "provenance.json").read_text())
    assert statement["subject"] == [{"name": "a.whl", "digest": {"sha256": release.digest(out / "a.whl")}}]
    (tmp_path / "signers").write_text(f"releases {key.with_suffix('.pub').read_text()}")
    page = (ROOT / "docs/how-to/release.md").read_text()
    command = re.search(r"^ssh-keygen -Y verify.*?\n\n?sha256sum [^\n]*", page, re.M | re.S)[0]
    command = command.replace("SIGNERS", str(tmp_path / "signers"))

    def verified():
        return subprocess.run(["bash", "-e", "-c", command], cwd=out, capture_output=True, check=False).returncode == 0

    assert verified()
    sums = (out / "SHA256SUMS").read_text()
    (out / "SHA256SUMS").write_text(sums.replace("a.whl", "b.whl"))
    assert not verified()
    (out / "SHA256SUMS").write_text(sums)
    (out / "a.whl").write_bytes(b"x")
    assert not verified()
