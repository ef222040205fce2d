"""Triples of stories: reading, accuracy of encoders and baselines, the command, training."""

import json
import shutil

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import cos_sim

from narrative_twins.commands.cli import main
from narrative_twins.data import RowError, load_triples
from narrative_twins.evaluation import evaluate_similarity
from narrative_twins.evaluation.similarity import is_similarity_data, nearer

from support.examples import run
from support.models import SENTENCES
from support.rows import write_rows

ROWS = [
    {
        "anchor_text": SENTENCES[at],
        "text_a": SENTENCES[at + 1],
        "text_b": SENTENCES[at + 2],
        "text_a_is_closer": at % 2 == 0,
    }
    for at in range(len(SENTENCES) - 2)
]


@pytest.fixture
def file(tmp_path) -> str:
    return str(write_rows(tmp_path / "dev_track_a.jsonl", ROWS))


def test_published_rows_are_read(file, tmp_path):
    first, second = load_triples(file)["train"].select(range(2))
    assert (first["anchor"], first["positive"]) == (SENTENCES[0], SENTENCES[1])
    assert (second["positive"], second["negative"]) == (SENTENCES[3], SENTENCES[2])
    assert is_similarity_data(file)
    plain = {"anchor": "a", "positive": "b", "negative": "c"}
    assert (
        load_triples(write_rows(tmp_path / "plain.jsonl", [plain]))["train"][0]["negative"] == "c"
    )
    labels = write_rows(tmp_path / "labels.jsonl", [{"story": ["a"], "votes": [1]}])
    assert not is_similarity_data(labels) and not is_similarity_data("stories")
    assert not is_similarity_data(tmp_path / "missing.jsonl")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"text_a_is_closer": None}, "text_a_is_closer is None; it must be true or false"),
        ({"text_b": " "}, "text_b is ' '; it must be a text"),
    ],
)
def test_errors_name_the_row(change, problem, tmp_path):
    file = write_rows(tmp_path / "rows.jsonl", [ROWS[0], ROWS[1] | change])
    with pytest.raises(RowError, match=f"rows.jsonl.*{problem}"):
        load_triples(file)


def test_rows_without_one_of_the_texts_are_triples_still(tmp_path):
    row = {name: value for name, value in ROWS[0].items() if name != "text_b"}
    file = write_rows(tmp_path / "rows.jsonl", [row])
    assert is_similarity_data(file)
    with pytest.raises(RowError, match="text_b is None; it must be a text"):
        load_triples(file)


def test_accuracy_is_by_the_vectors_of_sentence_transformers(file, bert_folder):
    comparison = evaluate_similarity({"tiny": bert_folder}, file, loading={"dtype": "float32"})
    model = SentenceTransformer(bert_folder, device="cpu")
    expected = []
    for row in load_triples(file)["train"]:
        anchor, *others = model.encode([row[name] for name in ("anchor", "positive", "negative")])
        positive, negative = cos_sim(anchor, others)[0].tolist()
        expected.append(float(positive > negative))
    assert comparison.correct["tiny"].tolist() == expected
    assert evaluate_similarity({"x": model}, file).correct["x"].tolist() == expected
    row = comparison.rows()[0]
    assert row["accuracy"] == pytest.approx(np.mean(expected)) and row["p"] is None
    assert comparison.name == "dev_track_a"


def test_baselines_and_ties(tmp_path):
    pytest.importorskip("sklearn")
    row = {
        "anchor": "The mill burned.",
        "positive": "Fire took it.",
        "negative": "The mill burned!",
    }
    file = write_rows(tmp_path / "rows.jsonl", [row])
    correct = evaluate_similarity({}, file).correct
    assert {name: values.tolist() for name, values in correct.items()} == {
        "length": [0.5],
        "tfidf": [0.0],
    }
    assert nearer(np.array([[0.2, 0.1], [0.1, 0.2], [0.3, 0.3]])).tolist() == [1.0, 0.0, 0.5]
    with pytest.raises(ValueError, match="'trail' is not for triples of stories; use length"):
        evaluate_similarity({}, file, baselines=["trail"])
    with pytest.raises(ValueError, match="no row 'b', only length"):
        evaluate_similarity({}, file, baselines=["length"], against="b")
    with pytest.raises(ValueError, match="nothing to compare"):
        evaluate_similarity({}, file, baselines=[])


def test_command(file, bert_folder, tmp_path, capsys):
    options = ["--model", f"tiny={bert_folder}", "--against", "length", "--out"]
    assert main(["evaluate", file, *options, str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert f"dev_track_a: {len(ROWS)} triples of stories" in printed and "| tiny " in printed
    assert "people" not in printed, "labels may be made from twins and distractors"
    content = json.loads((tmp_path / "out" / "results.json").read_text())
    assert len(content["correct"]["tiny"]) == len(ROWS)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("results.json", "table.md", "table.tex")
    }


def test_options_and_files_that_triples_do_not_take_are_errors(file, tmp_path, capsys):
    (tmp_path / "b").mkdir()
    other = shutil.copy(file, tmp_path / "b")
    for flags, problem in (
        (["--second", "b.csv"], "--second: of stories with labels, not of triples"),
        (["--operations", "deletion"], "--operations, --fast, --exact and --similarity: of"),
        ([other, "--out", str(tmp_path / "out")], "two files are named dev_track_a; rename one"),
    ):
        assert main(["evaluate", file, *map(str, flags)]) == 2
        assert problem in " ".join(capsys.readouterr().err.split())


def test_baselines_of_the_command_are_those_of_the_kind_of_data(file, tmp_path, capsys):
    pytest.importorskip("sklearn")
    assert main(["evaluate", file, "--model", "default", "--baselines", "tfidf"]) == 0
    printed = capsys.readouterr().out
    assert "| tfidf " in printed and "| length " not in printed
    labels = write_rows(
        tmp_path / "labels.jsonl", [{"story": SENTENCES, "votes": [5] + [0] * (len(SENTENCES) - 1)}]
    )
    for data, name in ((file, "trail"), (labels, "tfidf")):
        assert main(["evaluate", str(data), "--baselines", name]) == 1
        assert f"{name!r}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["roc", "salience", "wiki"])
def test_triples_are_another_data_set_of_training(name, file, bert_folder, tmp_path):
    flags = ["--smoke", "--encoder", bert_folder, "--use_cpu", "--output_dir", tmp_path / "run"]
    flags += ["--triples_source", file, "--context_tokens", 200, "--operations", "deletion"]
    flags += ["--max_steps", 2]
    assert "2 steps" in run(f"train_{name}.py", *flags, "--prompt", "A story: ")
    card = (tmp_path / "run" / "final" / "README.md").read_text(encoding="utf-8")
    assert "triples: MultipleNegativesRankingLoss" in card
