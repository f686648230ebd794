"""A real federated job of Flower over shaped links in network namespaces, its rounds predicted before it runs.

Needs root, network namespaces, tbf (`sch_tbf`), and a Python with `flwr==1.10.0`: its path is the first argument. Forty
clients are drawn from the scenario below by Railyard; each gets a namespace whose link has that client's rates, sleeps
as long as that client computes, and leaves when that client leaves. What the rounds will take is written to the file
first, then the job runs.

    validation/tools/flower_lab.py /path/to/python validation/data/edge/flower_unseen.json

What hosts take for a message (interpreters here share a few processors) is measured first, in a job of few clients
whose links are not shaped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from flower_model import POLL_S, Hosts, Work, rounds_s

from railyard.work.federated.known import Drawn, cohort, drawn
from railyard.work.federated.prepare import Learning, prepare
from railyard.work.scenario import load
from railyard.work.scenario.load import expand

CLIENTS, PARAMETERS = 40, 400_000
MASKED_BITS = 64
"""Flower sends masked numbers as NumPy int64."""
SHARES = 9
TIMEOUT_S = 120.0
FEW, FEW_ROUNDS = 10, 2
"""Clients and rounds of the job that measures hosts."""
SEED = 31
"""Of the population: devices and links that no earlier run had, the first that was tried."""
LEAST_UP_BPS = 2e6
"""A slower uplink lets no ping through while it carries an update of this size, and the client counts as gone."""
APART_S = 0.5
"""From the start of one client to the next."""
SCENARIO = f"""
name: flower
workload:
  federated:
    model: {{parameters: {PARAMETERS}, flop_per_sample: 2.0e8}}
    clients:
      count: {CLIENTS}
      devices: {{phone-high: 0.3, phone-mid: 0.5, phone-low: 0.2}}
      links: {{wifi-cable: 0.6, 5g: 0.3, fibre: 0.1}}
      available: {{most: 100 %, least: 100 %}}
      samples: {{mean: 600, spread: 0.6}}
    round: {{participants: {CLIENTS}, delay: {POLL_S:g} s}}
    rounds: 1
seed: {SEED}
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
    begun, ask = time.monotonic(), driver.send_and_receive
    def asked(messages, **more):
        at, used = time.monotonic(), time.process_time()
        found = list(ask(messages, **more))
        errors = sum(message.has_error() for message in found)
        print("STAGE", time.monotonic() - at, time.process_time() - used, errors, flush=True)
        return found
    driver.send_and_receive = asked
    used = time.process_time()
    inner(driver, context)
    driver.send_and_receive = ask
    print("ROUND", time.monotonic() - begun, time.process_time() - used, flush=True)
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
def timed(message, context, call):
    used = time.process_time()
    found = call(message, context)
    with open(os.environ["RY_LOG"], "a") as file:
        print(time.process_time() - used, file=file)
    return found
class Sleeper(NumPyClient):
    rounds = 0
    def fit(self, parameters, config):
        Sleeper.rounds += 1
        if Sleeper.rounds == int(os.environ["RY_LEAVES_IN"]):
            os._exit(0)
        time.sleep(float(os.environ["RY_COMPUTE_S"]))
        return [np.random.default_rng(1).standard_normal(parameters[0].shape).astype(np.float32)], 100, {}
app = ClientApp(client_fn=lambda context: Sleeper().to_client(), mods=[timed, secaggplus_mod] if MASKED else [timed])
"""


def learning() -> Learning:
    """The scenario, prepared."""
    draft = load.from_text(SCENARIO, Path("flower.yaml"))
    return prepare(expand(draft, ()))[0]


def population(job: Learning) -> Drawn:
    """The forty clients; namespaces add no distance and lose nothing, so these are taken out of their paths."""
    rows = drawn(job, job.clients, np.arange(CLIENTS), 0.0)
    flat = np.zeros(CLIENTS)
    paths = replace(rows.paths, rtt_s=flat + 5e-4, loss=flat, up_bps=np.clip(rows.paths.up_bps, LEAST_UP_BPS, 3e7))
    return replace(rows, paths=replace(paths, down_bps=np.minimum(paths.down_bps, 6e7)))


def as_sent(job: Learning, *, masked: bool) -> Learning:
    """What Flower sends: floats each way, or int64 up."""
    bits = MASKED_BITS if masked else 32
    return replace(job, sent=replace(job.sent, up_bytes=PARAMETERS * bits / 8.0))


def predicted_s(job: Learning, rows: Drawn, hosts: Hosts, rounds: int, *, masked: bool, leaves: int) -> np.ndarray:
    """float64[draws, rounds], over the phases of everybody's polls; in the second round the first `leaves` go."""
    part = cohort(as_sent(job, masked=masked), job.clients, rows, 0)
    before = part.down_bits / part.down_bps + part.down_lag_s + part.compute_s
    work = Work(before, part.up_bits / part.up_bps + part.up_lag_s)
    gone = (np.arange(CLIENTS) < leaves, 1) if leaves else None
    return rounds_s(work, hosts, rounds, apart_s=APART_S, gone=gone)


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


