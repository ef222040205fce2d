"""The stages that train the shipped encoders, with a small random encoder, and what measures
them."""

import json
import shutil
import sys
from functools import partial

import distilled
import judged
import languages
import measuring
import pytest
import ranks
import search
import torch
import train_adapters
import train_votes
import which
from datasets import Dataset
from huggingface_hub import ModelCard
from safetensors.torch import load_file

from narrative_twins import StoryEncoder
from narrative_twins.data import load_story_salience
from narrative_twins.evaluation import load_labelled

from support.models import SENTENCES


@pytest.fixture
def works(tmp_path, monkeypatch):
    part = {"id": "a", "column": "sentences", "start": 2, "marks": [0, 9, 3]}
    whole = {"id": "a", "marks": [0, 2, 1] + [0] * (len(SENTENCES) - 3)}
    rows = {
        "prose_marks.jsonl": [
            {**part, "file": "tales.jsonl"},
            *({**part, "file": "fairytaleqa.jsonl", "id": str(number)} for number in range(8)),
            {**part, "file": "tellings.jsonl", "column": "tellings", "telling": 1},
        ],
        "prose_texts.jsonl": [
            {"id": "b", "story": SENTENCES[2:5], "marks": [0, 9, 0], "again": [[0, 9, 6]]}
        ],
        "story_votes.jsonl": [{**whole, "file": "stories.jsonl"}],
        "film_turning_points.jsonl": [{**whole, "file": "plots.jsonl"}],
    }
    monkeypatch.setattr(judged, "HERE", tmp_path)
    monkeypatch.setattr(judged, "PHRASE", 99)  # All of these works have the same text.
    spaced = [sentence.replace(" ", "  ") for sentence in SENTENCES]
    work = {"sentences": spaced, "tellings": [{"sentences": []}, {"sentences": spaced}]}
    for name, judgments in rows.items():
        for row in judgments:
            start = row.get("start", 0)
            row["text"] = judged.digest(SENTENCES[start : start + len(row["marks"])])
            if "file" in row:
                with (tmp_path / row["file"]).open("a") as file:
                    file.write(json.dumps({"id": row["id"], **work}) + "\n")
        (tmp_path / name).write_text("\n".join(map(json.dumps, judgments)))
    id_ = next(id_ for id_ in map(str, range(8)) if not judged.is_held_out(id_))
    work = {"id": id_, "tellings": [{"sentences": SENTENCES * 2}, {"sentences": SENTENCES[2:4]}]}
    (tmp_path / "squality_plot_twins.jsonl").write_text(json.dumps(work))
    return tmp_path


def test_judged_texts(works, monkeypatch):
    """About every second work of fairytaleqa is held out."""
    kept = judged.judged_passages(works, held_out=False)
    held = judged.judged_passages(works, held_out=True)
    assert len(kept) > 3 and held and len(kept + held) == 11
    expected = {"story": SENTENCES[2:5], "labels": [0, 1, pytest.approx(1 / 3)]}
    assert all(row == expected for row in kept + held)
    (story,), (film,) = judged.judged_stories(works), judged.judged_films(works)
    assert story["story"] == film["story"] == SENTENCES
    assert story["counts"] == film["labels"] == [0, 2, 1] + [0] * (len(SENTENCES) - 3)
    monkeypatch.setattr(judged, "PHRASE", 5)
    assert judged.judged_passages(works, held_out=False) == [], "text of works that are held out"
    assert judged.judged_passages(works, held_out=True) == held
    (works / "tales.jsonl").write_text(json.dumps({"id": "a", "sentences": SENTENCES[1:]}))
    with pytest.raises(SystemExit, match="tales.jsonl, a: not the text that was judged"):
        judged.judged_passages(works, held_out=False)


