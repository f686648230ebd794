"""Settings for the programs that take them: NCCL's environment, the table of its tuner plugin, switches in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.collective.tuner import settings as nccl

if TYPE_CHECKING:
    from railyard.ask.tune.settings.search import Tuned


def environment(tuned: Tuned) -> str:
    """Lines of a shell script; what NCCL has no variable for is a comment."""
    lines = ["# NCCL 2.24 or newer, from railyard tune"]
    settings, fixed = tuned.settings, _fixed(tuned)
    if "qps" in settings:
        lines += [f"export NCCL_IB_QPS_PER_CONNECTION={settings['qps']}", "export NCCL_IB_SPLIT_DATA_ON_QPS=0"]
    for name, value in fixed.variables():
        lines.append(f"export {name}={value}" if value.isdigit() else f'export {name}="{value}"')
    lines += [f"# collectives.{table} {key}: {word}: not NCCL's to set" for table, key, word in fixed.untold()]
    for key, value in settings.items():
        if key.startswith(("packet.", "cluster.", "workload.")) or key == "collectives.selector":
            lines.append(f"# {key}: {value}: not NCCL's to set")
    return "\n".join(lines) + "\n"


def tuner_table(tuned: Tuned) -> str:
    """Rows of the example tuner's table: one a collective that is fixed."""
    return nccl.tuner_table(_fixed(tuned).tuner_rows(tuned.servers, tuned.ranks))


def _fixed(tuned: Tuned) -> nccl.Fixed:
    settings = tuned.settings
    each = settings.get("collectives.connections")
    return nccl.Fixed(
        algorithm={key: str(word) for key, word in settings.get("collectives.algorithm", {}).items()},
        protocol={key: str(word) for key, word in settings.get("collectives.protocol", {}).items()},
        connections=None if each is None else int(each),
        pxn=settings.get("collectives.pxn") is not False,
        nics=tuned.nics,
    )
