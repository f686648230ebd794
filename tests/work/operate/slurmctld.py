"""A real slurmctld, alone: nodes in the cloud that never come up, so that it places jobs and nothing runs."""

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

CONF = """ClusterName=judge
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={socket}
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile={folder}/ctld.pid
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/ctld.log
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=1,default_queue_depth=10000
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdTimeout=0
InactiveLimit=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MaxJobCount=100000
TopologyPlugin=topology/{kind}
NodeName={nodes} NodeAddr=127.0.0.1 CPUs=8 RealMemory=1000 State=CLOUD
PartitionName=main Nodes={nodes} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
ResumeProgram=/usr/bin/true
SuspendProgram=/usr/bin/true
ResumeTimeout=65000
SuspendTimeout=10
SuspendTime=-1
SlurmctldParameters=cloud_dns,idle_on_node_suspend
TreeWidth=2
"""


def missing(root=""):
    """Why no slurmctld can run here; empty where one can."""
    if os.geteuid() != 0:
        return "slurmctld wants root"
    found = shutil.which("munged") and (
        shutil.which("slurmctld") if not root else Path(root, "usr/sbin/slurmctld").exists()
    )
    return "" if found else "slurmctld and munge are not installed"


class Slurmctld:
    """One daemon in a folder; `root` is the root of another system that holds a newer Slurm."""

    def __init__(self, folder, kind, nodes, topology, *, port, root=""):
        self.root, self.inside = root, f"/tmp/judge-{port}" if root else str(folder)
        self.outside = Path(root + self.inside)
        self._command = ["chroot", root] if root else []
        self.outside.mkdir(parents=True, exist_ok=True)
        (self.outside / "state").mkdir()
        self._munge(port)
        conf = CONF.format(socket=f"{self.inside}/munge", folder=self.inside, port=port, kind=kind, nodes=nodes)
        (self.outside / "slurm.conf").write_text(conf)
        (self.outside / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        (self.outside / "topology.conf").write_text(topology)
        self.env = {**os.environ, "SLURM_CONF": f"{self.inside}/slurm.conf", "LC_ALL": "C"}

    def _munge(self, port):
        """A munge of its daemon alone: key, socket and all in its folder."""
        for folder in [self.outside, *self.outside.parents]:
            if str(folder) == (self.root or "/"):
                break
        key = self.outside / "munge.key"
        key.write_bytes(bytes(range(1, 129)))
        key.chmod(0o600)
        self.munged = [
            *(["chroot", self.root] if self.root else []),
            "munged",
            "--force",
            f"--socket={self.inside}/munge",
            f"--key-file={self.inside}/munge.key",
            f"--pid-file={self.inside}/munge.pid",
            f"--log-file={self.inside}/munge.log",
            f"--seed-file={self.inside}/munge.seed",
            "--num-threads=1",
        ]

    def __enter__(self):
        subprocess.run(self.munged, check=True, capture_output=True)
        self.run("slurmctld", "-f", f"{self.inside}/slurm.conf")
        for _ in range(100):
            if "UP" in self.run("scontrol", "ping"):
                return self
            time.sleep(0.1)
        raise RuntimeError((self.outside / "ctld.log").read_text()[-2000:])

    def __exit__(self, *_):
        for name in ("ctld.pid", "munge.pid"):
            path = self.outside / name
            if path.exists():
                _end(int(path.read_text()))
        if self.root:
            shutil.rmtree(self.outside, ignore_errors=True)

    def run(self, *command):
        done = subprocess.run([*self._command, *command], env=self.env, capture_output=True, text=True, check=False)
        self.error = done.stderr
        return done.stdout.strip()

    def submit(self, nodes, *options):
        """Number of a job of full nodes, or None where it is refused."""
        found = self.run(
            "sbatch", "--parsable", f"-N{nodes}", "--exclusive", "-o", "/dev/null", *options, "--wrap", "sleep 1"
        )
        return int(found) if found else None

    def placed(self, jobs):
        """Node names of each job, once all have some; those that have none after 10 s have an empty list."""
        for _ in range(100):
            rows = dict(
                line.split(" ", 1) for line in self.run("squeue", "-h", "-o", "%i %N").splitlines() if " " in line
            )
            if all(rows.get(str(job), "").strip() not in ("", "(null)") for job in jobs):
                break
            time.sleep(0.1)
        return {job: hostlist(rows.get(str(job), "").strip()) for job in jobs}

    def after_a_while(self, job):
        """Nodes of a job that probably waits: the scheduler has tried it by then."""
        time.sleep(1.5)
        return hostlist(self.run("squeue", "-h", "-j", str(job), "-o", "%N"))

    def cancel(self, jobs):
        """Ends jobs and waits until their nodes are free."""
        self.run("scancel", *map(str, jobs))
        gone = {str(job) for job in jobs}
        for _ in range(100):
            if not gone & set(self.run("squeue", "-h", "-o", "%i").split()):
                return
            time.sleep(0.05)


def _end(process):
    """Ends a process, which has nothing to save, and waits until it has ended, though nobody may ask how."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(process)
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], 4.0)
        finally:
            os.close(handle)


def hostlist(text):
    """Names of a list such as `n[0-3,7],m1`."""
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        found = re.fullmatch(r"(.*)\[(.*)\]", part)
        if not found:
            names += [part] if part not in ("", "(null)") else []
            continue
        for span in found[2].split(","):
            first, _, last = span.partition("-")
            names += [f"{found[1]}{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]
    return names
