"""Sweeps: what is planned, and that kills, crashes, interrupts and rivals end with every run done exactly once."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from helpers import checked, says
from hypothesis import given
from hypothesis import strategies as st

import brojepa
from brojepa import config as knobs
from brojepa.cli.parser import Parser, add_knobs, given_knobs
from brojepa.config import Config
from brojepa.errors import RequestError, RunError
from brojepa.files import write_json
from brojepa.presets import PRESETS, preset
from brojepa.runs import Run
from brojepa.runs.threads import cores
from brojepa.sweep.display import Overview
from brojepa.sweep.jobs import LOG, TABLES, Job, Status, plan, seconds_left, select
from brojepa.sweep.local import Local, start

ROTATIONS = "mnist/bro-mlp-*"
SMALL = ["--latent", "8", "--batch-size", "16"]


def test_the_tables_are_the_papers():
    assert [len(rows) for rows in TABLES.values()] == [22, 16]
    assert all(name in PRESETS for rows in TABLES.values() for name in rows)
    assert {name.split("/")[0] for name in TABLES["table2"]} == {"emnist"}


def test_presets_are_chosen_by_name_pattern_and_table_each_once():
    assert select(["mnist/fast", "mnist/f*"]) == ["mnist/fast"]
    assert select(["table1", "mnist/bro-mlp-mfr-fixed"]) == TABLES["table1"]
    with pytest.raises(RequestError, match=r"unknown preset or table 'tabel1': did you mean table1"):
        select(["tabel1"])
    with pytest.raises(RequestError, match=r"unknown preset or table 'mnist/xyz\*'"):
        select(["mnist/xyz*"])


def test_a_plan_is_the_product_with_the_first_seed_of_all_first(tmp_path):
    jobs = plan([ROTATIONS], [0, 3], tmp_path, changes={"epochs": 2}, grid={"lr": [1e-4, 1e-3], "latent": [8, 16]})
    assert len(jobs) == 4 * 2 * 2 * 2 == len({job.run.path for job in jobs})
    assert [job.seed for job in jobs] == [0] * 16 + [3] * 16
    assert {(job.config.lr, job.config.latent) for job in jobs} == {(1e-4, 8), (1e-4, 16), (1e-3, 8), (1e-3, 16)}
    assert all(job.config.epochs == 2 for job in jobs)


def test_the_same_run_is_planned_once(tmp_path):
    assert len(plan(["mnist/fast"], [0], tmp_path, grid={"epochs": [8, 8]})) == 1


def test_both_tables_in_one_sweep_tell_the_place_of_emnist_to_its_runs_alone(tmp_path):
    told = {job.config.world: job.data_dir for job in plan(["table1", "table2"], [0], tmp_path, data_dir="letters")}
    assert told == {"mnist": None, "emnist": "letters"}
    made_of = plan(["mnist/fast"], [0], tmp_path, grid={"world": ["torus:mnist,emnist", "mnist"]}, data_dir="letters")
    assert [job.data_dir for job in made_of] == ["letters", None]
    assert plan(["mnist/fast"], [0], tmp_path, data_dir="letters")[0].data_dir == "letters", (
        "it will say that it is wrong"
    )


changes = st.fixed_dictionaries(
    {},
    optional={
        "lr": st.floats(1e-9, 10), "epochs": st.integers(1, 300), "standardise": st.booleans(),
        "train_actions": st.lists(st.integers(-9, 9).filter(bool), min_size=1, max_size=4, unique=True).map(tuple),
        "action": st.sampled_from(knobs.options("action") or ()), "lowest_frequency": st.sampled_from((0, 1)),
        "schedule": st.sampled_from(("constant", "one-cycle")), "every_action": st.booleans(),
    },
)  # fmt: skip


@checked
@given(st.sampled_from(["mnist/fast", "mnist/jepa-mlp", "emnist/bro-mlp-sfr-learned"]), changes)
def test_a_jobs_command_says_its_config(name, values):
    config = preset(name).replace(**values)
    words = Job(name, config, 0, Path("runs")).command()
    assert words[:4] == [sys.executable, "-m", "brojepa", "train"]
    parser = Parser()
    parser.add_argument("preset")
    add_knobs(parser)
    for flag in ("--seed", "--out", "--device"):
        parser.add_argument(flag)
    args = parser.parse(words[4:])
    assert preset(args.preset).replace(**given_knobs(args)) == config


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to sweep: name table1, table2"),
        (["table3"], "unknown preset or table 'table3'"),
        (["table1", "--seeds", "5-0"], "--seeds '5-0': expected integers of 0 or more"),
        (["table1", "--seeds", "a"], "--seeds 'a': expected integers"),
        (["table1", "--seeds", ""], "--seeds '': expected integers"),
        (["table1", "--gpus", "x"], "--gpus 'x': expected integers"),
        (["table1", "--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["table1", "--grid", "lr"], "--grid lr has no values"),
        (["table1", "--grid", "lrr", "1"], "unknown knob in --grid 'lrr': did you mean lr"),
        (["table1", "--grid", "lr", "fast"], "--lr 'fast': expected a number"),
        (["table1", "--grid", "standardise", "yes"], "unknown value of standardise in --grid 'yes'"),
        (["table1", "--latnt", "3"], "unknown flag '--latnt': did you mean --latent"),
        (["mnist/bro-mlp-mfr-fixed", "--grid", "latent", "8", "7"], "--latent 7 is odd"),
        (["mnist/fast", "--world", "nowhere.npz"], "no world at nowhere.npz"),
        (["table2", "--seeds", "0"], "emnist"),
        (["table1", "--slurm", "partitoin=x"], "unknown --slurm key 'partitoin': did you mean partition"),
    ],
)
def test_a_wrong_request_is_one_line(cli, tmp_path, words, said):
    outcome = cli("sweep", *words, "--out", tmp_path)
    assert outcome.code == 2
    assert says(outcome.err, said), outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_dry_run_says_how_runs_stand_and_touches_nothing(cli, digits, tmp_path):
    words = ["sweep", "mnist/bro-mlp-mfr-*", "--world", digits, "--epochs", 2, *SMALL, "--seeds", "0"]
    assert cli("train", "mnist/bro-mlp-mfr-fixed", *words[2:-2], "--quiet", "--out", tmp_path).code == 0
    before = sorted(tmp_path.rglob("*"))
    outcome = cli(*words, "--out", tmp_path, "--dry-run")
    assert outcome.code == 0, outcome.err
    first, second, total = outcome.out.splitlines()
    assert first.startswith("done         brojepa train mnist/bro-mlp-mfr-fixed ")
    assert second.startswith("new          brojepa train mnist/bro-mlp-mfr-learned ")
    assert total == "2 runs, 1 done, 1 to do"
    assert sorted(tmp_path.rglob("*")) == before


# Real sweeps, in processes


class Sweep:
    """A sweep in a process of its own, that a test can watch and shoot at."""

    def __init__(self, out: Path, *words: object) -> None:
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-m", "brojepa", "sweep", *map(str, words), "--out", str(out)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def workers(self) -> list[int]:
        """The processes that train: the server forks them, and each leads a session."""
        return [pid for server in children(self.process.pid) for pid in children(server) if os.getsid(pid) == pid]

    def until(self, condition: Callable[[], object], seconds: float = 300) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited too long; it said {self.process.communicate()[0]}"
            assert self.process.poll() is None, f"ended early; it said {self.process.communicate()[0]}"
            time.sleep(0.02)

    def end(self) -> tuple[int, str]:
        text, _ = self.process.communicate(timeout=240)
        return self.process.returncode, text


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Callable[..., Sweep]]:
    begun: list[Sweep] = []

    def start(*words: object) -> Sweep:
        begun.append(Sweep(tmp_path / "runs", *words))
        return begun[-1]

    yield start
    for one in begun:
        for pid in one.workers():
            os.kill(pid, signal.SIGKILL)
        one.process.kill()
        one.process.wait()
        assert one.process.stdout
        one.process.stdout.close()


def results(out: Path) -> list[Path]:
    return sorted(out.rglob("result.json"))


def times_finished(out: Path) -> list[int]:
    """How often each run was trained to its end, by its log."""
    return [log.read_text().count("trained in") for log in sorted(out.rglob(LOG))]


def halfway(out: Path) -> list[Path]:
    """Runs that have epochs behind them and no result."""
    return [m.parent for m in out.rglob("metrics.jsonl") if not (m.parent / "result.json").exists()]


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds child processes in /proc")


@needs_proc
def test_twelve_runs_survive_the_kill_of_the_sweep_and_of_a_worker(sweep, digits):
    words = [ROTATIONS, "--world", digits, "--epochs", 12, *SMALL, "--seeds", "0-2", "--jobs", 2]
    first = sweep(*words)
    first.until(lambda: len(results(first.out)) >= 2 and halfway(first.out))
    first.process.kill()  # its workers are left behind, alive
    first.process.wait()
    early = {path: path.stat().st_mtime_ns for path in results(first.out)}
    assert len(early) < 12

    second = sweep(*words)
    second.until(lambda: len(second.workers()) == 2 and halfway(second.out))
    os.kill(second.workers()[0], signal.SIGKILL)
    code, text = second.end()
    assert code == 0, text
    assert "12 runs done" in text
    assert "killed by SIGKILL, perhaps out of memory" in text
    assert len(results(second.out)) == 12
    assert times_finished(second.out) == [1] * 12, "a run was done twice"
    assert {path: path.stat().st_mtime_ns for path in early} == early

    again = sweep(*words)
    assert again.end() == (0, "12 runs done\n")


def test_two_sweeps_at_once_share_the_runs(sweep, digits):
    words = [ROTATIONS, "--world", digits, "--epochs", 4, *SMALL, "--seeds", "0", "--jobs", 2]
    both = [sweep(*words), sweep(*words)]
    for code, text in [one.end() for one in both]:
        assert code == 0, text
        assert "4 runs done" in text
    assert times_finished(both[0].out) == [1] * 4


def test_one_run_that_fails_is_tried_twice_and_shown_and_the_others_finish(sweep, digits):
    one = sweep(
        "mnist/bro-mlp-mfr-fixed", "--world", digits, "--epochs", 3, *SMALL, "--seeds", "0", "--jobs", 2,
        "--grid", "lr", "1e-4", "1e30",
    )  # fmt: skip
    code, text = one.end()
    assert code == 1
    assert len(results(one.out)) == 1
    failed = next(line for line in text.splitlines() if line.startswith("failed:"))
    assert "--lr=1e+30" in failed
    assert "exit code 1" in failed
    assert "  | brojepa: error: the loss is not finite" in text
    assert "1 of 2 runs failed" in text
    (log,) = (p for p in one.out.rglob(LOG) if not (p.parent / "result.json").exists())
    assert log.read_text().count("the loss is not finite") == 2


def test_ctrl_c_saves_and_the_same_command_goes_on(sweep, digits):
    words = ["mnist/bro-mlp-mfr-*", "--world", digits, "--epochs", 30, *SMALL, "--seeds", "0", "--jobs", 2]
    first = sweep(*words)
    first.until(lambda: len(halfway(first.out)) == 2)
    os.killpg(first.process.pid, signal.SIGINT)  # as a terminal does: to the sweep and all that share its group
    code, text = first.end()
    assert code == 130, text
    assert "stopped with 0 of 2 runs done" in text
    assert all(not Run(path).busy for path in halfway(first.out))
    second = sweep(*words)
    code, text = second.end()
    assert code == 0, text
    assert all("resuming at epoch" in log.read_text() for log in second.out.rglob(LOG))
    assert times_finished(second.out) == [1, 1]


def test_a_run_of_a_sweep_is_the_run_of_the_command(sweep, cli, digits, tmp_path):
    words = ["mnist/bro-mlp-mfr-fixed", "--world", digits, "--epochs", 2, *SMALL]
    one = sweep(*words, "--seeds", 3, "--jobs", cores())
    assert one.end()[0] == 0
    assert cli("train", *words, "--seed", 3, "--out", tmp_path / "alone", "--quiet").code == 0
    (swept,), (alone,) = results(one.out), results(tmp_path / "alone")
    told = [{k: v for k, v in json.loads(f.read_text()).items() if "second" not in k} for f in (swept, alone)]
    assert told[0] == told[1]
    assert (swept.parent / "config.json").read_text() == (alone.parent / "config.json").read_text()
    environments = [json.loads((file.parent / "env.json").read_text()) for file in (swept, alone)]
    for environment in environments:
        assert environment["starts"][0].pop("date")
    assert environments[0] == environments[1]
    weights = [brojepa.load(file.parent, "cpu").state_dict() for file in (swept, alone)]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def worker_log(name: str, out: Path, **changes: object) -> tuple[int | None, str]:
    """The exit code of a worker that is given one job, and what it wrote into the run's log."""
    job = Job(name, preset(name).replace(**changes), 0, out)
    job.run.make()
    worker = start(job, 1, {})
    worker.join(60)
    return worker.exitcode, (job.run.path / LOG).read_text()


