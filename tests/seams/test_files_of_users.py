"""Files of users are opened in `railyard.kit.files` alone; what else opens a file is listed here, with its reason."""

import ast
from collections import defaultdict
from pathlib import Path

import railyard

PACKAGE = Path(railyard.__file__).parent
READER = "railyard/kit/files.py"

OPENS = {
    "open", "read_text", "read_bytes", "fdopen", "read_parquet", "scan_parquet", "read_parquet_schema",
    "read_parquet_metadata", "read_csv", "scan_csv", "read_json", "read_ndjson", "read_ipc", "ZipFile", "GzipFile",
    "LZMAFile", "BZ2File", "fromfile", "loadtxt", "genfromtxt", "memmap", "copyfile", "copy2", "iterparse",
    "spec_from_file_location", "run_path", "read_excel", "File",
}  # fmt: skip
"""Names of functions that open a file by its path."""

ALLOWED = (
    # What comes with Railyard.
    ("railyard/catalog/index.py", {"path.read_text('utf-8')"}),
    ("railyard/work/federated/messages.py", {"FILE.open(encoding='utf-8', newline='')"}),
    ("railyard/work/serving/software.py", {"_SHIPPED.read_text(encoding='utf-8')"}),
    (
        "railyard/work/serving/software.py",
        {
            "(_DATA / 'constants.toml').read_text(encoding='utf-8')",
            "(_DATA / 'fitted.json').read_text(encoding='utf-8')",
        },
    ),
    (
        "railyard/work/training/profiles.py",
        {
            "(_DATA / 'fitted.json').read_text(encoding='utf-8')",
            "(_DATA / 'profiles.toml').read_text(encoding='utf-8')",
        },
    ),
    # What the system says.
    ("railyard/ask/calibrate/device.py", {"Path('/proc/cpuinfo').read_text(encoding='utf-8', errors='replace')"}),
    ("railyard/engine/lab/blueprint.py", {"Path('/proc/self/status').read_text(encoding='ascii')"}),
    (
        "railyard/engine/lab/keeper.py",
        {"file.read_text(encoding='ascii')", "os.open('/proc/self/ns/net', os.O_RDONLY)"},
    ),
    # What this process, or one that it started, wrote.
    ("railyard/engine/lab/switches.py", {"(place / 'zebra.log').read_text(errors='replace')"}),
    (
        "railyard/face/web/routes/outputs.py",
        {
            "os.fdopen(os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW), 'rb')",
            "os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW)",
        },
    ),
    ("railyard/kit/table.py", {"shutil.copy2(source, target, follow_symlinks=False)"}),
    # No files.
    ("railyard/face/verbs/serve.py", {"webbrowser.open(address)"}),
    ("railyard/work/operate/running.py", {"self.scheduler.open(window)"}),
    ("railyard/work/operate/scheduler.py", {"self.open(window)"}),
    # Streams that `opened` gave, or bytes.
    ("railyard/face/api/query.py", {"pl.read_ipc(BytesIO(done.stdout))"}),
    (
        "railyard/ask/observe/reader.py",
        {"gzip.GzipFile(fileobj=raw)", "zipfile.ZipFile(raw)", "tarfile.open(fileobj=raw)"},
    ),
    (
        "railyard/work/trace/chakra.py",
        {"zipfile.ZipFile(io.BytesIO(data))", "tarfile.open(fileobj=io.BytesIO(data))"},
    ),
    # A source line below an error: errors import nothing, and look whether the file is regular themselves.
    ("railyard/kit/errors.py", {"path.open(encoding='utf-8', errors='replace')"}),
    # Python files of users, run by Python; `readable` looks at them first.
    ("railyard/kit/registry.py", {"importlib.util.spec_from_file_location(name, path)"}),
)


def opening(path):
    """Calls that open a file to read it, as they are written."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {ast.unparse(call) for call in calls if named(call) in OPENS and not harmless(call)}


def named(call):
    function = call.func
    if isinstance(function, ast.Name) and function.id in {"read_text", "read_bytes"}:
        return "of railyard.kit.files"
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def harmless(call):
    """It writes, reads what comes with Railyard by its package, or reads a path that `readable` looks at."""
    text = ast.unparse(call)
    modes = [one.value for one in ast.walk(call) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    writes = bool({"w", "wb", "x", "a"} & set(modes)) or "O_WRONLY" in text or "O_RDWR" in text
    return writes or "readable(" in text or text.startswith(("files('railyard", "(files('railyard", "resources.files("))


def test_only_one_module_opens_files_of_users():
    found = {
        name: calls
        for path in sorted(PACKAGE.rglob("*.py"))
        if (name := path.relative_to(PACKAGE.parent).as_posix()) != READER and (calls := opening(path))
    }
    allowed = defaultdict(set)
    for name, calls in ALLOWED:
        allowed[name] |= calls
    assert found == allowed
