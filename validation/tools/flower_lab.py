"""A real federated job of Flower over shaped links in network namespaces, its rounds predicted before it runs.

Needs root, network namespaces, tbf (`sch_tbf`), and a Python with `flwr==1.10.0`: its path is the first argument. Forty
clients are drawn from the scenario below by Railyard; each gets a namespace whose link has that client's rates, sleeps
as long as that client computes, and leaves when that client leaves. What the rounds will take is written to the file
first, then the job runs.

    validation/tools/flower_lab.py /path/to/python validation/data/edge/flower.json [number of the only job]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from railyard.engine.rounds.waiting import Rule, close
from railyard.scenario import load
from railyard.scenario.variants import expand
from railyard.study.federated.participants import Drawn, cohort, drawn
from railyard.study.federated.prepare import Learning, prepare

CLIENTS, PARAMETERS = 40, 400_000
POLL_S = 3.0
"""Flower asks for messages (client) and for replies (driver) every 3 s (`flwr` 1.10: client/app.py, grpc_driver.py)."""
MASKED_BITS = 64
"""Flower sends masked numbers as NumPy int64."""
SHARES = 9
TIMEOUT_S = 120.0
NOTICED_S = 30.0
"""After so long without a ping a client is gone, and the server gets an error in its place (PING_DEFAULT_INTERVAL)."""
DRAWS = 400
SCENARIO = f"""
name: flower
workload:
  federated:
    model: {{parameters: {PARAMETERS}, flop_per_sample: 2.0e8}}
    clients:
      count: {CLIENTS}
      devices: {{phone-high: 0.3, phone-mid: 0.5, phone-low: 0.2}}
      links: {{wifi-cable: 0.5, 5g: 0.25, lte: 0.25}}
      available: {{most: 100 %, least: 100 %}}
      samples: {{mean: 300, spread: 0.5}}
    round: {{participants: {CLIENTS}, delay: {POLL_S:g} s}}
    rounds: 1
seed: 3
"""
SERVER = """
import time, numpy as np
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerApp, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.server.workflow.default_workflows import default_fit_workflow
app = ServerApp()
masked = SecAggPlusWorkflow(num_shares=SHARES, reconstruction_threshold=5, timeout=TIMEOUT)
inner = masked if MASKED else default_fit_workflow
def timed(driver, context):
    begun = time.monotonic()
    inner(driver, context)
    print("ROUND", time.monotonic() - begun, flush=True)
@app.main()
def main(driver, context):
    start = ndarrays_to_parameters([np.zeros(PARAMETERS, np.float32)])
    strategy = FedAvg(fraction_fit=1.0, fraction_evaluate=0.0, min_fit_clients=CLIENTS, min_available_clients=CLIENTS,
                      initial_parameters=start)
    legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=ROUNDS), strategy=strategy)
    DefaultWorkflow(fit_workflow=timed)(driver, legacy)
"""
CLIENT = """
import os, time, numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod
class Sleeper(NumPyClient):
    rounds = 0
    def fit(self, parameters, config):
        Sleeper.rounds += 1
        if Sleeper.rounds == int(os.environ["RY_LEAVES_IN"]):
            os._exit(0)
        time.sleep(float(os.environ["RY_COMPUTE_S"]))
        return [np.random.default_rng(1).standard_normal(parameters[0].shape).astype(np.float32)], 100, {}
app = ClientApp(client_fn=lambda context: Sleeper().to_client(), mods=[secaggplus_mod] if MASKED else [])
"""


def learning() -> Learning:
    """The scenario, prepared."""
    draft = load.from_text(SCENARIO, Path("flower.yaml"))
    return prepare(expand(draft, ()))[0]


def population(job: Learning) -> Drawn:
    """The forty clients; namespaces add no distance and lose nothing, so these are taken out of their paths."""
    rows = drawn(job, job.clients, np.arange(CLIENTS), 0.0)
    flat = np.zeros(CLIENTS)
    paths = replace(rows.paths, rtt_s=flat + 5e-4, loss=flat, up_bps=np.minimum(rows.paths.up_bps, 3e7))
    return replace(rows, paths=replace(paths, down_bps=np.minimum(paths.down_bps, 6e7)))


def as_sent(job: Learning, *, masked: bool) -> Learning:
    """What Flower sends: floats each way, or int64 up."""
    bits = MASKED_BITS if masked else 32
    return replace(job, sent=replace(job.sent, up_bytes=PARAMETERS * bits / 8.0))


def predicted_s(job: Learning, rows: Drawn, *, masked: bool, leaves: int) -> float:
    """Mean round over the phases of everybody's polls; the driver looks every 3 s, too."""
    part = cohort(as_sent(job, masked=masked), job.clients, rows, 0)
    random, found = np.random.default_rng(1), []
    for _ in range(DRAWS):
        stage = [random.uniform(0.0, POLL_S, CLIENTS).max() for _ in range(3 if masked else 0)]
        total = sum(_looked(seconds) for seconds in stage)
        gone = np.where(np.arange(CLIENTS) < leaves, part.compute_s.min() + NOTICED_S, np.inf)
        phases = replace(part, delay_s=random.uniform(0.0, POLL_S, CLIENTS), leave_s=gone)
        total += _looked(min(close(phases, Rule(CLIENTS, 1)).took_s, TIMEOUT_S))
        found.append(total)
    return float(np.mean(found))


