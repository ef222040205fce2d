"""The benchmarks run, and the ways that they compare do what they claim."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from narrative_twins import Story, score_stories
from narrative_twins.stories.sentences import find_headings

from support.examples import run
from support.models import SENTENCES, small

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.append(str(BENCHMARKS))

import artefacts  # noqa: E402
import contenders  # noqa: E402
import splitters  # noqa: E402


@pytest.mark.slow
def test_speed_is_measured(bert_folder, tmp_path):
    out = tmp_path / "speed.json"
    options = ["--work", "stories", "corpus", "--stories", 3, "--rounds", 1, "--out", out]
    printed = run(BENCHMARKS / "speed.py", "--model", bert_folder, *options)
    report = json.loads(out.read_text())
    rows = {row["way"]: row for row in report["stories"]["rows"]}
    assert {"reference loop", "exact, float32", "one pass, auto", "floor, plain torch"} <= set(rows)
    for row in rows.values():
        times = rows["reference loop"]["seconds"] / row["seconds"]
        assert row["times as fast"] == pytest.approx(times, rel=0.05, abs=0.01), "within a round"
    assert all(name in printed for name in rows)
    corpus = {row["way"] for row in report["corpus"]["rows"]}
    assert {"forward passes", "corpus", "corpus, two processes"} <= corpus
    assert report["machine"]["torch"] == torch.__version__


@pytest.mark.parametrize("windows", [1, 3])
def test_reference_loop_encodes_the_same_texts_as_the_engine(windows):
    """Each text as often as an operation needs it."""
    encoder = small("bert")
    story = Story.parse({"sentences": SENTENCES[:6]}, windows)
    seen = []

    def record(module, args, inputs):
        for row, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True):
            seen.append(tuple(row[mask.bool()].tolist()))

    hook = encoder.model.register_forward_pre_hook(record, with_kwargs=True)
    contenders.reference(encoder, [story])()
    hook.remove()
    size = 6 // windows
    assert len(seen) == windows * (3 + 3 * size + size * (size - 1))
    rows = contenders.unique_rows(encoder, [story])
    assert set(seen) == {tuple(row.tolist()) for row in rows}
    assert len(list(score_stories([story], encoder))) == 1, "the encoder still works"


def test_floor_encodes_the_same_number_of_tokens():
    encoder = small("bert")
    rows = contenders.unique_rows(encoder, [Story.parse({"sentences": SENTENCES[:5]}, 1)])
    seen = []
    hook = encoder.model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    for products in (False, True):
        contenders.floor(encoder, rows, products)()
    hook.remove()
    total = sum(map(len, rows))
    assert sum(seen) == pytest.approx(2 * total, rel=0.05)


@pytest.fixture
def labels(tmp_path) -> Path:
    """A folder with some of the data that benchmarks of agreement read."""
    rows = {
        f"story {at}": {"sentences": SENTENCES[at : at + 5], "most_important": [1, 2, 2]}
        for at in range(4)
    }
    (tmp_path / "roc_val.json").write_text(json.dumps(rows))
    return tmp_path


@pytest.mark.slow
def test_artefacts_are_measured(bert_folder, labels):
    out = labels / "report.json"
    printed = run(BENCHMARKS / "artefacts.py", labels, "--model", bert_folder, "--out", out)
    assert "skipped: no" in printed and "tripod_train.json" in printed
    report = json.loads(out.read_text())
    assert report["five sentences"]["even"] == pytest.approx(0.4, abs=0.05)
    assert len(report["five sentences"]["disruption by place"]) == 5


@pytest.mark.slow
def test_agreement_is_measured_against_time(bert_folder, labels):
    out, plot = labels / "tradeoff.json", labels / "tradeoff.svg"
    options = ["--model", bert_folder, "--plain", bert_folder, "--out", out, "--plot", plot]
    command = [BENCHMARKS / "tradeoff.py", labels, *options, "--rounds", 1, "--sentences", 30]
    command += ["--limit", 3]
    printed = run(*command)
    assert "skipped: no" in printed and "tripod_train.json" in printed and not out.exists()
    film = {"sentences": SENTENCES * 2, "turning_points": [0, 3, 6, 8, 12]}
    (labels / "tripod_train.json").write_text(json.dumps({"film_0": film}))
    printed = run(*command)
    report = json.loads(out.read_text())
    ways = {"exact, all operations", "exact, summarization", "one pass", "TextRank, MiniLM"}
    for kind in ("stories", "synopses"):
        rows = report[kind]["rows"]
        assert ways <= set(rows) and all(f"| {name} |" in printed for name in rows)
        assert all(row["seconds"] > 0 and -1 <= row["agreement"] <= 1 for row in rows.values())
    assert "exact, all operations" not in report["book"]["rows"]
    assert report["book"]["sentences"] == 30 and plot.read_text().startswith("<?xml")


@pytest.mark.slow
def test_books_and_steps_of_training_are_measured(bert_folder):
    printed = run(BENCHMARKS / "books.py", "--model", bert_folder, "--sentences", 30, 40)
    assert printed.count("s per 1,000 sentences, peak") == 2
    options = ["--rounds", 1, "--work", "32 stories", "--model", bert_folder]
    printed = run(BENCHMARKS / "training.py", *options).splitlines()
    assert len(printed) == 4 and all("times the time of plain" in line for line in printed)


@pytest.mark.slow
def test_the_checks_of_a_gpu_run_on_a_cpu(bert_folder, tmp_path):
    out = tmp_path / "gpu.md"
    options = ["--device", "cpu", "--model", bert_folder, "--large", bert_folder, "--out", out]
    options += ["--stories", 4, "--synopses", 1, "--corpus", 20]
    parts = "parity batches memory timing training corpus limit".split()
    with pytest.raises(SystemExit) as end:
        run(BENCHMARKS / "gpu.py", *options, "--parts", *parts)
    table = out.read_text(encoding="utf-8")
    assert end.value.code == 0, table
    assert table.count("| parity: ") == 8 and table.count("| exact, ") == 4
    assert "| corpus of 20 stories, one pass |" in table


def test_length_is_partialled_out_of_ranks():
    lengths = [5, 9, 2, 7, 3]
    assert artefacts.without_length(np.array(lengths) ** 2.0, lengths) == pytest.approx(0)
    rest = artefacts.without_length(np.array([0.3, 0.1, 0.9, 0.2, 0.5]), lengths)
    ranks = np.argsort(np.argsort(lengths))
    assert rest @ ranks == pytest.approx(0)


@pytest.mark.parametrize("name", ["gold.txt", "held_out.txt"])
def test_default_splitter_on_dialogue(name):
    dialogue = splitters.read_dialogue(name)
    assert len(dialogue[0]) >= 10 and sum(map(len, dialogue[1])) > 120
    f1, _ = splitters.agreement(splitters.default, *dialogue)
    assert f1 > 0.98  # syntok without the rules of the package has 0.93 at most


def test_every_heading_of_the_dialogue_is_found():
    for name in ("gold.txt", "held_out.txt"):
        lines = (splitters.DIALOGUE / name).read_text(encoding="utf-8").splitlines()
        headings = [line.removeprefix("@ ") for line in lines if line.startswith("@ ")]
        texts, _ = splitters.read_dialogue(name)
        assert [text[lo:hi] for text in texts for lo, hi in find_headings(text)] == headings
