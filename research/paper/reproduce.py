"""Train and score every run of reproduce.yaml, one after another, and make its tables.

    python research/paper/reproduce.py --state runs/reproduce --base MINILM_FOLDER --data DATA

STATE keeps everything: encoders in NAME-seedSEED/final, tables in `tables`, and runs.jsonl with the
minutes and the peak memory of each run. A complete run is not repeated, and one that was stopped
resumes from its last checkpoint: the same command continues. All first seeds come first; the tables
are made of what there is whenever a set of runs is complete.

DATA is a folder with research data that can't be redistributed, each part of which may be missing:
roc_val.json and tripod_train.json (labels by people; without them, the labels of the package are
used, which are not by people), and roc_with_negatives.jsonl (distractors by people). Names are
replaced if there is the spaCy pipeline of `--pipeline`. Runs without their rows are skipped.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import psutil
import torch
import yaml
from plan import Plan, Run, read_plan
from replication import write_replication
from reproduce_rows import make_rows
from workspace import split_of

from narrative_twins import OPERATIONS
from narrative_twins.evaluation.labelled_stories import load_labelled
from narrative_twins.evaluation.scorers import encoder_runs
from narrative_twins.making.entities import PIPELINE

HERE = Path(__file__).resolve().parent
MINUTES = {"stories": 2.0, "synopses": 6.0}
"""Of a run on two cores, until one of its kind is measured."""
PLAN = Path("plan.yaml")
LABELS = {"stories": "roc_val.json", "synopses": "tripod_train.json"}


@dataclass(frozen=True)
class Job:
    """A run with one of its seeds, and the data that it is scored on."""

    run: Run
    seed: int
    data: str

    @property
    def folder(self) -> Path:
        return self.run.folder(Path(), self.seed)

    @property
    def is_complete(self) -> bool:
        """Whether its encoder is saved; the card is written last."""
        return (self.folder / "final" / "README.md").is_file()

    @property
    def has_rows(self) -> bool:
        source = self.run.settings.get("train_source")
        return source is None or Path(source).is_file()

    @property
    def kind(self) -> str:
        """Runs of a kind take about as long."""
        is_trained = self.run.settings.get("num_train_epochs") != 0
        return f"{self.data}, {self.run.script.stem if is_trained else 'not trained'}"


def write_plan(plan: Path, base: str) -> Plan:
    """Save a plan with an encoder to start from, so that its commands are complete; returns it."""
    content = yaml.safe_load(plan.read_text(encoding="utf-8"))
    for run in content["runs"].values():
        run |= {key: str((plan.parent / run[key]).resolve()) for key in ("script", "config")}
        run["settings"] = {"encoder": base, **run.get("settings", {})}
    PLAN.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return read_plan(PLAN)


def jobs_of(plan: Plan) -> list[Job]:
    """The jobs of a plan: all runs in their order with their first seed, then with the second."""
    data = {row.name: table.data for table in plan.tables for row in table.rows}
    jobs = [Job(run, seed, data[run.name]) for run in plan.runs.values() for seed in run.seeds]
    return sorted(jobs, key=lambda job: job.run.seeds.index(job.seed))


def minutes_left(jobs: Sequence[Job]) -> float:
    """An estimate for the jobs that are not complete, by the measured ones of their kind."""
    log, measured = Path("runs.jsonl"), dict[str, list[float]]()
    for record in map(json.loads, log.read_text("utf-8").splitlines() if log.exists() else []):
        measured.setdefault(record["kind"], []).append(record["minutes"])
    left = (job for job in jobs if not job.is_complete)
    return sum(fmean(measured.get(job.kind, [MINUTES[job.data]])) for job in left)


def train(job: Job) -> float:
    """Train a run, from its last checkpoint if there is one; returns the peak memory in GB."""
    for checkpoint in job.folder.glob("checkpoint-*"):
        if not (checkpoint / "trainer_state.json").is_file():
            shutil.rmtree(checkpoint)  # the run was stopped while it was written
    words = [sys.executable, str(job.run.script), *job.run.flags, "--resume"]
    words += ["--seed", str(job.seed), "--output_dir", str(job.folder)]
    words += [] if torch.cuda.is_available() else ["--use_cpu"]
    job.folder.mkdir(exist_ok=True)
    peak = 0
    with (job.folder / "output.log").open("a", encoding="utf-8") as log:
        process = psutil.Popen(words, stdout=log, stderr=log)
        try:
            while process.poll() is None:
                with contextlib.suppress(psutil.Error):  # it has just ended
                    peak = max(peak, process.memory_info().rss)
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                process.terminate()
    if process.returncode or not job.is_complete:
        raise SystemExit(f"reproduce: {job.folder} failed; see {Path(log.name).resolve()}")
    for checkpoint in job.folder.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    return peak / 1e9


def score(job: Job, plan: Plan, sources: dict[str, str]) -> None:
    """Save the scores of a trained run, which the tables are made of."""
    source = sources[job.data]
    labelled = load_labelled(source, split_of(job.data, source))
    options = {"operations": list(OPERATIONS), **plan.scoring.get(job.data, {})}
    folder, encoders = Path("tables", job.data, "scores"), [str(job.folder / "final")]
    loading = {"dtype": "auto"}
    list(encoder_runs(labelled, job.run.name, encoders, folder=folder, loading=loading, **options))


def make_tables(sources: dict[str, str]) -> None:
    """Make the tables of all runs that are there, and the verdicts on the claims of the paper."""
    words = [sys.executable, str(HERE / "make_tables.py"), "--plan", str(PLAN), "--runs", "."]
    data = [word for name, source in sources.items() for word in (f"--data-{name}", source)]
    subprocess.run([*words, "--out", "tables", *data], check=True)
    write_replication(Path())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--plan", type=Path, default=HERE / "reproduce.yaml")
    add("--state", type=Path, required=True, help="folder of all that is made")
    add("--base", required=True, help="folder or Hub id of the encoder to start from")
    add("--data", type=Path, default=Path("data"), help="folder of research data")
    add("--pipeline", default=PIPELINE, help="spaCy pipeline that finds names")
    arguments = parser.parse_args()
    # A child would go on after a SIGTERM.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan_file, data, base = arguments.plan.resolve(), arguments.data.resolve(), arguments.base
    base = str(Path(base).resolve()) if Path(base).exists() else base
    sources = {
        name: str(data / file) if (data / file).exists() else name for name, file in LABELS.items()
    }
    arguments.state.mkdir(parents=True, exist_ok=True)
    os.chdir(arguments.state)
    make_rows(data, arguments.pipeline)
    plan = write_plan(plan_file, base)
    jobs = jobs_of(plan)
    for name in dict.fromkeys(job.run.name for job in jobs if not job.has_rows):
        print(f"{name} is skipped, since there are no rows for it", flush=True)
    jobs = [job for job in jobs if job.has_rows]
    done = sum(job.is_complete for job in jobs)
    print(f"{len(jobs)} runs, {done} complete, {minutes_left(jobs):.0f} minutes left", flush=True)
    for job, after in zip(jobs, [*jobs[1:], None], strict=True):
        is_new = not job.is_complete
        if is_new:
            start = time.perf_counter()
            record = {"run": job.run.name, "seed": job.seed, "kind": job.kind}
            record["peak_gb"] = train(job)
            score(job, plan, sources)
            record["minutes"] = (time.perf_counter() - start) / 60
            with Path("runs.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(record) + "\n")
            print(f"{job.folder}, {minutes_left(jobs):.0f} minutes left", flush=True)
        if after is None or (is_new and (job.data, job.seed) != (after.data, after.seed)):
            make_tables(sources)


if __name__ == "__main__":
    main()
