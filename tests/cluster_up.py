"""A Slurm of one node, this machine, with everything it writes in one directory.

    with Slurm(directory) as slurm:
        slurm("sbatch", "--wrap=hostname")

The daemons (munged, slurmctld, slurmd) are child processes of the current user, without systemd or cgroups, and are
ended by their own process numbers. Two partitions: `main`, the default, and `urgent`, whose jobs preempt those of
`main`. `python tests/cluster_up.py DIRECTORY` brings one up to try things by hand until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
CPUS = 4  # that the node says it has, whatever it has
GPUS = ("/dev/null", "/dev/zero")  # and what passes for GPUs
REQUEUE_DELAY = 5  # seconds that a job queued again waits: the least that Slurm allows
GRACE = 20  # seconds that a preempted job is left to save


def missing() -> list[str]:
    """The programs that a Slurm needs and this machine has not."""
    return [name for name in PROGRAMS if _find(name) is None]


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin")


class Slurm:
    """A context manager: up on entering, down on leaving; `.environment` is what a client of it needs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {**os.environ, "SLURM_CONF": str(directory / "slurm.conf")}
        self.daemons: list[subprocess.Popen[bytes]] = []
        self.node = socket.gethostname().split(".")[0]

    def __enter__(self) -> Slurm:
        for name in ("state", "spool", "log"):
            (self.directory / name).mkdir(parents=True)
        try:
            self._start_munge()
            self._write_config()
            self._start("slurmctld", "-D", "-i")
            self._start("slurmd", "-D")
            self.wait(lambda: self("sinfo", "-h", "-p", "main", "-o", "%T", check=False) == "idle", "an idle node", 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Jobs first, so that none is left without its daemons; then the daemons in reverse order of starting."""
        if len(self.daemons) == 3:
            self("scancel", "--user", getpass.getuser(), check=False)
            with contextlib.suppress(TimeoutError):
                self.wait(lambda: not self("squeue", "-h", check=False), "an empty queue", 40)
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons.clear()

    def __call__(self, *command: str, check: bool = True) -> str:
        """What a command of Slurm prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def wait(self, happened: Callable[[], object], what: str, seconds: float) -> None:
        """Until something has happened, or an error that shows what the daemons said."""
        end = time.monotonic() + seconds
        while not happened():
            gone = next((d for d in self.daemons if d.poll() is not None), None)
            if gone or time.monotonic() > end:
                why = f"{gone.args} ended with {gone.returncode}" if gone else f"{seconds:.0f} s have passed"
                raise TimeoutError(f"waited for {what}, but {why}:\n{self._last_words()}")
            time.sleep(0.2)

    def _start_munge(self) -> None:
        """Slurm's messages are signed by munge, with a key of our own and a socket of our own."""
        key, self.socket = self.directory / "munge.key", self.directory / "munge.socket"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        files = {"socket": self.socket, "key-file": key, "pid-file": "munge.pid", "seed-file": "munge.seed"}
        words = [f"--{name}={self.directory / path}" for name, path in files.items()]
        self._start("munged", "--foreground", "--force", "--num-threads=2", *words)
        self.wait(self.socket.exists, "munged", 20)

    def _start(self, name: str, *arguments: str) -> None:
        program = _find(name)
        if program is None:
            raise RuntimeError(f"{name} is not installed")
        with (self.directory / "log" / f"{name}.out").open("wb") as log:
            self.daemons.append(
                subprocess.Popen(
                    [program, *arguments], env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
                )
            )

    def _write_config(self) -> None:
        d, user = self.directory, getpass.getuser()
        control, node = _free_ports(2)
        (d / "slurm.conf").write_text(f"""\
ClusterName=test
SlurmctldHost={self.node}(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={self.socket},cred_expire={REQUEUE_DELAY}
CredType=cred/munge
StateSaveLocation={d}/state
SlurmdSpoolDir={d}/spool
SlurmctldPidFile={d}/slurmctld.pid
SlurmdPidFile={d}/slurmd.pid
SlurmctldLogFile={d}/log/slurmctld.log
SlurmdLogFile={d}/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0,bf_interval=1,requeue_setup_env_fail
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
JobRequeue=1
KillWait=10
MinJobAge=600
InactiveLimit=0
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={self.node} NodeAddr=127.0.0.1 CPUs={CPUS} Gres=gpu:{len(GPUS)} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime={GRACE}
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
""")
        (d / "gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in GPUS))
        version = tuple(map(int, self("scontrol", "--version").split()[-1].split(".")[:2]))
        cgroups = "disabled" if version >= (23, 2) else "cgroup/v1"  # older ones must load a plugin; it is not used
        (d / "cgroup.conf").write_text(f"CgroupPlugin={cgroups}\n")

    def _last_words(self) -> str:
        logs = sorted((self.directory / "log").iterdir())
        return "\n".join(f"{log.name}: {line}" for log in logs for line in log.read_text().splitlines()[-8:])


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


if __name__ == "__main__":
    with Slurm(Path(sys.argv[1])) as up:
        print(f"export SLURM_CONF={up.environment['SLURM_CONF']}", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
