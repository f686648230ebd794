"""Writes which deployments InferenceX's published configurations run: one line a recipe, with the days it stood.

python validation/tools/serving_recipes.py CHECKOUT   (a clone of SemiAnalysisAI/InferenceX with its history)
"""

import csv
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "validation/src/railyard_validation/data/inferencex_recipes.csv"
NAMES = (".github/configs/nvidia-master.yaml", "configs/nvidia-master.yaml")
FROM, UNTIL = "2025-11-25", "2026-04-14"
UNSAID = 2
POOL = ("workers", "tp", "ep", "copies")
FIELDS = ("model", "precision", "engine", "device", "isl", "osl", "drafts")
HEADER = (
    *FIELDS,
    *(f"prefill_{name}" for name in POOL),
    *(f"decode_{name}" for name in POOL),
    "users",
    "first",
    "last",
)


def git(where: str, *words: str) -> str:
    return subprocess.run(["git", "-C", where, *words], check=True, capture_output=True, text=True).stdout


def pool(entry: dict) -> tuple[int, ...]:
    return int(entry["num-worker"]), int(entry["tp"]), int(entry["ep"]), int(bool(entry["dp-attn"]))


def drafts(entry: dict) -> int:
    """Drafted tokens: named in the recipe's file, else those of SGLang in one server (dsr1_fp8_b200_mtp.sh)."""
    if entry.get("spec-decoding", "none") != "mtp":
        return 0
    said = re.search(r"mtp(\d)", " ".join(entry["prefill"].get("additional-settings", [])).lower())
    return int(said.group(1)) if said and said.group(1) != "0" else UNSAID


def recipes(text: str) -> Iterator[tuple]:
    """Facts of each recipe, once for each number of users."""
    for config in yaml.load(text, yaml.CSafeLoader).values():
        if not config.get("disagg"):
            continue
        engine = "sglang" if "sglang" in config["framework"] else "trtllm"
        for lengths in config["seq-len-configs"]:
            for entry in lengths["search-space"]:
                if "decode" not in entry:
                    continue
                own = (
                    config["model-prefix"].split("-")[0],
                    config["precision"],
                    engine,
                    config["runner"].split("-")[0],
                )
                users = entry.get("conc-list") or [entry["conc-start"], entry["conc-end"]]
                facts = (
                    *own,
                    lengths["isl"],
                    lengths["osl"],
                    drafts(entry),
                    *pool(entry["prefill"]),
                    *pool(entry["decode"]),
                )
                for each in users:
                    yield (*facts, int(each))


def main() -> None:
    where, days = sys.argv[1], {}
    log = git(where, "log", "--reverse", f"--since={FROM}", f"--until={UNTIL}", "--format=%H %cs", "--", *NAMES).split(
        "\n"
    )
    versions = [line.split() for line in log if line]
    # The last of each day.
    versions = list({day: (commit, day) for commit, day in versions}.values())
    for (commit, day), later in zip(versions, [*versions[1:], ("", UNTIL)], strict=True):
        held = git(where, "ls-tree", "-r", "--name-only", commit).split("\n")
        name = next((one for one in NAMES if one in held), None)
        if name is None:
            continue
        for recipe in recipes(git(where, "show", f"{commit}:{name}")):
            first, _ = days.get(recipe, (day, day))
            days[recipe] = first, later[1]
    with OUT.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(HEADER)
        whole = {}
        for recipe, span in days.items():
            whole.setdefault((*recipe[:-1], *span), []).append(recipe[-1])
        for key, users in sorted(whole.items(), key=str):
            writer.writerow([*key[:-2], " ".join(str(one) for one in sorted(users)), *key[-2:]])


if __name__ == "__main__":
    main()