def _looked(seconds: float) -> float:
    """When the driver sees that all replies are there."""
    return POLL_S * float(np.ceil(seconds / POLL_S))


def shape(number: int, rows: Drawn) -> None:
    """A namespace whose link has the rates of one client."""
    space, here, there = f"fl{number}", f"flh{number}", f"flc{number}"
    run("ip", "netns", "add", space)
    run("ip", "link", "add", here, "type", "veth", "peer", "name", there)
    run("ip", "link", "set", there, "netns", space)
    run("ip", "link", "set", here, "master", "flbr")
    run("ip", "link", "set", here, "up")
    run("ip", "-n", space, "addr", "add", f"10.77.0.{number + 10}/24", "dev", there)
    for device in (there, "lo"):
        run("ip", "-n", space, "link", "set", device, "up")
    down, up = rows.paths.down_bps[number], rows.paths.up_bps[number]
    shaper = ("root", "tbf", "burst", "20kb", "latency", "200ms", "rate")
    run("tc", "qdisc", "add", "dev", here, *shaper, f"{int(down * 1514 / 1500)}bit")
    run("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", there, *shaper, f"{int(up * 1514 / 1500)}bit")


def run(*words: str) -> None:
    """A command that must work."""
    subprocess.run(words, check=True)


def play(python: Path, compute: np.ndarray, rounds: int, *, masked: bool, leaving: int) -> list[float]:
    """Runs a job; seconds of each round."""
    values = {"PARAMETERS": PARAMETERS, "CLIENTS": CLIENTS, "ROUNDS": rounds, "MASKED": masked}
    values |= {"SHARES": SHARES, "TIMEOUT": TIMEOUT_S}
    head = "\n".join(f"{name} = {value!r}" for name, value in values.items())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "server.py").write_text(f"{head}\n{SERVER}", encoding="utf-8")
        Path(folder, "client.py").write_text(f"{head}\n{CLIENT}", encoding="utf-8")
        tool = python.parent
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        link = subprocess.Popen([str(tool / "flower-superlink"), "--insecure"], **quiet)
        time.sleep(8)
        started = [link]
        try:
            for number in range(CLIENTS):
                leaves_in = 2 if number < leaving else 10**6
                env = {**os.environ, "RY_COMPUTE_S": str(compute[number]), "RY_LEAVES_IN": str(leaves_in)}
                command = ["ip", "netns", "exec", f"fl{number}", str(tool / "flower-client-app"), "client:app"]
                command += ["--insecure", "--superlink", "10.77.0.1:9092", "--dir", folder]
                started.append(subprocess.Popen(command, env=env, **quiet))
                time.sleep(0.5)
            time.sleep(30)
            command = [str(tool / "flower-server-app"), "server:app", "--insecure", "--superlink", "127.0.0.1:9091"]
            done = subprocess.run([*command, "--dir", folder], capture_output=True, text=True, timeout=900, check=False)
            lines = [line.split() for line in done.stdout.splitlines() if line.startswith("ROUND")]
            if not lines:
                print(done.stdout[-2000:], done.stderr[-4000:], file=sys.stderr)
            return [float(line[1]) for line in lines]
        finally:
            for process in reversed(started):  # a client that is asked politely waits for its server
                process.kill()
                process.wait()


def main(python: Path, target: Path, only: int | None = None) -> None:
    """Predicts, writes, runs, writes."""
    job = learning()
    rows = population(job)
    compute = cohort(job, job.clients, rows, 0).compute_s
    todo = [("fedavg", False, 0, 3), ("secagg-plus", True, 0, 3), ("secagg-plus, 4 leave", True, 4, 2)]
    todo = todo if only is None else [todo[only]]
    found = [
        {
            "job": name,
            "predicted_s": [
                predicted_s(job, rows, masked=masked, leaves=leaving if number == 1 else 0) for number in range(rounds)
            ],
            "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        for name, masked, leaving, rounds in todo
    ]
    target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    run("ip", "link", "add", "flbr", "type", "bridge")
    try:
        run("ip", "addr", "add", "10.77.0.1/24", "dev", "flbr")
        run("ip", "link", "set", "flbr", "up")
        for number in range(CLIENTS):
            shape(number, rows)
        for row, (_, masked, leaving, rounds) in zip(found, todo, strict=True):
            row["measured_s"] = play(python, compute, rounds, masked=masked, leaving=leaving)
            target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(row, file=sys.stderr, flush=True)
    finally:
        for number in range(CLIENTS):
            subprocess.run(("ip", "netns", "del", f"fl{number}"), check=False)
        subprocess.run(("ip", "link", "del", "flbr"), check=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