def test_a_worker_that_cannot_even_start_says_so_in_its_log(tmp_path):
    code, log = worker_log("mnist/fast", tmp_path, world=str(tmp_path / "nothing.npz"))
    assert code == 2
    assert re.fullmatch(r"brojepa: error: .*nothing\.npz.*\n", log)


def test_a_worker_has_the_environment_of_now(tmp_path, monkeypatch):
    for place in ("here", "there"):  # the second worker comes from the server that the first one started
        monkeypatch.setenv("BROJEPA_DATA", str(tmp_path / place))
        code, log = worker_log("emnist/fast", tmp_path / place)
        assert code == 2
        assert str(tmp_path / place) in log


def test_cores_and_gpus_are_shared_out(jobs, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    local = Local(jobs, 2, [4, 7])
    assert local.threads == max(1, cores() // 2)
    placed = []
    for job in jobs:
        placed.append(local.environment(job)["CUDA_VISIBLE_DEVICES"])
        local.processes[job.run.path] = multiprocessing.Process()
    assert placed == ["4", "7", "4"]
    del local.processes[jobs[0].run.path], local.processes[jobs[2].run.path]
    assert local.environment(jobs[0])["CUDA_VISIBLE_DEVICES"] == "4", "the one that is free"
    assert not Local(jobs, 2).environment(jobs[0])


# The overview


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def jobs(tmp_path) -> list[Job]:
    return plan(["mnist/bro-mlp-mfr-fixed"], [0, 1, 2], tmp_path, changes={"epochs": 10})


def finish(job: Job, seconds: float) -> None:
    job.run.make()
    result = {"seconds": seconds, "evaluation_seconds": seconds, "metrics": {"zero_shot": 0.5}}
    write_json(job.run.result_file, result)


def test_time_left_comes_from_runs_of_the_same_kind(jobs):
    status = {job.run.path: Status() for job in jobs}
    assert seconds_left(jobs, status, 2) is None
    finish(jobs[0], 50)
    status[jobs[0].run.path] = Status("done")
    assert seconds_left(jobs, status, 1) == pytest.approx(200)
    assert seconds_left(jobs, status, 2) == pytest.approx(100)
    jobs[1].run.make()
    jobs[1].run.write_metrics([{}] * 5)
    assert seconds_left(jobs, status, 1) == pytest.approx(150)


def test_the_block_is_rewritten_in_place(jobs):
    stream, status = Terminal(), {job.run.path: Status() for job in jobs}
    overview = Overview(jobs, 2, stream)
    overview.show(status)
    assert stream.getvalue() == "3 runs: 3 waiting\n"
    status[jobs[0].run.path] = Status("running", since=time.monotonic(), tries=1)
    overview.shown = -1e9
    overview.show(status)
    finish(jobs[0], 50)
    status[jobs[0].run.path] = Status("done", tries=1)
    overview.show(status)
    text = stream.getvalue()
    assert "\x1b[1F\x1b[J3 runs: 1 running, 2 waiting\n  mnist/bro-mlp-mfr-fixed --epochs=10 seed 0  epoch 1/10" in text
    assert text.endswith(
        "\x1b[2F\x1b[Jdone      mnist/bro-mlp-mfr-fixed --epochs=10 seed 0  zero-shot 0.5000  50.0 s\n"
        "3 runs: 1 done, 2 waiting; about 1 min 40 s left\n"
    )


def test_off_a_terminal_every_event_is_a_line(jobs):
    stream, status = io.StringIO(), {job.run.path: Status() for job in jobs}
    overview = Overview(jobs, 2, stream)
    for state, tries in (("running", 1), ("running", 1), ("waiting", 1), ("running", 2), ("failed", 2)):
        status[jobs[0].run.path] = Status(state, "exit code 1", tries=tries)
        overview.show(status)
    title = "mnist/bro-mlp-mfr-fixed --epochs=10 seed 0"
    assert stream.getvalue().splitlines() == [
        f"started   {title}  (3 runs: 1 running, 2 waiting)",
        f"again     {title}  (exit code 1)  (3 runs: 1 running, 2 waiting)",
        f"failed    {title}  exit code 1  (3 runs: 2 waiting, 1 failed)",
    ]


def test_a_config_names_its_run_by_what_is_not_default():
    assert Config().hash == Config().replace(lr=Config().lr).hash
    assert Config().hash != Config(lr=2e-4).hash


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", "{"),
        ("config.json", '{"config": [], "seed": 0, "world": {}}'),
        ("config.json", '{"config": {"lr": "fast"}, "seed": 0, "world": {}}'),
        ("result.json", "[]"),
        ("result.json", '{"metrics": {"seen": "high"}}'),
    ],
)
def test_a_damaged_run_fails_with_its_path_and_the_others_go_on(cli, digits, tmp_path, file, content):
    words = ("sweep", "mnist/bro-mlp-mfr-fixed", "--world", digits, "--epochs", 1, *SMALL, "--seeds", "0-1")
    changes = {"world": str(digits), "epochs": 1, "latent": 8, "batch_size": 16}
    bad, good = (job.run for job in plan(["mnist/bro-mlp-mfr-fixed"], [0, 1], tmp_path, changes=changes))
    bad.make()
    (bad.path / file).write_text(content)
    planned = cli(*words, "--out", tmp_path, "--dry-run")
    assert planned.code == 0
    assert str(bad.path / file) in planned.out
    done = cli(*words, "--out", tmp_path, "--jobs", 1)
    assert done.code == 1
    assert good.done
    assert str(bad.path / file) in next(line for line in done.out.splitlines() if line.startswith("failed:"))
    assert (bad.path / file).read_text() == content


def test_epochs_that_cannot_be_read_do_not_end_a_sweep(tmp_path):
    (job,) = plan(["mnist/fast"], [0], tmp_path)
    job.run.make()
    for content in ("{", "[]", '{"epoch": "one"}', "\xff"):
        job.run.metrics_file.write_text(content, encoding="latin-1")
        assert job.epoch == 0
        with pytest.raises(RunError, match=re.escape(str(job.run.metrics_file))):
            _ = job.run.metrics
    assert job.damage == ""


def test_workers_import_nothing_from_the_current_directory_but_own_parts(brojepa_process, tiny, tmp_path, monkeypatch):
    """The command as it is installed: Python searches the current directory only where it is asked to."""
    monkeypatch.chdir(tmp_path)
    for name in ("torch", "numpy", "selectors", "safetensors"):
        Path(f"{name}.py").write_text(f"open('{name} was run', 'w')\nraise SystemExit('not meant')")
    Path("mine.py").write_text(
        "from torch import nn\ndef encoder(shape, dim):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, dim))\n"
    )
    done = brojepa_process(
        "sweep", "mnist/bro-mlp-mfr-fixed", "--world", tiny, "--encoder", "mine:encoder", "--epochs", 1, *SMALL,
        "--seeds", "0", "--out", tmp_path / "out", prelude="import sys; sys.path.remove('')",
    )  # fmt: skip
    assert done.code == 0, (done, [log.read_text() for log in tmp_path.rglob(LOG)])
    assert len(results(tmp_path / "out")) == 1
    assert not list(tmp_path.glob("* was run"))


@pytest.mark.filterwarnings("ignore")  # of tensorboard
def test_every_run_of_a_sweep_is_tracked(cli, digits, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    words = ("mnist/bro-mlp-mfr-fixed", "--world", digits, "--seeds", "0-1", "--jobs", 2, "--epochs", 2, *SMALL)
    done = cli("sweep", *words, "--out", tmp_path, "--track", "tensorboard")
    assert done.code == 0, done.err
    runs = [Run(file.parent) for file in sorted(tmp_path.rglob("result.json"))]
    assert [run.header["seed"] for run in runs] == [0, 1]
    identities = set()
    for run in runs:
        identities.add(json.loads((run.path / "tracking.json").read_text())["id"])
        seen = events.EventAccumulator(str(run.path / "tensorboard")).Reload()
        assert [event.value for event in seen.Scalars("loss")] == pytest.approx([row["loss"] for row in run.metrics])
        assert seen.Scalars("test/seen")[-1].value == pytest.approx(run.result["metrics"]["seen"])
        assert "curves" in seen.Tags()["images"]
    assert len(identities) == 2


def test_trackers_of_a_sweep_reach_slurm_and_are_checked_first(cli, digits, tmp_path):
    (job,) = plan(["mnist/fast"], [0], tmp_path, track="tensorboard,wandb")
    assert job.command()[-2:] == ["--track", "tensorboard,wandb"]
    assert "--track" not in plan(["mnist/fast"], [0], tmp_path)[0].command()
    done = cli("sweep", "mnist/fast", "--world", digits, "--out", tmp_path, "--track", "tensorbord")
    assert done.code == 2
    assert "tensorboard" in done.err
    assert not list(tmp_path.iterdir())