def used_s(process: subprocess.Popen[bytes]) -> float:
    """Processor seconds of a process and the threads in it, up to now."""
    fields = Path(f"/proc/{process.pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Played:
    """A job that ran.

    Attributes:
        rounds_s: Of each round.
        stages_s: Of each question to all clients.
        stage_cpu_s: Processor seconds of the driver in each.
        errors: Replies in each that the server put there for clients that were gone, or seemed so.
        driver_s: The same in all rounds.
        calls_s: Of a client in each message, mean over clients.
        clients_s: Of a client, mean, from the first round on.
        link_s: Of the server, from the first round on.
    """

    rounds_s: list[float]
    stages_s: list[float]
    stage_cpu_s: list[float]
    errors: list[int]
    driver_s: float
    calls_s: list[float]
    clients_s: float
    link_s: float


def play(python: Path, compute: np.ndarray, rounds: int, *, masked: bool, leaving: int, shaped: bool = True) -> Played:
    """Runs a job; compute has a second for each client."""
    count = len(compute)
    values = {"PARAMETERS": PARAMETERS, "CLIENTS": count, "ROUNDS": rounds, "MASKED": masked}
    values |= {"SHARES": min(SHARES, count - 1), "TIMEOUT": TIMEOUT_S}
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
            for number in range(count):
                leaves_in = 2 if number < leaving else 10**6
                log = str(Path(folder, f"client{number}"))
                env = {
                    **os.environ,
                    "RY_LOG": log,
                    "RY_COMPUTE_S": str(compute[number]),
                    "RY_LEAVES_IN": str(leaves_in),
                }
                command = ["ip", "netns", "exec", f"fl{number}"] if shaped else []
                command += [str(tool / "flower-client-app"), "client:app", "--insecure"]
                command += ["--superlink", "10.77.0.1:9092" if shaped else "127.0.0.1:9092", "--dir", folder]
                started.append(subprocess.Popen(command, env=env, **quiet))
                time.sleep(APART_S)
            time.sleep(20 + count / 2)
            before = [used_s(process) for process in started]
            command = [str(tool / "flower-server-app"), "server:app", "--insecure", "--superlink", "127.0.0.1:9091"]
            done = subprocess.run([*command, "--dir", folder], capture_output=True, text=True, timeout=900, check=False)
            lines = [line.split() for line in done.stdout.splitlines()]
            if not any(line[:1] == ["ROUND"] for line in lines):
                print(done.stdout[-2000:], done.stderr[-4000:], file=sys.stderr)
            stayed = [at for at, process in enumerate(started) if process.poll() is None]
            after = {at: used_s(started[at]) - before[at] for at in stayed}
            of = {word: [line for line in lines if line[:1] == [word]] for word in ("ROUND", "STAGE")}
            logs = [Path(folder, f"client{at - 1}").read_text("ascii").split() for at in stayed if at]
            most = max(len(log) for log in logs)  # who left has fewer
            return Played(
                [float(line[1]) for line in of["ROUND"]],
                [float(line[1]) for line in of["STAGE"]],
                [float(line[2]) for line in of["STAGE"]],
                [int(line[3]) for line in of["STAGE"]],
                sum(float(line[2]) for line in of["ROUND"]),
                np.mean([[float(one) for one in log] for log in logs if len(log) == most], axis=0).tolist(),
                float(np.mean([seconds for at, seconds in after.items() if at])),
                after[0],
            )
        finally:
            for process in reversed(started):  # a client that is asked politely waits for its server
                process.kill()
                process.wait()


def hosts_of(python: Path, *, masked: bool) -> Hosts:
    """Processor seconds of Flower, of a job with few clients that compute nothing and whose links are free."""
    found = play(python, np.zeros(FEW), FEW_ROUNDS, masked=masked, leaving=0, shaped=False)
    stages = 4 if masked else 1
    calls = np.reshape(found.calls_s, (FEW_ROUNDS, stages)).mean(axis=0)
    besides = (found.clients_s - sum(found.calls_s)) / len(found.calls_s)  # asking, loading the app, sending
    pulls = np.reshape(found.stage_cpu_s, (FEW_ROUNDS, stages)).mean(axis=0) / FEW
    between = (found.driver_s - sum(found.stage_cpu_s)) / len(found.stage_cpu_s) / FEW
    # The server's work is the bytes: only the stage with the model has more than some kilobytes.
    link = np.zeros(stages)
    link[stages // 2] = found.link_s / FEW_ROUNDS / FEW
    return Hosts(tuple((calls + besides).tolist()), tuple(pulls.tolist()), (between,) * stages, tuple(link.tolist()))


def main(python: Path, target: Path) -> None:
    """Measures hosts, predicts, writes, runs, writes."""
    todo = [("secagg-plus", True, 0, 3)]
    hosts = {masked: hosts_of(python, masked=masked) for masked in {masked for _, masked, _, _ in todo}}
    job = learning()
    rows = population(job)
    compute = cohort(job, job.clients, rows, 0).compute_s
    found = []
    for name, masked, leaving, rounds in todo:
        draws = predicted_s(job, rows, hosts[masked], rounds, masked=masked, leaves=leaving)
        found.append(
            {
                "job": name,
                "hosts": asdict(hosts[masked]),
                "predicted_s": draws.mean(axis=0).tolist(),
                "range_s": np.quantile(draws, (0.05, 0.95), axis=0).T.tolist(),
                "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }
        )
    target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    run("ip", "link", "add", "flbr", "type", "bridge")
    try:
        run("ip", "addr", "add", "10.77.0.1/24", "dev", "flbr")
        run("ip", "link", "set", "flbr", "up")
        for number in range(CLIENTS):
            shape(number, rows)
        for row, (_, masked, leaving, rounds) in zip(found, todo, strict=True):
            played = play(python, compute, rounds, masked=masked, leaving=leaving)
            row["measured_s"], row["stages_s"] = played.rounds_s, played.stages_s
            row["processor_s"] = {"driver": played.driver_s, "client": played.clients_s, "server": played.link_s}
            row["errors"] = played.errors
            row["stage_cpu_s"], row["calls_s"] = played.stage_cpu_s, played.calls_s
            target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(row, file=sys.stderr, flush=True)
    finally:
        for number in range(CLIENTS):
            subprocess.run(("ip", "netns", "del", f"fl{number}"), check=False)
        subprocess.run(("ip", "link", "del", "flbr"), check=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
