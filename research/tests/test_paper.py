"""The tables and figures of the paper, made from a plan."""

import json
import re
import shlex
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.stats import entropy
from transformers import BertForMaskedLM
from transformers.utils import logging as transformers_logging

from narrative_twins import OPERATIONS, evaluate
from narrative_twins.data import loading
from narrative_twins.evaluation import comparison, scorers, significance
from narrative_twins.evaluation.labelled_stories import load_labelled

from support.chat_server import Model, serving
from support.examples import run
from support.models import encoder_of
from support.rows import read_rows, write_rows

PAPER = Path(__file__).parents[1] / "paper"
FIVE = ["Nadia ran.", "It rained.", "The mill burned down.", "Nobody knew.", "I was there."]
VOTES = [[3, 3, 5], [1, 2, 3], [4, 4, 4]]
FILMS = {"Kites": [1, 3, 4, 6, 9], "Salt": [0, 2, 5, 7, 8]}

PLAN = yaml.safe_load("""
seeds: [1, 2]
runs:
  tiny: {script: train.py, config: full.yaml}
  small: {script: train.py, config: full.yaml, seeds: [7], settings: {twins: dropout, distractors: false}}
results:
  prompted: {data: stories, styles: [choose, rate], runs: 2, model: tiny, request: {max_completion_tokens: 9000}}
tables:
  main:
    caption: Main.
    data: stories
    layout: wide
    operations: [deletion, summarization]
    rows: {tiny encoder: {run: tiny}, small encoder: {run: small}}
  baselines:
    caption: Baselines.
    data: stories
    layout: list
    groups:
      systems: {increasing: {baseline: trail}, tiny: {run: tiny, operation: summarization}}
      models:
        prompted model: {results: prompted, score: prompted_choice}
        its ratings: {results: prompted, score: prompted_rating}
        people: {people: second group}
  points:
    caption: Points.
    data: synopses
    layout: sections
    operations: [deletion, summarization]
    rows: {tiny encoder: {run: tiny}, small encoder: {run: small}}
tests:
  compared:
    caption: Tests.
    data: stories
    pairs: {"tiny, increasing": {first: {run: tiny, operation: summarization}, second: {baseline: trail}}}
figures:
  curves: {kind: curves, caption: Curves., runs: {t: tiny}, quantities: {eval_loss: loss}}
  lines: {kind: sizes, caption: Sizes., runs: {t: tiny}, quantities: {eval_deletion: deletion, eval_nothing: nothing}}
  story: {kind: salience, caption: A story., run: tiny, files: [story.txt], data: stories, ids: [S1]}
  film: {kind: salience, caption: A film., run: tiny, data: synopses}
""")


