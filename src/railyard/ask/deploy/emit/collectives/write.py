"""Files for the libraries that play collectives, and the variables that name them.

MSCCL's NCCL and MSCCL++ take the place of NCCL, so that each has an environment of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.deploy.emit.collectives.read_back import differences
from railyard.collective.tuner.settings import tuner_table
from railyard.kit.errors import SimulationError

if TYPE_CHECKING:
    from railyard.ask.deploy.emit.collectives.intent import CollectivesIntent

FOLDER = "/etc/nccl"
"""Where servers have the files; those of a plan lie in `servers/`."""

TUNER, MSCCL, MSCCLPP = "nccl-tuner.csv", "msccl", "mscclpp"


def files(intent: CollectivesIntent, shared: str) -> dict[str, str]:
    """Texts by name, read back and compared with what was meant.

    Args:
        intent: What is fixed.
        shared: Lines of `nccl.conf` that do not depend on it.

    Raises:
        SimulationError: A file says otherwise: a fault of Railyard's.
    """
    rows = intent.fixed.tuner_rows()
    lines = [f"{name}={value}" for name, value in intent.fixed.variables()]
    out = {}
    if rows:
        out[TUNER] = tuner_table(rows)
        lines += ["NCCL_TUNER_PLUGIN=libnccl-tuner-example.so", f"NCCL_TUNER_CONFIG_FILE={FOLDER}/{TUNER}"]
    out["nccl.conf"] = shared + "".join(f"{line}\n" for line in lines)
    for one in intent.schedules:
        out[f"{MSCCL}/{one.kind}.xml"] = one.msccl
        if one.mscclpp is not None:
            out[f"{MSCCLPP}/{one.kind}.json"] = one.mscclpp
    plans = [name for name in out if name.startswith(f"{MSCCL}/")]
    if plans:
        named = ":".join(f"{FOLDER}/{name}" for name in plans)
        out["msccl.env"] = f"MSCCL_XML_FILES={named}\nNCCL_ALGO=MSCCL,RING,TREE\n"
    if any(name.startswith(f"{MSCCLPP}/") for name in out):
        out["mscclpp.env"] = f"MSCCLPP_EXECUTION_PLAN_DIR={FOLDER}/{MSCCLPP}\n"
    wrong = differences(intent, out)
    if wrong:
        raise SimulationError(f"servers: what was written is not what was meant: {wrong[0]}")
    return out
