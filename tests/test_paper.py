"""The tables and figures of the paper, made from a plan."""

from __future__ import annotations

import json
import re
from functools import cache
from math import log2
from pathlib import Path
from statistics import mean, pstdev

import pytest
import yaml
from transformers import BertForMaskedLM
from transformers.utils import logging as transformers_logging

from narrative_twins import evaluate
from narrative_twins.data import loading
from narrative_twins.evaluation import comparison, metrics, scorers

from support.chat_server import Model, serving
from support.examples import EXAMPLES, run
from support.models import encoder_of

PAPER = EXAMPLES / "paper"
FIVE = ["Nadia ran.", "It rained.", "The mill burned down.", "Nobody knew.", "I was there."]
VOTES = [[3, 3, 5], [1, 2, 3], [4, 4, 4]]
FILMS = {"Kites": [1, 3, 4, 6, 9], "Salt": [0, 2, 5, 7, 8]}

PLAN = {
    "seeds": [1, 2],
    "runs": {
        "tiny": {"script": "train.py", "config": "full.yaml"},
        "small": {"script": "train.py", "config": "full.yaml", "seeds": [7],
                  "settings": {"twins": "dropout", "distractors": False}},
    },
    "results": {"prompted": {"data": "stories", "styles": ["choose", "rate"], "runs": 2}},
    "tables": {
        "main": {
            "caption": "Main.",
            "data": "stories",
            "layout": "wide",
            "operations": ["deletion", "summarization"],
            "rows": {"tiny encoder": {"run": "tiny"}, "small encoder": {"run": "small"}},
        },
        "baselines": {
            "caption": "Baselines.",
            "data": "stories",
            "layout": "list",
            "rows": {
                "increasing": {"baseline": "trail"},
                "tiny": {"run": "tiny", "operation": "summarization"},
                "prompted model": {"results": "prompted", "score": "prompted_choice"},
                "its ratings": {"results": "prompted", "score": "prompted_rating"},
                "people": {"people": "second group"},
            },
        },
        "points": {
            "caption": "Points.",
            "data": "synopses",
            "layout": "sections",
            "operations": ["deletion", "summarization"],
            "rows": {"tiny encoder": {"run": "tiny"}, "small encoder": {"run": "small"}},
        },
    },
    "figures": {
        "curves": {"kind": "curves", "caption": "Curves.", "runs": {"t": "tiny"}, "quantities": {"eval_loss": "loss"}},
        "lines": {"kind": "lines", "caption": "Lines.", "table": "main", "metric": "spearman"},
        "story": {"kind": "salience", "caption": "A story.", "run": "tiny", "files": ["story.txt"], "data": "stories",
                  "ids": ["S1"]},
        "film": {"kind": "salience", "caption": "A film.", "run": "tiny", "data": "synopses"},
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """The modules beside the script can be imported; the level of warnings is restored."""
    monkeypatch.syspath_prepend(PAPER)
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
    rows = [
        {"id": f"S{i}", "story": FIVE[i:] + FIVE[:i], "choices": choices}
        for i, choices in enumerate(VOTES)
    ]
    (tmp_path / "votes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    films = {
        name: {
            "sentences": [f"{name} {i} {'x' * (i % 4 + 1)}." for i in range(10)],
            "turning_points": points,
        }
        for name, points in FILMS.items()
    }
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


def write_plan(plan: object) -> None:
    Path("plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")


def make(*flags: object) -> str:
    data = "--data-stories", "votes.jsonl", "--data-synopses", "films.json"
    return run("paper/make_tables.py", "--plan", "plan.yaml", *data, "--dtype", "float32", *flags)


def read(name: str) -> dict:
    return json.loads(Path("tables", f"{name}.json").read_text(encoding="utf-8"))


def cells(name: str, line: str) -> list[str]:
    """The cells of a line of a table in Markdown, without bold."""
    text = Path("tables", f"{name}.md").read_text(encoding="utf-8").replace("**", "")
    (found,) = re.findall(rf"^\| {re.escape(line)} +\|(.*)\|$", text, re.M)
    return [cell.strip() for cell in found.split("|")]


COMMAND = "accelerate launch train.py --config full.yaml{} --seed {} --output_dir runs/{}"


# The labels: 3, 3, 5; 1, 2, 3; 4, 4, 4.
PERPLEXITY = 2 ** mean([log2(3) - 2 / 3, log2(3), 0.0])


def perplexity(file: str) -> float:
    """Of the ten choices of each story in a file of results."""
    entropies = []
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        votes = json.loads(line)["scores"]["prompted_choice"]
        entropies.append(-sum(n / 10 * log2(n / 10) for n in votes if n))
    return 2 ** mean(entropies)


@pytest.mark.slow
def test_tables_and_figures(work, monkeypatch):
    out = make()
    assert "7 tables and figures: tables/index.md" in out
    model = {"tiny": "runs/tiny-seed1/final"}
    options = {"loading": {"dtype": "float32"}}
    expected = evaluate(model, "votes.jsonl", baselines=["trail"], **options)
    stored = {(row["scorer"], row["operation"]): row["metrics"] for row in expected.json()["rows"]}
    for row in read("main")["rows"] + read("baselines")["rows"]:
        assert row["metrics"] == stored.get((row["scorer"], row["operation"])), row
    deletion = expected.line("votes", "tiny deletion")["mean"]
    figures = [f"{deletion[metric]:.3f}" for metric in ("spearman", "auc")]
    assert cells("main", "tiny encoder")[:2] == figures
    best = {max(cells("main", "tiny encoder")[at::2]) for at in (0, 1)}
    markdown = Path("tables/main.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\*\*(.+?)\*\*", markdown)) == best
    by_point = evaluate(model, "films.json", baselines=[], **options)
    for row in read("points")["rows"]:
        if row["scorer"] == "tiny":
            line = by_point.line("films", f"tiny {row['operation']}")
            assert row["metrics"]["auc"]["mean"] == pytest.approx(line["mean"]["auc"])
    assert read("curves")["curves"] == {
        "eval_loss": {"t": [[1, 0.5, 0.0], [2, 0.25, 0.0], [5, 0.1, 0.0]]}
    }
    assert read("lines")["lines"]["deletion"] == [[0, deletion["spearman"], 0.0]]
    stories = [story["sentences"] for story in read("story")["stories"]]
    assert stories == [["Omar cleaned a window.", "A man cried."], FIVE[1:] + FIVE[:1]]
    pictures = re.findall(
        r"!\[.*\]\((.+\.svg)\)", Path("tables/index.md").read_text(encoding="utf-8")
    )
    shown = ["story-story.svg", "story-S1.svg", "film-Kites.svg"]
    # Names with capitals have a digest, for file systems that ignore case.
    plain = [re.sub(r"~\w+", "", name) for name in pictures]
    assert plain == ["curves.svg", "lines.svg", *shown]
    assert all(
        Path("tables", name).read_text(encoding="utf-8").lstrip().startswith("<?xml")
        for name in pictures
    )
    for path in Path("tables").glob("*.tex"):
        text = re.sub(r"^%.*$", "", path.read_text(), flags=re.M)
        plain = text.replace(r"\{", "").replace(r"\}", "")
        assert plain.count("{") == plain.count("}")
        assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}")

    # The turning points of the first film, in the table and in the panel of each operation.
    (film,) = read("film")["stories"]
    assert film["id"] == "Kites" and film["turning_points"] == FILMS["Kites"]
    rows = re.findall(
        r"^\| \d+\. (Kites (\d).+?)\|", Path("tables/film.md").read_text(encoding="utf-8"), re.M
    )
    marks = {int(i): row.partition("[TP")[2][:1] for row, i in rows if "[TP" in row}
    assert marks == {point: str(k) for k, point in enumerate(FILMS["Kites"], start=1)}
    assert Path("tables", pictures[-1]).read_text(encoding="utf-8").count(">TP3<") == 4

    # A second call computes nothing again.
    def scored_again(stories, *arguments, **options):
        assert list(stories) == []
        return iter(())

    monkeypatch.setattr(scorers, "score_stories", scored_again)
    written = {path: path.read_bytes() for path in Path("tables").iterdir() if path.is_file()}
    make()
    assert {path: path.read_bytes() for path in written} == written


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
    markdown = Path("tables/main.md").read_text(encoding="utf-8")
    assert "tiny encoder: 1 of 2 seeds." in markdown and commands[0] in markdown
    model, people = read("baselines")["missing"][1:]
    asking = f"python {PAPER / 'prompt_model.py'} votes.jsonl --styles choose rate --out runs/prompted --runs 2"
    assert model.startswith(asking) and people.startswith("--second-stories FILE")
    assert set(Path("tables/missing.txt").read_text(encoding="utf-8").splitlines()) == {
        *commands,
        model,
        people,
    }
    for name in ("tiny-seed2", "small-seed7"):
        save_run(work / "runs" / name, loss=0.7)
    with serving(Model()) as server:
        words = model.replace("URL", server.address).split()
        out = run("paper/prompt_model.py", *words[2:])
    assert "3 of 3 stories: runs/prompted-run1.jsonl" in out
    make("--second-stories", "votes.jsonl")
    assert read("main")["missing"] == read("baselines")["missing"] == []
    assert "" not in cells("main", "small encoder") and "±" in cells("main", "tiny encoder")[0]
    assert all("±" in cell for cell in cells("baselines", "prompted model")), "the runs differ"
    choices, ratings = read("baselines")["rows"][2:4]
    expected = [perplexity(f"runs/prompted-run{number}.jsonl") for number in (1, 2)]
    assert choices["perplexities"] == pytest.approx(expected) and ratings["perplexities"] == []
    assert read("baselines")["perplexity"] == pytest.approx(PERPLEXITY)
    assert (
        f"Perplexity of choices: people {PERPLEXITY:.3f}; prompted model {mean(expected):.3f} ± "
        in Path("tables/baselines.md").read_text(encoding="utf-8")
    )
    assert cells("baselines", "people") == ["1.000", "1.000"]
    # Means and standard deviations over the seeds, at the steps that all have.
    first, second = read("curves")["curves"]["eval_loss"]["t"]
    assert first == pytest.approx([1, 0.6, 0.1]) and second == [2, 0.25, 0.0]
    spread = read("main")["rows"][0]["metrics"]["spearman"]
    values = [own["spearman"] for own in read("main")["rows"][0]["runs"]]
    assert spread["sd"] == pytest.approx(pstdev(values)), "over n"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("tables.main.rows.tiny encoder.run", "big", "unknown 'big'; choose from tiny, small"),
        ("runs.tiny.config", "none.yaml", "there is no file none.yaml"),
        ("runs.tiny.scrpt", "train.py", "unknown key; did you mean script?"),
        ("runs.tiny.seeds", [1, 1], "must be different whole numbers"),
        ("results.prompted.runs", 0, "must be a number of runs"),
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