@pytest.fixture(autouse=True)
def same_warnings():
    """The level of warnings is restored."""
    level = transformers_logging.get_verbosity()
    yield
    transformers_logging.set_verbosity(level)


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    """A folder with a plan, data, and a run of one seed of two."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "full.yaml"):
        (tmp_path / name).write_text("")
    (tmp_path / "story.txt").write_text("Omar cleaned a window. A man cried.")
    stories = [FIVE[i:] + FIVE[:i] for i in range(3)]
    votes = zip(stories, VOTES, strict=True)
    rows = [{"id": f"S{i}", "story": story, "choices": c} for i, (story, c) in enumerate(votes)]
    write_rows(tmp_path / "votes.jsonl", rows)
    films = {}
    for name, points in FILMS.items():
        sentences = [f"{name} {i} {'x' * (i % 4 + 1)}." for i in range(10)]
        films[name] = {"sentences": sentences, "turning_points": points}
    (tmp_path / "films.json").write_text(json.dumps(films))
    save_run(tmp_path / "runs" / "tiny-seed1")
    write_plan(PLAN)
    return tmp_path


def save_model(folder: Path) -> None:
    model, tokenizer = encoder_of("bert")
    BertForMaskedLM(model.config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def save_run(folder: Path, loss: float = 0.5) -> None:
    for part in encoder_of("bert"):
        part.save_pretrained(folder / "final")
    curves = {"eval_loss": [[1, loss], [2, 0.25], [int(10 * loss), 0.1]], "loss": [[1, 9.0]]}
    (folder / "curves.json").write_text(json.dumps(curves))
    trained = {"parameters": 2_500_000, "train_runtime": 120, "gpu_memory": None, "device": "x"}
    (folder / "train_results.json").write_text(json.dumps(trained))
    (folder / "eval_results.json").write_text(json.dumps({"eval_deletion": loss}))


def write_plan(plan: object) -> None:
    Path("plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")


def make(*flags: object) -> str:
    data = "--data-stories", "votes.jsonl", "--data-synopses", "films.json"
    return run(PAPER / "make_tables.py", "--plan", "plan.yaml", *data, "--dtype", "float32", *flags)


def text_of(name: str) -> str:
    return Path("tables", name).read_text(encoding="utf-8")


def read(name: str) -> dict:
    return json.loads(text_of(f"{name}.json"))


def cells(name: str, line: str) -> list[str]:
    """The cells of a line of a table in Markdown, without bold."""
    text = text_of(f"{name}.md").replace("**", "")
    (found,) = re.findall(rf"^\| {re.escape(line)} +\|(.*)\|$", text, re.M)
    return [cell.strip() for cell in found.split("|")]


COMMAND = "accelerate launch train.py --config full.yaml{} --seed {} --output_dir runs/{}"


def perplexity(votes: list[list[float]]) -> float:
    return 2 ** mean(float(entropy(counts, base=2)) for counts in votes)


@pytest.mark.slow
def test_tables_and_figures(work):
    out = make()
    assert "10 tables and figures: tables/index.md" in out
    saved = {path.parent.parent.name for path in Path("tables").rglob("scores/*.jsonl")}
    assert {"stories", "synopses"} <= saved, "which a second call reads"
    model = {"tiny": "runs/tiny-seed1/final"}
    options = {"loading": {"dtype": "float32"}}
    expected = evaluate(model, "votes.jsonl", baselines=["trail"], **options)
    stored = {(row["scorer"], row["operation"]): row["metrics"] for row in expected.json()["rows"]}
    for row in read("main")["rows"] + read("baselines")["rows"]:
        assert row["metrics"] == stored.get((row["scorer"], row["operation"])), row
    deletion = expected.line("votes", "tiny deletion")["mean"]
    figures = [f"{deletion[metric]:.3f}" for metric in ("spearman", "auc")]
    assert cells("main", "tiny encoder")[:2] == figures
    by_point = evaluate(model, "films.json", baselines=[], **options)
    for row in read("points")["rows"]:
        if row["scorer"] == "tiny":
            line = by_point.line("films", f"tiny {row['operation']}")
            assert row["metrics"]["auc"]["mean"] == pytest.approx(line["mean"]["auc"])
    assert read("curves")["curves"] == {
        "eval_loss": {"t": [[1, 0.5, 0.0], [2, 0.25, 0.0], [5, 0.1, 0.0]]}
    }
    assert read("lines")["lines"] == {"deletion": [[2.5, 0.5, 0.0]]}
    assert read("lines")["hints"] == ["No run has measured: nothing."]
    tested = read("compared")["tests"]["tiny, increasing"]
    assert tested["p"] == expected.tests("votes", "spearman", "trail")["tiny summarization"]
    assert cells("compared", "tiny, increasing")[1] == f"{tested['trail']:.3f}"
    assert cells("runs", "tiny") == ["1 of 2", "2.5", "2.0 ± 0.0", "", "x"]
    assert cells("data", "sentences of a story") == ["5.0 ± 0.0", "10.0 ± 0.0"]
    stories = [story["sentences"] for story in read("story")["stories"]]
    assert stories == [["Omar cleaned a window.", "A man cried."], FIVE[1:] + FIVE[:1]]
    pictures = re.findall(r"!\[.*\]\((.+\.svg)\)", text_of("index.md"))
    shown = ["curves", "lines", "story-story", "story-S1", "film-Kites"]
    assert [re.split(r"[~.]", name)[0] for name in pictures] == shown
    assert all(text_of(name).lstrip().startswith("<?xml") for name in pictures)
    for path in Path("tables").glob("*.tex"):
        text = re.sub(r"^%.*$|\\[{}]", "", path.read_text(), flags=re.M)
        assert text.count("{") == text.count("}")
        assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}")
    # The turning points of the first film, in the table and in the panel of each operation.
    (film,) = read("film")["stories"]
    assert film["id"] == "Kites" and film["turning_points"] == FILMS["Kites"]
    rows = re.findall(r"^\| \d+\. (Kites (\d).+?)\|", text_of("film.md"), re.M)
    marks = {int(i): row.partition("[TP")[2][:1] for row, i in rows if "[TP" in row}
    assert marks == {point: str(k) for k, point in enumerate(FILMS["Kites"], start=1)}
    assert text_of(pictures[-1]).count(">TP3<") == 4


@pytest.mark.slow
def test_what_is_missing_is_listed_and_filled(work):
    make()
    assert [row["missing_seeds"] for row in read("main")["rows"]] == [[2], [2], [7], [7]]
    assert cells("main", "small encoder") == [""] * 4, "there is no such run"
    assert cells("baselines", "people") == cells("baselines", "prompted model") == ["", ""]
    settings = " --twins dropout --distractors false"
    commands = [COMMAND.format("", 2, "tiny-seed2"), COMMAND.format(settings, 7, "small-seed7")]
    assert read("main")["missing"] == read("points")["missing"] == commands
    assert read("curves")["missing"] == commands[:1]
    markdown = text_of("main.md")
    assert "tiny encoder: 1 of 2 seeds." in markdown and commands[0] in markdown
    (model,) = read("baselines")["missing"][1:]
    asking = f"python {PAPER / 'prompt_model.py'} votes.jsonl --styles choose,rate --out runs/prompted --runs 2"
    assert model.startswith(f"{asking} --server https://api.openai.com/v1 --language-model tiny")
    assert "make tables SECOND=FILE" in read("baselines")["hints"][0]
    assert text_of("missing.txt").splitlines() == [*commands, model], "commands only"
    for name in ("tiny-seed2", "small-seed7"):
        save_run(work / "runs" / name, loss=0.7)
    with serving(Model()) as server:
        words = shlex.split(model.replace("https://api.openai.com/v1", server.address))
        out = run(PAPER / "prompt_model.py", *words[2:])
    assert all(body["max_completion_tokens"] == 9000 for body in server.bodies)
    assert "3 of 3 stories: runs/prompted-run1.jsonl" in out
    make("--second-stories", "votes.jsonl")
    assert read("main")["missing"] == read("baselines")["missing"] == []
    assert "" not in cells("main", "small encoder") and "±" in cells("main", "tiny encoder")[0]
    line = re.findall(r"^\| tiny encoder .*$", text_of("points.md"), re.M)[0]
    assert line.count("±") == 7, "of each turning point, their mean, and the mean over all"
    assert all("±" in cell for cell in cells("baselines", "prompted model")), "the runs differ"
    choices, ratings = read("baselines")["rows"][2:4]
    runs = [read_rows(Path(f"runs/prompted-run{number}.jsonl")) for number in (1, 2)]
    expected = [perplexity([row["scores"]["prompted_choice"] for row in rows]) for rows in runs]
    assert choices["perplexities"] == pytest.approx(expected) and ratings["perplexities"] == []
    people = perplexity([list(Counter(votes).values()) for votes in VOTES])
    assert read("baselines")["perplexity"] == pytest.approx(people)
    shown = f"people {people:.3f}; prompted model {mean(expected):.3f} ± "
    assert f"Perplexity of choices: {shown}" in text_of("baselines.md")
    assert cells("baselines", "people") == ["1.000", "1.000"]
    # Means and standard deviations over the seeds, at the steps that all have.
    first, second = read("curves")["curves"]["eval_loss"]["t"]
    assert first == pytest.approx([1, 0.6, 0.2 / 2**0.5]) and second == [2, 0.25, 0.0]
    spread = read("main")["rows"][0]["metrics"]["spearman"]
    values = [own["spearman"] for own in read("main")["rows"][0]["runs"]]
    assert spread["sd"] == pytest.approx(stdev(values)), "over n - 1"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("tables.main.rows.tiny encoder.run", "big", "unknown 'big'; choose from tiny, small"),
        ("runs.tiny.config", "none.yaml", "there is no file none.yaml"),
        ("runs.tiny.scrpt", "train.py", "unknown key; did you mean script?"),
        ("runs.tiny.seeds", [1, 1], "must be different whole numbers"),
        ("results.prompted.runs", 0, "must be a number of runs"),
        ("import", ["nothing.py"], "nothing.py can't be imported: ModuleNotFoundError"),
        ("tables.points.rows", [], "must be keys with values"),
        ("figures.main", PLAN["figures"]["lines"], "there is a table of this name"),
    ],
)
def test_a_wrong_plan_is_an_error_that_names_file_and_key(work, path, value, message):
    plan = json.loads(json.dumps(PLAN))
    *parents, key = path.split(".")
    entry = plan
    for parent in parents:
        entry = entry[parent]
    entry[key] = value
    write_plan(plan)
    with pytest.raises(SystemExit) as error:
        make()
    assert str(error.value).startswith(f"make_tables: plan.yaml, {path}")
    assert message in str(error.value) and not Path("tables").exists()


def test_a_plan_imports_operations_from_a_file_next_to_it(work, monkeypatch):
    from plan import read_plan

    monkeypatch.setattr(sys, "path", sys.path.copy())
    lines = ["from narrative_twins.salience.operations import Summarization, register_operation"]
    lines += ["@register_operation", "class Alone(Summarization):", "    name = 'alone'"]
    Path("my_operation.py").write_text("\n".join(lines), encoding="utf-8")
    main = PLAN["tables"]["main"] | {"operations": ["alone"]}
    write_plan(PLAN | {"import": ["my_operation.py"], "tables": {"main": main}, "figures": {}})
    with patch.dict(OPERATIONS):
        assert read_plan(Path("plan.yaml")).tables[0].operations == ["alone"]
    del sys.modules["my_operation"]


def test_stories_of_a_figure_that_there_are_not(work):
    """The commands of docs/paper.md name others, by files and the beginning of ids."""
    figures = {name: PLAN["figures"][name] for name in ("film", "lines")}
    write_plan(PLAN | {"tables": {"main": PLAN["tables"]["main"]}, "figures": figures})
    for words, message in (
        (["film", "Malt"], "films.json has no story 'Malt'; did you mean 'Salt'?"),
        (["film", ""], "films.json has several stories that begin with ''"),
        (["lines", "Salt"], "name a figure of"),
    ):
        with pytest.raises(SystemExit, match=re.escape(message)):
            make("--show", *words)


def noisy(*means: float) -> list[list[float]]:
    noise = np.random.default_rng(0).normal(0, 0.01, (len(means), 40))
    return (np.array(means)[:, None] + noise).tolist()


@pytest.mark.parametrize(
    ("values", "best"),
    [
        (noisy(0.1, 0.5, 0.9), {"c"}),
        (noisy(0.1, 0.1, 0.9, 0.9, 0.9), set()),
        (noisy(0.1, 0.1, 0.1, 0.9, 0.9), {"d", "e"}),
        (noisy(0.1, 0.9), {"b"}),
        (noisy(0.1, 0.2, 0.3, 0.4, 0.5), {"d", "e"}),
        (noisy(0.5), set()),
    ],
)
def test_bold_is_significantly_better_than_most_others(values, best):
    from layouts import Line, better_than_most

    names = "abcde"[: len(values)]
    frames = [
        comparison.long_table("d", name, "", "run", {"auc": np.array(row)[:, None]})
        for name, row in zip(names, values, strict=True)
    ]
    result = comparison.Comparison(pd.concat(frames), [])
    lines = {Line(name, name): mean(row) for name, row in zip(names, values, strict=True)}
    assert {line.name for line in better_than_most(result, "d", "auc", lines)} == best


TABLES = "stories_main stories_baselines stories_ablations synopses_main".split()
FIGURES = "stories_curves synopses_curves two_stories one_synopsis".split()
RUNS = "roc_mlm roc_dropout_twins roc_bert_large roc_entities roc_no_training_first_token".split()
RUNS += "wiki_mlm wiki_dropout_twins wiki_ettin wiki_no_distractors".split()
"""What a smoke test of a part of the plan of the paper makes: of other rows it makes the same."""


@pytest.mark.slow
def test_smoke_fills_every_cell(work, monkeypatch):
    """With short stories and films; runs are validated from the beginning."""
    monkeypatch.setattr(significance, "RESAMPLES", 50)
    monkeypatch.setattr(scorers, "RANDOM_DRAWS", 2)
    # What takes long and is tested elsewhere.
    monkeypatch.setattr(loading, "corpus_files", cache(loading.corpus_files))
    import smoke

    monkeypatch.setattr(smoke, "_make_encoder", save_model)
    text = (PAPER / "plan.yaml").read_text(encoding="utf-8")
    text = re.sub(r"(?<=[ \[])(?=\.\./|configs/|train_mlm\.py)", f"{PAPER}/", text)
    whole = yaml.safe_load(text)
    plan = whole | {"tests": {}, "runs": {name: whole["runs"][name] for name in RUNS}}
    for kind, names in (("tables", TABLES), ("figures", FIGURES)):
        plan[kind] = {name: whole[kind][name] for name in names}
    for table in plan["tables"].values():
        for rows in table.get("groups", {"": table.get("rows")}).values():
            for label, row in list(rows.items()):
                if row.get("run", RUNS[0]) not in RUNS:
                    del rows[label]
    write_plan(plan)
    # What is not trained has a single seed.
    assert "smoke run 17 of 17" in make("--smoke") and text_of("missing.txt") == ""
    for name in (*TABLES, *FIGURES):
        text = text_of(f"{name}.md")
        assert "Smoke test, figures mean nothing" in text
        lines = [line for line in text.splitlines() if re.match(r"\| +[^*| ]", line)]
        assert not [line for line in lines if re.search(r"\| +\|", line)]
    # Each row has the figures of the run that the plan names, and no two runs have equal scores.
    labelled = {
        "stories": smoke.with_people(load_labelled("votes.jsonl")),
        "synopses": load_labelled("films.json", "all"),
    }
    for name in TABLES:
        spec = plan["tables"][name]
        groups = spec.get("groups", {"": spec.get("rows")}).values()
        named = {
            label: row["run"] for rows in groups for label, row in rows.items() if "run" in row
        }
        folders = {
            run: sorted(map(str, Path("tables/smoke-runs").glob(f"{run}-seed*/final")))
            for run in named.values()
        }
        options = {"baselines": [], "loading": {"dtype": "float32"}}
        again = evaluate(folders, labelled[spec["data"]], **options).json()["rows"]
        figures = {(row["scorer"], row["operation"]): row["metrics"] for row in again}
        for row in read(name)["rows"]:
            if row["kind"] == "run":
                expected = figures[named[row["name"]], row["operation"]]
                for metric, figure in row["metrics"].items():
                    assert figure["mean"] == pytest.approx(expected[metric]["mean"], nan_ok=True)
    scores = [
        json.dumps([row["scores"] for row in read_rows(file)])
        for file in Path("tables").glob("*/scores/*.jsonl")
        if "default" not in file.name
    ]
    assert len(scores) == len(set(scores)) == 17
    curves = [lines for name in FIGURES[:2] for lines in read(name)["curves"].values()]
    assert {points[0][0] for lines in curves for points in lines.values()} == {0}
    assert len(curves) == 10, "each quantity of each kind of stories"
