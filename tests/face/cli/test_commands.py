"""The command line as a user meets it: streams, exit codes, words; nothing heavy before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def options_of(text: str) -> set[str]:
    return {word.rstrip(",.") for word in text.split() if word.startswith("--") and word != "--"}


def test_help_and_version(cli):
    code, out, err = cli("--help")
    assert (code, err) == (0, "")
    assert {"run", "compare", "init", "schema", "catalog"} <= set(out.split())
    code, out, _ = cli("--version")
    assert code == 0
    assert out.strip().count(".") == 2


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (["run"], {"--details", "--json", "--engine", "--set", "--ray", "--out", "--quiet", "--help"}),
        (["compare"], {"--details", "--vary", "--json", "--engine", "--set", "--ray", "--out", "--quiet", "--help"}),
        (["diff"], {"--details", "--json", "--quiet", "--help"}),
        (
            ["explain"],
            {"--details", "--variant", "--depth", "--remedies", "--no-remedies", "--json", "--quiet", "--help"},
        ),
        (["export"], {"--as", "--out", "--quiet", "--help"}),
        (["trace"], {"--format", "--sort", "--drop-empty", "--json", "--help"}),
        (["place"], {"--nodes", "--policy", "--format", "--busy", "--names", "--out", "--json", "--help"}),
        (["topology"], {"--as", "--format", "--names", "--out", "--force", "--help"}),
        (
            ["synthesize"],
            {
                *("--links", "--cluster", "--collective", "--size", "--matrix", "--topology", "--chassis"),
                *("--switches", "--ranks", "--engine", "--set", "--most-sends"),
                *("--out", "--msccl", "--mscclpp", "--force", "--json", "--quiet", "--help"),
            },
        ),
        (["lab", "exec"], {"--dilation", "--routing", "--json", "--help"}),
        (
            ["scale"],
            {
                "--details",
                "--cluster",
                "--accelerators",
                "--gradients",
                "--world",
                "--parallelism",
                "--out",
                "--engine",
                "--json",
                "--quiet",
                "--help",
            },
        ),
        (["observe"], {"--details", "--out", "--cluster", "--json", "--help"}),
        (
            ["tune"],
            {
                *("--engine", "--set", "--env", "--tuner", "--configs", "--online", "--even-unsure", "--force"),
                *("--details", "--ray", "--out", "--json", "--quiet", "--help"),
            },
        ),
        (
            ["ui"],
            {
                *("--host", "--port", "--tokens", "--certificate", "--key", "--behind-proxy", "--name", "--runs"),
                *("--ray", "--open", "--no-open", "--api-only", "--processes", "--help"),
            },
        ),
        (
            ["watch"],
            {
                *("--prometheus", "--rehearse", "--cluster", "--out", "--export", "--every", "--once"),
                *("--json", "--help"),
            },
        ),
        (["diagnose"], {"--cluster", "--symptom", "--out", "--json", "--help"}),
        (
            ["deploy"],
            {"--details", "--out", "--os", "--provision", "--inventory", "--set", "--json", "--quiet", "--help"},
        ),
        (
            ["accept"],
            {"--out", "--results", "--junit", "--pilot", "--servers", "--os", "--set", "--json", "--quiet", "--help"},
        ),
        (
            ["audit"],
            {"--details", "--ibnetdiscover", "--lldp", "--netbox", "--plan", "--with", "--out", "--json", "--help"},
        ),
        (["bring-up"], {"--details", "--set", "--json", "--quiet", "--help"}),
        (["check"], {"--junit", "--set", "--out", "--json", "--quiet", "--help"}),
        (["init"], {"--help"}),
        (["schema"], {"--help"}),
        (["catalog", "list"], {"--details", "--json", "--catalog", "--help"}),
        (["completion"], {"--help"}),
        (["catalog", "show"], {"--json", "--catalog", "--help"}),
        (["catalog", "server"], {"--accelerator", "--name", "--catalog", "--help"}),
        (["plan", "growth"], {"--details", "--set", "--report", "--json", "--help"}),
        (["plan", "worth"], {"--details", "--set", "--report", "--json", "--quiet", "--help"}),
        (["plan", "query"], {"--details", "--sql", "--where", "--columns", "--sort", "--most", "--json", "--help"}),
        (["plan", "designs"], {"--details", "--set", "--ray", "--out", "--json", "--quiet", "--help"}),
        (["operate", "scenario"], {"--details", "--vary", "--json", "--set", "--out", "--quiet", "--help"}),
        (["memo"], {"--out", "--quiet", "--help"}),
        (
            ["operate", "failures"],
            {"--fit", "--servers", "--days", "--group", "--accelerators", "--json", "--help"},
        ),
        (["calibrate", "runs"], {"--details", "--table", "--out", "--force", "--json", "--help"}),
        (
            ["calibrate", "device"],
            {
                "--details",
                "--device",
                "--entry",
                "--out",
                "--force",
                "--quick",
                "--collectives",
                "--no-collectives",
                "--json",
                "--help",
            },
        ),
    ],
)
def test_options_are_few_and_frozen(cli, command, options):
    """Parameters belong into the scenario (or `--set`): a new option is a decision, not an accident."""
    code, out, _ = cli(*command, "--help")
    assert code == 0
    assert options_of(out) == options


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rnu"], "No such command"),
        (["run"], "Missing argument"),
        (["run", "x.yaml", "--engin", "flow"], "--engin"),
        (["run", "nowhere.yaml"], "no such file"),
        (["run", "nowhere.yaml", "--json"], "no such file"),
        (["compare", "nowhere.yaml", "--vary", "a"], "no such file"),
        (["operate", "nowhere.yaml"], "no such file"),
        (["plan", "nowhere.yaml"], "no such file"),
        (["plan", "query", "nowhere"], "neither a plan nor a run"),
        (["operate", "failures", "--fit", "no.csv", "--servers", "1", "--days", "30"], "there is no such file"),
        (["observe", "nowhere"], "no such file"),
        (["diagnose", "nowhere"], "no such file"),
        (["catalog", "show", "h10"], "did you mean"),
        (["catalog", "list", "gpus"], "no kind"),
    ],
)
def test_mistakes_end_with_code_2_and_words_on_stderr(cli, arguments, words):
    code, out, err = cli(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert words in err
    assert "Traceback" not in err


def test_no_arguments_show_the_help(cli):
    code, _, err = cli()
    assert code == 2
    assert "Usage: railyard" in err


def test_a_wrong_scenario_shows_the_line_with_a_caret(cli, tmp_path):
    _, template, _ = cli("init")
    path = tmp_path / "a.yaml"
    path.write_text(
        template.replace("hgx-h100", "hgx-h1000").replace("accelerators: 256", "accelerators: many"), encoding="utf-8"
    )
    code, _, err = cli("run", str(path), "--out", str(tmp_path / "runs"))
    assert code == 2
    line = next(number for number, text in enumerate(template.splitlines(), 1) if "accelerators: 256" in text)
    assert f"--> {path}:{line}:" in err
    assert "     |                 ^" in err
    assert not (tmp_path / "runs").exists()


def test_init_writes_once(cli, tmp_path):
    path = tmp_path / "mine.yaml"
    code, out, err = cli("init", str(path))
    assert (code, out) == (0, "")
    assert "railyard run" in err
    written = path.read_text(encoding="utf-8")
    assert cli("init")[1] == written
    path.write_text("changed", encoding="utf-8")
    code, _, err = cli("init", str(path))
    assert code == 2
    assert "already exists" in err
    assert path.read_text(encoding="utf-8") == "changed"
    assert cli("init", str(tmp_path / "no" / "folder.yaml"))[0] == 2


def test_schema_is_json_schema(cli):
    code, out, _ = cli("schema")
    schema = json.loads(out)
    assert code == 0
    assert {"cluster", "workload", "compare"} <= set(schema["properties"])


def test_catalogue(cli):
    code, out, _ = cli("catalog", "list", "accelerators", "--json")
    assert code == 0
    assert "h100-sxm" in {entry["name"] for entry in json.loads(out)}
    code, out, _ = cli("catalog", "show", "H100")
    assert code == 0
    assert "989 TFLOP/s" in out
    assert "datasheet" in out
    code, out, _ = cli("catalog", "show", "h100", "--json")
    entry = json.loads(out)
    assert entry["values"]["flops.bf16"] == 989e12
    assert entry["provenance"]["flops.bf16"]["confidence"] == "vendor"


def test_our_own_fault_is_code_3_with_its_trace_in_a_file(cli, monkeypatch):
    from railyard.face.verbs import init

    def broken():
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(init, "template", broken)
    code, out, err = cli("init")
    assert (code, out) == (3, "")
    assert "please report it" in err
    assert "Traceback" not in err
    path = err.rsplit(" ", 1)[1].strip()
    with open(path, encoding="utf-8") as trace:  # noqa: PTH123 - the path as the user gets it
        assert "ZeroDivisionError" in trace.read()


def test_ctrl_c_is_code_130(cli, monkeypatch):
    from railyard.face.verbs import init

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(init, "template", interrupted)
    code, _, err = cli("init")
    assert code == 130
    assert "stopped" in err


TRAINING = {"model": "llama-3.2-1b", "global_batch": 8, "sequence": 2048, "parallelism": {"tp": 8}}
STEP = {"name": "a", "cluster": {"accelerators": 8, "server": "hgx-h100"}, "workload": {"training": TRAINING}}
RESULT = "railyard.measure.result"
ANSWERS = f"railyard.face.reports {RESULT}.reading {RESULT}.variants {RESULT}.answers"
ROOMS = "railyard.work.training.designs railyard.work.training.spec railyard.work.serving.section railyard.engine.flow"
ONE_FLOW = ["packet", "--traffic", str(Path(__file__).parents[2] / "engine/packet/data/one.cm")]
HEAVY = {
    "cli import guard; guard.run(['--help'])": "numpy polars pydantic yaml rich scipy statistics",
    "cli import guard; guard.run(['catalog', 'list'])": "numpy polars scipy",
    "cli import guard; guard.run(['catalog', 'show', 'h100'])": f"numpy polars scipy railyard.work {RESULT}",
    f"cli import guard; guard.run({ONE_FLOW})": f"polars scipy yaml railyard.cluster.build {ANSWERS} {ROOMS}",
    f"api import run; run({STEP}, out=None)": "railyard.engine.packet railyard.engine.lab railyard.work.jobs.prepare"
    " railyard.measure.result.answers",
}
"""What a command does not need, by the command: each takes some hundredths to tenths of a second to import."""


@pytest.mark.parametrize("does", HEAVY)
def test_nothing_heavy_is_imported_in_vain(does):
    code = (
        f"import sys; from railyard.face.{does}; print(*{{*{HEAVY[does].split()}}} & {{*sys.modules}}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stderr.strip()


def test_a_closed_pipe_is_no_fault():
    code = "import sys; from railyard.face.cli import main; sys.argv = ['railyard', 'catalog', 'list']; main()"
    first = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first.stdout.readline()
    first.stdout.close()
    err = first.stderr.read()
    first.stderr.close()
    first.wait()
    assert err == ""


@pytest.mark.parametrize("where", [">&-", ">/dev/full"])
def test_output_that_cannot_be_written_is_no_fault_of_ours(where):
    command = f'exec "{sys.executable}" -m railyard.face.cli catalog list {where}'
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: the output cannot be written: ")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("railyard pl", {"place", "plan"}),
        ("railyard run --en", {"--engine"}),
        ("railyard catalog show tomahawk-", None),
    ],
)
def test_a_shell_completes_commands_options_and_names(words, found):
    asked = {"_RAILYARD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "railyard"], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    lines = set(done.stdout.split())
    assert lines == found if found else {"tomahawk-5"} <= lines
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o default -F _railyard_completion railyard"),
        ("zsh", "compdef _railyard_completion railyard"),
        ("fish", "complete --command railyard --no-files"),
        ("powershell", "Register-ArgumentCompleter -Native -CommandName railyard"),
    ],
)
def test_the_script_of_a_shell(cli, shell, line):
    code, out, _ = cli("completion", shell)
    assert (code, line in out) == (0, True)


def test_an_unknown_shell_is_refused(cli):
    code, _, err = cli("completion", "bsh")
    assert code == 2
    assert "did you mean `bash`?" in err