def test_the_plan_of_the_paper_has_every_config():
    from plan import read_plan

    plan = read_plan(PAPER / "plan.yaml")
    configs = set((EXAMPLES / "configs").rglob("*.yaml"))
    assert {run.config for run in plan.runs.values()} == configs
    for trained in plan.runs.values():
        assert trained.settings or trained.name == trained.config.stem
        untrained = trained.settings.get("num_train_epochs") == 0
        assert trained.seeds == ([43] if untrained else [43, 127, 263])
        shown = (
            f"examples/{trained.script.name} --config"
            f" examples/{trained.config.relative_to(EXAMPLES).as_posix()}"
        )
        assert shown in trained.config.read_text(), "the script is the one that the config names"


def test_stories_of_a_figure_that_the_user_names(work):
    """A file, and an id in the data of the figure."""
    figures = {name: PLAN["figures"][name] for name in ("film", "lines")}
    write_plan(PLAN | {"tables": {"main": PLAN["tables"]["main"]}, "figures": figures})
    make("--show", "film", "story.txt", "Salt")
    own, film = read("film")["stories"]
    assert own["sentences"] == ["Omar cleaned a window.", "A man cried."]
    assert own["turning_points"] == [] and film["turning_points"] == FILMS["Salt"]
    for name, message in (("film", "no story 'Jaws' in films.json"), ("lines", "name a figure of")):
        with pytest.raises(SystemExit, match=message):
            make("--show", name, "Jaws")


