"""One command trains all runs of a plan, resumes after a kill, and says which claims replicate."""

import json
import sys
from pathlib import Path

import numpy as np
import plan
import pytest
import replication
import reproduce

from narrative_twins.evaluation.significance import paired_permutation_test

PAPER = Path(__file__).parents[1] / "paper"

SCRIPT = """\
import argparse, pathlib, time
parser = argparse.ArgumentParser()
parser.add_argument("--output_dir")
parser.add_argument("--resume", action="store_true")
flags, _ = parser.parse_known_args()
folder = pathlib.Path(flags.output_dir)
steps = sorted(folder.glob("checkpoint-*"))
print("from", [step.name for step in steps] if flags.resume else "the start")
with open("trained.txt", "a") as file:
    file.write(folder.name + "\\n")
(folder / "checkpoint-20").mkdir(exist_ok=True)
(folder / "checkpoint-20" / "trainer_state.json").write_text("{}")
if pathlib.Path("fail").exists():
    raise SystemExit(3)
(folder / "final").mkdir()
(folder / "final" / "README.md").write_text("card")
"""
PLAN = """
seeds: [1, 2]
runs:
  full: {script: train.py, config: c.yaml, seeds: [1, 2, 3]}
  untrained: {script: train.py, config: c.yaml, seeds: [1], settings: {num_train_epochs: 0}}
  people: {script: train.py, config: c.yaml, settings: {train_source: rows/people.jsonl}}
  films: {script: train.py, config: c.yaml}
tables:
  a: {caption: A., data: stories, layout: wide, rows: {x: {run: full}, y: {run: untrained}, z: {run: people}}}
  b: {caption: B., data: synopses, layout: sections, rows: {x: {run: films}}}
"""
ORDER = ["full-seed1", "untrained-seed1", "films-seed1", "full-seed2", "films-seed2", "full-seed3"]


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with a plan whose training script only writes files; scores and tables are listed in
    `calls`."""
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "c.yaml").touch()
    (tmp_path / "plan.yaml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    calls = []
    monkeypatch.setattr(reproduce, "make_rows", lambda *_: None)
    monkeypatch.setattr(reproduce, "score", lambda job, *_: calls.append(job.folder.name))
    monkeypatch.setattr(reproduce, "make_tables", lambda *_: calls.append("tables"))
    monkeypatch.setattr(reproduce.signal, "signal", lambda *_: None)
    return calls


def drive(monkeypatch, folder: Path) -> None:
    flags = ["--plan", folder / "plan.yaml", "--state", folder / "state", "--base", "base"]
    monkeypatch.setattr(sys, "argv", ["reproduce.py", *map(str, flags)])
    reproduce.main()


def trained(folder: Path) -> list[str]:
    return (folder / "state" / "trained.txt").read_text().split()


def test_first_seeds_come_first_and_nothing_is_repeated(work, tmp_path, monkeypatch, capsys):
    drive(monkeypatch, tmp_path)
    printed = capsys.readouterr().out.splitlines()
    assert trained(tmp_path) == ORDER
    sets = [["full-seed1", "untrained-seed1"], ["films-seed1"], ["full-seed2"], ["films-seed2"],
            ["full-seed3"]]  # fmt: skip
    assert work == [call for part in sets for call in [*part, "tables"]]
    assert printed[0] == "people is skipped, since there are no rows for it"
    assert printed[1] == "6 runs, 0 complete, 20 minutes left"  # 4 times 2, 2 times 6
    assert "films-seed1, 0 minutes left" in printed, "as runs of all kinds have taken so far"
    assert not list((tmp_path / "state").rglob("checkpoint-*"))
    runs = plan.read_plan(tmp_path / "state" / "plan.yaml").runs
    assert all("--encoder base" in run.command(Path(), 1) for run in runs.values())
    log = [json.loads(line) for line in (tmp_path / "state/runs.jsonl").read_text().splitlines()]
    assert [f"{run['run']}-seed{run['seed']}" for run in log] == ORDER
    assert all(0 < run["minutes"] < 1 and 0 < run["peak_gb"] < 1 for run in log)
    drive(monkeypatch, tmp_path)
    assert trained(tmp_path) == ORDER and work[11:] == ["tables"]


def test_a_stopped_run_resumes_from_its_last_complete_checkpoint(work, tmp_path, monkeypatch):
    state = tmp_path / "state"
    state.mkdir()
    (state / "fail").touch()
    with pytest.raises(SystemExit, match=r"full-seed1 failed; see .*output\.log"):
        drive(monkeypatch, tmp_path)
    assert trained(tmp_path) == ["full-seed1"] and not work
    (state / "fail").unlink()
    (state / "full-seed1" / "checkpoint-40").mkdir()  # it was being written
    drive(monkeypatch, tmp_path)
    assert trained(tmp_path) == ["full-seed1", *ORDER]
    starts = (state / "full-seed1" / "output.log").read_text().splitlines()
    assert starts == ["from []", "from ['checkpoint-20']"]


def test_the_plan_is_read_and_its_claims_are_of_its_runs():
    content = plan.read_plan(PAPER / "reproduce.yaml")
    jobs = reproduce.jobs_of(content)
    assert {job.run.name for job in jobs} == content.runs.keys()
    claims = [claim for part in replication.CLAIMS.values() for claim in part]
    for claim in claims:
        for line in (claim.first, claim.second):
            assert line.rpartition(" ")[0] in content.runs
    data = {job.run.name: job.data for job in jobs}
    assert all(data[claim.first.split()[0]] == claim.data for claim in claims)


def results(**lines: list[list[float | None]]) -> dict[str, object]:
    """Results of five-sentence stories by line, from the values of each seed."""
    stories = {
        f"{name} summarization": {
            str(seed): {"mean": 0.0, "values": values} for seed, values in enumerate(seeds)
        }
        for name, seeds in lines.items()
    }
    return {"stories": stories, "synopses": {}, "runs": []}


@pytest.mark.parametrize(
    ("shift", "relation", "word"),
    [
        (0.1, "above", "replicated"),
        (-0.1, "above", "not replicated"),
        (0.0, "above", "undecided"),
        (0.0, "as good", "replicated"),
        (0.1, "as good", "replicated"),
        (-0.03, "as good", "replicated"),  # within the margin
        (-0.1, "as good", "not replicated"),
        (0.0, "equal", "replicated"),
        (0.03, "equal", "replicated"),
        (-0.03, "equal", "replicated"),
        (0.1, "equal", "not replicated"),  # above is not equal
        (-0.1, "equal", "not replicated"),
    ],
)
def test_verdicts(shift, relation, word):
    noise = np.random.default_rng(0)
    base = noise.normal(0.3, 0.2, 200)
    other = [base + shift + noise.normal(0, 0.05, 200) for _ in range(2)]
    # What is on average equal differs by nothing.
    other = [each - each.mean() + base.mean() + shift for each in other]
    content = results(a=[each.tolist() for each in other], b=[base.tolist()])
    claim = replication.Claim("a", "stories", "a summarization", "b summarization", relation)
    test = replication.measure(claim, content)
    assert replication.verdict(claim, test, test.confirms, test.differs) == word
    assert test.mean == pytest.approx(shift)
    assert test.differs == paired_permutation_test(np.mean(other, axis=0), base)
    (row,) = replication.family_table([claim], content).rows
    _, _, difference, _, p, _, shown = (cell.text for cell in row)
    assert float(difference) == pytest.approx(shift, abs=5e-4) and shown == word
    decides = test.differs if word == "not replicated" else test.confirms
    assert p == ("< 0.001" if decides < 0.001 else f"{decides:.3f}")


def test_p_values_are_corrected_within_a_family():
    """By Holm's method as its paper tells it: the smallest p-value counts m times, the next m - 1
    times, and none less than one before it."""
    p_values = [0.04, 0.01, 0.02, 0.9]
    assert replication.holm(p_values) == pytest.approx([0.08, 0.04, 0.06, 0.9])
    assert replication.holm([0.6, 0.7]) == [1.0, 1.0] and replication.holm([]) == []
    noise = np.random.default_rng(1)
    base = noise.normal(0.3, 0.2, 200)
    change = noise.normal(0, 0.2, 200)
    change += 2.2 * change.std() / 200**0.5 - change.mean()  # 2.2 standard errors above 0
    content = results(a=[(base + change).tolist()], b=[base.tolist()])
    claim = replication.Claim("a", "stories", "a summarization", "b summarization")
    alone, *_ = replication.family_table([claim], content).rows
    assert 0.01 < replication.measure(claim, content).confirms < 0.05
    assert alone[-1].text == "replicated"
    first, *_ = replication.family_table([claim] * 6, content).rows
    assert first[-1].text == "undecided", "six tests of one p-value near 0.05 confirm nothing"


def test_the_margin_is_tested_on_both_sides_of_an_equality():
    """A difference whose interval reaches over the margin is not as good, nor equal."""
    noise = np.random.default_rng(2)
    base = noise.normal(0.3, 0.2, 60)
    for shift, relation in ((-0.04, "as good"), (0.04, "equal"), (-0.04, "equal")):
        change = noise.normal(0, 0.25, 60)
        other = base + change - change.mean() + shift
        content = results(a=[other.tolist()], b=[base.tolist()])
        claim = replication.Claim("a", "stories", "a summarization", "b summarization", relation)
        test = replication.measure(claim, content)
        assert replication.verdict(claim, test, test.confirms, test.differs) == "undecided"


def test_a_wide_interval_is_undecided_and_a_missing_line_has_no_verdict():
    content = results(a=[[0.9, 0.1, None, 0.2]], b=[[0.1, 0.9, 0.5, 0.3]])
    for relation in ("above", "as good", "equal"):
        claim = replication.Claim("a", "stories", "a summarization", "b summarization", relation)
        assert replication.family_table([claim], content).rows[0][-1].text == "undecided"
    claim = replication.Claim("a", "stories", "a summarization", "c summarization")
    assert replication.measure(claim, content) is None
    assert replication.family_table([claim], content).rows[0][-1].text == "not run yet"


def test_the_guide_has_the_tables_of_the_committed_results(tmp_path):
    folder = PAPER / "results"
    content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    tables = replication.markdown(content)
    assert (folder / "replication.md").read_text(encoding="utf-8") == tables
    guide = (PAPER.parents[1] / "docs" / "replication.md").read_text(encoding="utf-8")
    assert replication.with_tables(guide, tables) == guide
    replication.draw(content, tmp_path / "figure.svg")
    drawn = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert "narrative twins" in drawn and "synopses: AUC" in drawn