def write_texts_to_label(works) -> None:
    """A story and a film plot that nobody judged."""
    stories = {"roc_stories.jsonl": SENTENCES[:5], "wiki_film_plots.jsonl": SENTENCES * 9}
    for file, story in stories.items():
        (works / file).write_text(json.dumps({"id": "new", "sentences": story[:40]}))


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["distilled", "base", "base-distilled"])
def test_training_on_votes(stage, tmp_path, bert_folder, works, monkeypatch):
    """Every data set in a batch or two, and no run twice."""
    quiet = {"use_cpu": True, "disable_tqdm": True, "bf16": False}
    rows = {stage: dict.fromkeys(rows, 2) for stage, rows in train_votes.ROWS.items()}
    monkeypatch.setattr(train_votes, "ROWS", rows)
    monkeypatch.setattr(train_votes, "SETTINGS", train_votes.SETTINGS | quiet)
    monkeypatch.setattr(distilled, "PASSAGE", 4)
    monkeypatch.setattr(train_votes, "check_data", lambda *names: None)
    monkeypatch.setattr(train_votes, "report", lambda *arguments: None)
    write_texts_to_label(works)
    out = tmp_path / "runs"
    flags = ["--stage", stage, "--base", bert_folder, "--seeds", "0", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["train_votes.py", str(works), *flags])
    train_votes.main()
    folders = (out / "seed-0" / "encoder", out / "seed-1" / "encoder", bert_folder, out / "encoder")
    *seeds, base, mean = (
        StoryEncoder.from_pretrained(folder, device="cpu").model.state_dict() for folder in folders
    )
    part = train_votes.BASE_PART[stage]
    for name, found in mean.items():
        expected = (seeds[0][name] + seeds[1][name] + part * base[name]) / (2 + part)
        torch.testing.assert_close(found.float(), expected.half().float())
    assert any(not torch.equal(seeds[0][name], seeds[1][name]) for name in mean)
    monkeypatch.setattr(train_votes, "train", None)
    train_votes.main()


@pytest.mark.parametrize(
    "facts",
    [
        "twins_encoder.yaml",
        "default_encoder.yaml",
        "base_encoder.yaml",
        "multilingual_encoder.yaml",
    ],
)
def test_card_of_the_default_encoder_is_complete(tmp_path, facts):
    measured = dict.fromkeys(measuring.COLUMNS.values(), 0.25)
    options = {"objective": " (settings)", "seeds": "0, 1"}
    measuring.write_card(tmp_path, facts, "| the table |", measured, **options)
    card = ModelCard.load(tmp_path / "README.md")
    assert [result.metric_value for result in card.data.eval_results] == [0.25] * len(measured)
    assert card.data.license == ("mit" if "multilingual" in facts else "apache-2.0")
    assert "| the table |" in card.content and "{{" not in card.content
    assert "Seeds: 0, 1" in card.content and "(settings)" in card.content


@pytest.mark.slow
def test_which_encoder(tmp_path, bert_folder, monkeypatch):
    """Every row and column of the table is measured once; the card has the figures."""
    synopsis = {"story": SENTENCES * 2, "turning_points": [0, 3, 6, 8, 11]}
    tale = {"story": SENTENCES, "labels": list(range(len(SENTENCES)))}
    rows = {"stories": tale, "films": synopsis, "tales": tale, "summaries": tale}
    sets = [load_labelled(Dataset.from_list([row] * 2), name=name) for name, row in rows.items()]
    twins = Dataset.from_list(
        [{"story": SENTENCES, "twin": SENTENCES, "negative": SENTENCES[::-1]}]
    )
    monkeypatch.setattr(which, "labelled", lambda data: sets)
    monkeypatch.setattr(which, "check_data", lambda *names: None)
    for name in ("load_story_twins", "load_window_twins", "triples"):
        monkeypatch.setattr(which, name, lambda *data, **options: twins)
    base = tmp_path / "base"
    shutil.copytree(bert_folder, base)
    page = tmp_path / "encoders.md"
    page.write_text(f"# Before\n{which.BORDER}\nold\n{which.BORDER}\n# After\n")
    flags = [
        "--default",
        bert_folder,
        "--trained",
        f"base={base}",
        "--plain",
        f"tiny={bert_folder}",
    ]
    flags += ["--out", str(tmp_path / "out"), "--docs", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["which.py", str(tmp_path), *flags])
    which.main()
    before, table, after = page.read_text().split(which.BORDER)
    assert (before, after) == ("# Before\n", "\n# After\n") and "old" not in table
    trained = ["default, exact", "default, one pass", "base, exact", "base, one pass"]
    names = [line.split(" | ")[0][2:] for line in table.strip().splitlines()[2:]]
    assert names == [*trained, "tiny, not trained", *which.BASELINES]
    figures = json.loads((tmp_path / "out" / "which.json").read_text())
    assert all(len(figures[name]) == len(figures["base, exact"]) >= 13 for name in trained)
    assert figures["tiny, not trained"].items() <= figures["base, exact"].items()
    card = ModelCard.load(base / "README.md")
    assert len(card.data.eval_results) == len(which.OF_CARD) and table.strip() in card.content
    assert (tmp_path / "encoders.svg").exists()
    # Another encoder beside the figures of these, which replaces its figures of before.
    outdated = {"other, exact": {"twins": -1, "seconds a text of films": 9}}
    (tmp_path / "out" / "which.json").write_text(json.dumps(figures | outdated))
    earlier = ["--earlier", str(tmp_path / "out" / "which.json"), "--untimed"]
    flags = ["--trained", f"other={bert_folder}", *earlier, "--out", str(tmp_path / "later")]
    monkeypatch.setattr(sys, "argv", ["which.py", str(tmp_path), *flags])
    which.main()
    later = json.loads((tmp_path / "later" / "which.json").read_text())
    assert list(later)[:6] == [*trained, "other, exact", "other, one pass"]
    assert later == figures | {name: later[name] for name in list(later)[4:6]}
    assert later["other, one pass"].items() <= figures["base, one pass"].items()
    assert later["other, exact"]["seconds a text of films"] == 9, "a text takes as long as before"
    monkeypatch.setattr(which.StoryEncoder, "from_pretrained", None)
    assert which.nearer({"base": str(base)}, tmp_path, tmp_path / "out" / "twins.json")