def test_all_films_of_a_folder_are_evaluated(work):
    """As of TRIPOD, whose synopses are in two tables."""
    films = json.loads(Path("films.json").read_text(encoding="utf-8"))
    Path("tripod").mkdir()
    for split, (name, film) in zip(("train", "test"), films.items(), strict=True):
        Path("tripod", f"films_{split}.json").write_text(json.dumps({name: film}), encoding="utf-8")
    rows = {"later": {"baseline": "trail"}}
    table = {"caption": "Films.", "data": "synopses", "layout": "list", "rows": rows}
    write_plan({"seeds": [1], "runs": {}, "tables": {"films": table}})
    make("--data-synopses", "tripod")
    assert "(2 stories, 20 sentences, 10 turning points" in Path("tables/films.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.slow
def test_smoke_fills_every_cell(work, monkeypatch):
    """With most of the plan of the paper, and short stories and films."""
    monkeypatch.setattr(metrics, "RESAMPLES", 50)
    monkeypatch.setattr(scorers, "RANDOM_DRAWS", 2)
    # What takes long and is tested elsewhere.
    monkeypatch.setattr(comparison.Comparison, "plot", lambda *arguments: None)
    monkeypatch.setattr(loading, "corpus_files", cache(loading.corpus_files))
    import smoke

    monkeypatch.setattr(smoke, "_make_encoder", save_model)
    plan = yaml.safe_load((PAPER / "plan.yaml").read_text())
    # Without rows that a smoke test makes as it makes others.
    del plan["tables"]["synopses_negatives"]
    for table in plan["tables"].values():
        for label in ("mini", "small", "medium", "base", "only distractors"):
            table["rows"].pop(label, None)
        table["rows"] = {
            name: row for name, row in table["rows"].items() if "as released" not in name
        }
    rows = [row for table in plan["tables"].values() for row in table["rows"].values()]
    kept = {row["run"] for row in rows if "run" in row}
    plan["runs"] = {name: entry for name, entry in plan["runs"].items() if name in kept}
    text = yaml.safe_dump(plan, sort_keys=False).replace(": ../", f": {EXAMPLES}/")
    Path("plan.yaml").write_text(text.replace("- ../", f"- {EXAMPLES}/"), encoding="utf-8")
    data = "--data-stories", "votes.jsonl", "--data-synopses", "films.json"
    out = run("paper/make_tables.py", "--plan", "plan.yaml", "--smoke", *data)
    assert f"smoke run {len(plan['runs'])} of {len(plan['runs'])}" in out
    texts = {path.name: path.read_text() for path in Path("tables").glob("*.md")}
    assert texts.keys() == {f"{name}.md" for name in ("index", *plan["tables"], *plan["figures"])}
    for text in texts.values():
        assert "Smoke test, figures mean nothing" in text
        lines = [line for line in text.splitlines() if re.match(r"\| +[^*| ]", line)]
        # The first cell of the headings is empty.
        empty = [line for line in lines if re.search(r"\| +\|", line)]
        assert empty == []
    assert Path("tables/missing.txt").read_text(encoding="utf-8") == ""
    curves = [
        json.loads(Path("tables", f"{name}_curves.json").read_text(encoding="utf-8"))
        for name in ("stories", "synopses")
    ]
    assert all(len(found["curves"]) == 5 for found in curves), "each quantity of each run"
    assert len(list(Path("tables").glob("*.svg"))) == 6
