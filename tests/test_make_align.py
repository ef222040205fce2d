"""`narrative-twins make align`, as users type it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import small
from datasets import disable_progress_bars
from hub import Hub, running
from models import SENTENCES

from narrative_twins import TwinsCollator, push_dataset
from narrative_twins.cards import DatasetFacts, read_facts, with_id
from narrative_twins.cli import main
from narrative_twins.data import load_window_twins
from narrative_twins.files import WholeFile
from narrative_twins.making.long_twins import LongTwins
from narrative_twins.trainable import checked_rows

disable_progress_bars()

COMMAND = [str(Path(sys.executable).with_name("narrative-twins")), "make", "align"]
STORY = [f"{sentence} ({n})" for n, sentence in enumerate(SENTENCES * 3)][:24]
TWINS = [[f"{sentence} So it was." for sentence in STORY[start:]] for start in range(3)]
WORKS = [
    *(
        {"id": f"w{n}", "title": f"Work {n}", "story": [f"{n}. {one}" for one in STORY], "twins": TWINS}
        for n in range(5)
    ),
    {"id": "short", "story": STORY[:19], "twins": TWINS},
    {"id": "lone", "story": STORY, "twins": []},
    {"id": "translated", "story": STORY, "twins": [{"sentences": STORY, "language": "fr", "similarity": 0.99}]},
]


@pytest.fixture
def works(tmp_path):
    path = tmp_path / "works.jsonl"
    path.write_text("".join(json.dumps(work) + "\n" for work in WORKS))
    return path


@pytest.fixture
def run(bert_folder, works, tmp_path, capsys):
    """Run the command in this process with a small encoder; gives code, output and errors."""

    def call(*arguments, out="twins.jsonl"):
        command = ["make", "align", str(works), "--out", str(tmp_path / out), "--encoder", bert_folder]
        # To a random encoder all sentences are alike, so most of a story may be aligned to one of the twin.
        code = main([*command, "--device", "cpu", "--min-window", "1", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_as_a_user_types_it(works, tmp_path):
    """The installed command, the default encoder, no network."""
    done = subprocess.run(
        [*COMMAND, "works.jsonl", "--out", "twins.jsonl"], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    for words in (
        "8  works read",
        "1  - story of fewer than 20",
        "2  - no telling left",
        "5  - kept, with a twin each",
    ):
        assert words in done.stdout
    assert "twins.jsonl, with its card twins.card.md and its facts twins.facts.yaml" in done.stdout
    rows = rows_of(tmp_path / "twins.jsonl")
    assert [row["id"] for row in rows] == [f"w{n}" for n in range(5)]
    # The twins are nearly the same sentences, so those of a twin are in the windows of those of the story.
    for row in rows:
        start = len(STORY) - len(row["twin"])
        window_of = [w for w, window in enumerate(row["story"]) for _ in window]
        found = [window_of[start + j] in homes for j, homes in enumerate(row["twin_windows"])]
        assert sum(found) / len(found) > 0.9


def test_the_rows_are_loaded_and_trained_on(run, tmp_path):
    code, out, _ = run("--windows", 4)
    assert code == 0
    rows = load_window_twins(str(tmp_path / "twins.jsonl"), split="train", cache_dir=str(tmp_path / "cache"))
    assert [len(row["story"]) for row in rows] == [4] * 5 and rows[0]["title"] == "Work 0"
    checked_rows(rows, "twins", silent=True)
    batch = TwinsCollator(small().tokens)(list(rows))
    assert set(batch["texts_window_ids"].unique().tolist()) == {-1, 0, 1, 2, 3}


def test_the_card_is_the_one_that_is_pushed(run, tmp_path, monkeypatch):
    run()
    facts = read_facts(DatasetFacts, tmp_path / "twins.facts.yaml")
    card = (tmp_path / "twins.card.md").read_text()
    for words in ("| train | 5 |", "- works read: 8", "  - kept, with a twin each: 5", "seed 0", "Of works.jsonl:"):
        assert words in card
    assert str(tmp_path) not in card and "Omar" not in card
    import huggingface_hub.constants

    with running(Hub("secret")) as hub:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", hub.address)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        rows = load_window_twins(str(tmp_path / "twins.jsonl"), cache_dir=str(tmp_path / "cache"))
        push_dataset(rows, "somebody/twins", facts=facts, token="secret")
        pushed = hub.files("datasets", "somebody/twins")["README.md"].decode()
    assert pushed == with_id(card, "somebody/twins")


def test_an_interrupted_run_goes_on(run, tmp_path, monkeypatch):
    """The same file and the same report, and nothing is aligned twice."""
    _, report, _ = run(out="whole.jsonl")
    row, aligned = LongTwins.row, []

    def interrupted(self, work):
        if work.id == "w3":
            raise KeyboardInterrupt
        return row(self, work)

    monkeypatch.setattr(LongTwins, "row", interrupted)
    code, _, err = run()
    assert code == 130 and "twins.jsonl.part, go on with --resume" in err
    assert not (tmp_path / "twins.jsonl").exists() and not (tmp_path / "twins.card.md").exists()
    assert [one["id"] for one in rows_of(tmp_path / "twins.jsonl.part")] == ["w0", "w1", "w2"]

    def recorded(self, work):
        aligned.append(work.id)
        return row(self, work)

    monkeypatch.setattr(LongTwins, "row", recorded)
    code, resumed, _ = run("--resume")
    assert code == 0 and aligned == ["w3", "w4", "short", "lone", "translated"]
    assert (tmp_path / "twins.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert (tmp_path / "twins.card.md").read_bytes() == (tmp_path / "whole.card.md").read_bytes()
    assert resumed == report.replace("whole.", "twins.")


def test_each_row_is_on_the_disk_before_the_next(run, monkeypatch):
    asked = {}
    start = WholeFile.__init__

    def recorded(self, path, *arguments, **options):
        asked[Path(path).name] = options.get("durable", False)
        start(self, path, *arguments, **options)

    monkeypatch.setattr(WholeFile, "__init__", recorded)
    run()
    assert asked["twins.jsonl"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--windows", 4), "- windows: 5, even"),
        (("--seed", 1), "at random, seed 0"),
        (("--max-similarity", "0.5"), "similarity that was measured: at most fr 0.681"),
        (("--anonymized",), "- texts: as they are"),
    ],
)
def test_going_on_with_other_options(run, tmp_path, options, what):
    run()
    before = (tmp_path / "twins.jsonl").read_bytes()
    code, _, err = run("--resume", *options)
    assert code == 1 and "begun with other options" in err and what in err
    assert (tmp_path / "twins.jsonl").read_bytes() == before


def test_going_on_with_what_is_no_such_file(run, tmp_path):
    code, out, _ = run("--resume")
    assert code == 0 and "5  - kept" in out, "with nothing to go on from it begins"
    (tmp_path / "twins.facts.yaml").unlink()
    code, _, err = run("--resume")
    assert code == 1 and "twins.facts.yaml is not there" in err
    (tmp_path / "twins.jsonl").write_text('{"id": "w0"}\n')
    code, _, err = run("--resume")
    assert code == 1 and "its line 1 is no row of this command" in err


def test_works_that_were_changed_or_went_away(run, works, tmp_path):
    run()
    changed = [WORKS[0] | {"twins": [["Another telling."] * 24]}, *WORKS[1:]]
    works.write_text("".join(json.dumps(work) + "\n" for work in changed))
    code, _, err = run("--resume")
    assert code == 1 and "the twin of 'w0' is not among the tellings" in err
    works.write_text("".join(json.dumps(work) + "\n" for work in WORKS[1:]))
    code, out, err = run("--resume")
    assert code == 0 and "of works that are not read now" in err and "7  works read" in out


def test_what_cannot_be_read_is_told_and_passed_over(run, works, tmp_path):
    works.write_text('{"id": "x"}\n{"cut\n' + works.read_text())
    code, out, err = run()
    assert code == 1 and "2  - could not be read" in out and "5  - kept" in out
    assert "works.jsonl, line 1: no column 'story'" in err and "works.jsonl, line 2: is not valid JSON" in err
    assert len(rows_of(tmp_path / "twins.jsonl")) == 5


def test_no_work_is_left(run, tmp_path):
    code, out, err = run("--min-sentences", 100)
    assert code == 1 and "no work is left" in err and "0  - kept, with a twin each" in out
    assert (tmp_path / "twins.jsonl").read_text() == "" and not (tmp_path / "twins.card.md").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("works.jsonl", "--out", "-"), "ends in .jsonl"),
        (("works.jsonl", "--out", "twins.parquet"), "ends in .jsonl"),
        (("works.jsonl", "--out", "works.jsonl"), "also read"),
        (("works.jsonl", "--out", "a.jsonl", "--max-similarity", "high"), "no list of similarities"),
        (("works.jsonl", "--out", "a.jsonl", "--windows", "0"), "no count of 1 or more"),
    ],
)
def test_wrong_calls(works, tmp_path, monkeypatch, capsys, arguments, problem):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["make", "align", *arguments])
    assert stopped.value.code == 2 and problem in capsys.readouterr().err


def test_more_windows_than_sentences(run):
    code, _, err = run("--windows", 6, "--min-sentences", 5)
    assert code == 1 and "6 windows for stories of 5 sentences" in err


def test_similarities_by_language(run, tmp_path):
    code, _, _ = run("--max-similarity", "0.5,fr=1", "--max-difference", 0)
    assert code == 0
    assert "translated" in [row["id"] for row in rows_of(tmp_path / "twins.jsonl")]