def few(load, first, **options):
    """The rows of a few stories."""
    rows = load(**options)
    return rows.filter(lambda id_: id_[:6] in first, input_columns="id")


@pytest.mark.slow
def test_table_of_languages(tmp_path, bert_folder, monkeypatch):
    """A row for each language and English, and the mean of the languages that are reported only."""
    monkeypatch.setattr(languages, "LANGUAGES", ("ar", "de"))
    monkeypatch.setattr(languages, "CHOSEN", ("ar",))
    load = load_story_salience(split="validation", name="translations")
    first = {id_.rpartition("-")[0] for id_ in load["id"][:4]}
    for name in ("load_story_salience", "load_story_twins"):
        monkeypatch.setattr(languages, name, partial(few, getattr(languages, name), first))
    page = tmp_path / "encoders.md"
    border = languages.BORDER_OF_LANGUAGES
    page.write_text(f"{border}\nold\n{border}")
    flags = ["--model", "default", "--model", f"tiny={bert_folder}", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["languages.py", *flags, "--docs", str(tmp_path)])
    languages.main()
    found = json.loads((tmp_path / "out" / "languages.json").read_text())
    encoders = [f"{name}, {form}" for name in ("default", "tiny") for form in which.FORMS]
    assert list(found) == ["ar", "de", "en"]
    assert all(set(rows) == {*encoders, *languages.BASELINES} for rows in found.values())
    for metric, value in found["en"]["trail"].items():
        assert value == pytest.approx(found["de"]["trail"][metric], nan_ok=True)
    lines = page.read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines[3:-1]] == [
        "| ar",
        "| de *",
        "| en",
        "| mean of *",
    ]
    # Twins are of the first encoder, in the last column; the only language that is reported is de.
    assert lines[1].endswith(" | default: twins |")
    assert lines[-2].endswith(f" | {found['de']['default, exact']['twins']:.3f} |")
    assert "tiny" not in lines[1].partition("tiny, exact")[2]
    # Another version of an encoder beside the figures of the others, in its place.
    outdated = {language: rows | {"tiny, exact": {}} for language, rows in found.items()}
    (tmp_path / "earlier.json").write_text(json.dumps(outdated))
    flags = ["--model", f"tiny={bert_folder}", "--earlier", str(tmp_path / "earlier.json")]
    flags += ["--out", str(tmp_path / "later")]
    monkeypatch.setattr(sys, "argv", ["languages.py", *flags])
    languages.main()
    assert (tmp_path / "later" / "languages.json").read_text() == json.dumps(found, indent=1) + "\n"


@pytest.fixture
def two_rows(works, monkeypatch):
    """Adapters are trained on the CPU, on two rows of each data set."""
    write_texts_to_label(works)
    monkeypatch.setattr(distilled, "PASSAGE", 4)
    rows = {stage: dict.fromkeys(rows, 2) for stage, rows in train_votes.ROWS.items()}
    monkeypatch.setattr(train_votes, "ROWS", rows)
    settings = {"use_cpu": True, "disable_tqdm": True, "bf16": False}
    arguments = train_adapters.NarrativeTwinsTrainingArguments
    monkeypatch.setattr(
        train_adapters,
        "NarrativeTwinsTrainingArguments",
        lambda *args, **options: arguments(*args, **(options | settings)),
    )
    monkeypatch.setattr(train_adapters, "TRANSLATED", dict.fromkeys(train_adapters.TRANSLATED, 2))
    monkeypatch.setattr(train_adapters, "RANK", 3)
    monkeypatch.setattr(train_adapters, "check_data", lambda *names: None)


