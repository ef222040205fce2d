"""Train every run of reproduce.yaml, one after another, and make its tables.

    python examples/paper/reproduce.py --state runs/reproduce --base MINILM_FOLDER --data DATA

STATE keeps everything: encoders in NAME-seedSEED/final, the tables, and runs.jsonl with the minutes
and the peak memory of each run. A run that is complete is not repeated, and one that was stopped
resumes from its last checkpoint, so the same command continues. The first seeds come first, and
after each the tables are made of what there is.

DATA is a folder with research data that can't be redistributed, each part of which may be missing:
roc_val.json and tripod_train.json (labels by people; without them, the labels of the package are
used, which are not by people) and roc_with_negatives.jsonl (distractors by people). Names are
replaced if the spaCy pipeline of `--pipeline` is installed. Runs whose rows can't be made are
skipped.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import psutil
import torch
from plan import Plan, Run, read_plan

from narrative_twins.data import load_story_twins
from narrative_twins.making.entities import PIPELINE

HERE = Path(__file__).resolve().parent
MINUTES = {"stories": 2.0, "synopses": 6.0}
"""Of a run with its scores on two cores, until one of its kind is measured."""
POLL = 0.5  # seconds between two looks at the memory of a run


@dataclass(frozen=True)
class Job:
    """A run with one of its seeds, and the data of its table."""

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
    def kind(self) -> str:
        """Runs of a kind take about as long."""
        trains = self.run.settings.get("num_train_epochs") != 0
        return f"{self.data}, {self.run.script.stem if trains else 'not trained'}"


def jobs_of(plan: Plan) -> list[Job]:
    """The jobs of a plan: the first seed of each run, in the order of the plan, then the second."""
    data = {row.name: table.data for table in plan.tables for row in table.rows}
    jobs = [
        (position, Job(run, seed, data[run.name]))
        for run in plan.runs.values()
        for position, seed in enumerate(run.seeds)
    ]
    return [job for _, job in sorted(jobs, key=lambda pair: pair[0])]


def has_rows(job: Job) -> bool:
    """Whether there are the rows that a run is trained on."""
    source = job.run.settings.get("train_source")
    return source is None or Path(source).is_file()


def records() -> list[dict[str, object]]:
    """What was measured of the runs, also before a stop."""
    log = Path("runs.jsonl")
    return (
        [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    )


def minutes_left(jobs: Sequence[Job]) -> float:
    """An estimate for the jobs that are not complete, from the measured runs of their kind."""
    measured: dict[object, list[float]] = {}
    for record in records():
        measured.setdefault(record["kind"], []).append(float(str(record["minutes"])))
    return sum(
        fmean(measured[job.kind]) if job.kind in measured else MINUTES[job.data]
        for job in jobs
        if not job.is_complete
    )


def train(job: Job, base: str) -> None:
    """Train a run, resuming from its last checkpoint, and record its time and memory. Raises
    `SystemExit` if it fails."""
    for checkpoint in job.folder.glob("checkpoint-*"):
        if not (checkpoint / "trainer_state.json").is_file():
            shutil.rmtree(checkpoint)  # it was being written when the run was stopped
    words = [sys.executable, str(job.run.script), *job.run.flags, "--encoder", base, "--resume"]
    words += ["--seed", str(job.seed), "--output_dir", str(job.folder)]
    words += [] if torch.cuda.is_available() else ["--use_cpu"]
    job.folder.mkdir(exist_ok=True)
    is_resumed = any(job.folder.glob("checkpoint-*"))
    start, peak = time.perf_counter(), 0
    with (job.folder / "output.log").open("a", encoding="utf-8") as log:
        process = psutil.Popen(words, stdout=log, stderr=log)
        try:
            while process.poll() is None:
                peak = max(peak, memory(process))
                time.sleep(POLL)
        finally:
            if process.poll() is None:
                process.terminate()
    if process.returncode or not job.is_complete:
        raise SystemExit(f"reproduce: {job.folder} failed; see {Path(log.name).resolve()}")
    for checkpoint in job.folder.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    record = {"run": job.run.name, "seed": job.seed, "kind": job.kind, "resumed": is_resumed}
    record |= {"minutes": (time.perf_counter() - start) / 60, "peak_gb": peak / 1e9}
    with Path("runs.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(record) + "\n")


def memory(process: psutil.Process) -> int:
    """The memory that a process occupies, in bytes; 0 once it has ended."""
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def make_rows(data: Path, pipeline: str) -> None:
    """Make the rows of the runs that need others than the package has."""
    Path("rows").mkdir(exist_ok=True)
    people, entities = Path("rows/human_distractors.jsonl"), Path("rows/entities.jsonl")
    stories = Path("rows/stories.jsonl")
    if not people.exists() and (data / "roc_with_negatives.jsonl").exists():
        sys.path.insert(0, str(HERE.parent / "default_encoder"))
        from train_twins import human_distractors

        rows = human_distractors(data / "roc_with_negatives.jsonl").shuffle(seed=0)
        size = len(load_story_twins(split="train"))
        rows.select(range(size)).to_json(people, force_ascii=False)
    if not entities.exists():
        load_story_twins(split="train").to_json(stories, force_ascii=False)
        words = ["-m", "narrative_twins", "make", "entities", str(stories), "-o", str(entities)]
        options = ["--pipeline", pipeline, "--resume", "--quiet"]
        subprocess.run([sys.executable, *words, *options], check=False)


def make_tables(plan: Path, data: Path) -> None:
    """Make the tables of all runs that are there; their scores are saved."""
    words = [sys.executable, str(HERE / "make_tables.py"), "--plan", str(plan)]
    words += ["--runs", ".", "--out", "tables"]
    for name, file in (("stories", "roc_val.json"), ("synopses", "tripod_train.json")):
        words += [f"--data-{name}", str(data / file)] if (data / file).exists() else []
    subprocess.run(words, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plan", type=Path, default=HERE / "reproduce.yaml")
    parser.add_argument("--state", type=Path, required=True, help="folder of all that is made")
    parser.add_argument(
        "--base", required=True, help="folder or Hub id of the encoder to start from"
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of research data")
    parser.add_argument("--pipeline", default=PIPELINE, help="spaCy pipeline that finds names")
    arguments = parser.parse_args()
    plan_file, data = arguments.plan.resolve(), arguments.data.resolve()
    base = str(Path(arguments.base).resolve()) if Path(arguments.base).exists() else arguments.base
    jobs = jobs_of(read_plan(plan_file))
    arguments.state.mkdir(parents=True, exist_ok=True)
    os.chdir(arguments.state)
    make_rows(data, arguments.pipeline)
    for run in dict.fromkeys(job.run.name for job in jobs if not has_rows(job)):
        print(f"{run} is skipped: its rows can't be made", flush=True)
    jobs = [job for job in jobs if has_rows(job)]
    done = sum(job.is_complete for job in jobs)
    print(f"{len(jobs)} runs, {done} complete; about {minutes_left(jobs):.0f} minutes", flush=True)
    for job, following in zip(jobs, [*jobs[1:], None], strict=True):
        is_new = not job.is_complete
        if is_new:
            train(job, base)
            print(f"{job.folder}; {minutes_left(jobs):.0f} minutes left", flush=True)
        if following is None or (
            is_new and (job.data, job.seed) != (following.data, following.seed)
        ):
            make_tables(plan_file, data)


if __name__ == "__main__":
    main()