@pytest.mark.slow
@pytest.mark.usefixtures("two_rows")
@pytest.mark.parametrize("encoder", train_adapters.STAGES)
def test_adapters_are_trained_in_stages(encoder, tmp_path, bert_folder, works, monkeypatch):
    """Each stage goes on with the adapter of the stage before; a finished run is not repeated."""
    out = tmp_path / "runs"
    flags = ["--encoder", encoder, "--base", bert_folder, "--out", str(out)]
    flags += ["--teacher", "default"] if encoder == "multilingual" else []
    monkeypatch.setattr(sys, "argv", ["train_adapters.py", str(works), *flags])
    train_adapters.main()
    first, second = (out / stage for stage in train_adapters.STAGES[encoder])
    merged = StoryEncoder.from_pretrained(second / "encoder", device="cpu").model.state_dict()
    small = StoryEncoder.from_pretrained(out / "adapter", device="cpu").model.state_dict()
    base = StoryEncoder.from_pretrained(bert_folder, device="cpu").model.state_dict()
    changed = {name for name in base if not torch.equal(base[name], merged[name])}
    assert changed and all(".layer." in name and name.endswith("weight") for name in changed)
    for name, weight in merged.items():
        torch.testing.assert_close(small[name], weight, atol=1e-3, rtol=0)
    start = train_adapters.with_adapter(bert_folder, first / "adapter", 3)
    state = start[0].auto_model.state_dict()
    tensors = load_file(first / "adapter" / "adapter_model.safetensors")
    for name, weight in tensors.items():
        name = name.replace(".weight", ".default.weight")
        assert torch.equal(state[name], weight)
    monkeypatch.setattr(train_adapters, "train", None)
    train_adapters.main()


@pytest.mark.slow
@pytest.mark.usefixtures("two_rows")
def test_ranks_are_compared(tmp_path, bert_folder, works, monkeypatch, capsys):
    """A row for each setting, whose weights are trained as it says; none is trained twice."""
    stories = load_story_salience(split="validation").take(3)
    monkeypatch.setattr(ranks, "load_story_salience", lambda *names, **options: stories)
    monkeypatch.setattr(ranks, "half", lambda rows, held_out: rows)
    monkeypatch.setattr(ranks, "check_data", lambda *names: None)
    twins = Dataset.from_list([{"story": SENTENCES, "twin": SENTENCES, "negative": SENTENCES[1:]}])
    monkeypatch.setattr(ranks, "load_story_twins", lambda **options: twins)
    trained = {}

    def fit(model, *arguments, **settings):
        train_adapters.fit(model, *arguments, **settings)
        names = [name for name, weight in model.named_parameters() if weight.requires_grad]
        sizes = {min(weight.shape) for name, weight in model.named_parameters() if "lora" in name}
        trained[settings["learning_rate"]] = names, sizes, settings["max_steps"]

    monkeypatch.setattr(ranks, "fit", fit)
    flags = ["--encoder", "base", "--base", bert_folder, "--out", str(tmp_path / "ranks")]
    flags += ["--settings", "2", "5@1e-3", "all", "--steps", "1"]
    monkeypatch.setattr(sys, "argv", ["ranks.py", str(works), *flags])
    ranks.main()
    lines = capsys.readouterr().out.splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    assert [row[:2] for row in cells[1:]] == [
        ["2", "0.0004"],
        ["5", "0.001"],
        ["all weights", "8e-05"],
    ]
    assert all(-1 <= float(value) <= 1 for row in cells[1:] for value in row[2:])
    (small, large, every) = trained.values()
    assert (small[1], large[1], every[1]) == ({2}, {5}, set())
    assert all("lora" in name for name in small[0] + large[0])
    assert any("query" in name for name in every[0])
    assert not any("embeddings" in name for name in every[0])
    assert {steps for _, _, steps in trained.values()} == {1}
    monkeypatch.setattr(ranks, "fit", None)
    ranks.main()


def test_search_for_a_story_by_its_twin(monkeypatch, bert_folder, capsys):
    """The rank of the text that belongs to a query; a tie is lost. Texts of rows without a twin are
    not in the corpus."""
    queries, corpus = torch.eye(2).numpy(), torch.tensor([[1, 1], [0, 1], [2, 1], [1, 0.0]]).numpy()
    assert search.ranks(queries, corpus).tolist() == [3, 1]
    assert search.ranks(queries, corpus[[0, 1, 0]]).tolist() == [2, 1]
    row = {"story": SENTENCES, "twin": SENTENCES, "negative": SENTENCES[:1]}
    other = {"story": SENTENCES[1:3], "twin": SENTENCES[1:3], "negative": SENTENCES[2:4]}
    rows = Dataset.from_list([row, other, row | {"twin": []}])
    monkeypatch.setattr(search, "load_story_twins", lambda split: rows)
    monkeypatch.setattr(sys, "argv", ["search.py", "--model", f"tiny={bert_folder}"])
    search.main()
    count, *_, last = capsys.readouterr().out.splitlines()
    assert count == "2 twins" and last.split(" | ")[:2] == ["| tiny", "1.000"]
    assert last.split(" | ")[4] == "1.000"
