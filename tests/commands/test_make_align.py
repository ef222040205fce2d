"""The command `narrative-twins make align`."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from datasets import disable_progress_bars

from narrative_twins import TwinsCollator, push_dataset
from narrative_twins.commands.cli import main
from narrative_twins.commands.make_align import similarities
from narrative_twins.data import load_window_twins
from narrative_twins.encoder.checkpoint import default_encoder
from narrative_twins.hub.cards import fill_in_id
from narrative_twins.hub.facts import DatasetFacts, facts_text, read_facts
from narrative_twins.making.alignment import SentenceEmbedder
from narrative_twins.making.long_twins import MAX_SIMILARITY, OTHER_LANGUAGES, Filters, LongTwins
from narrative_twins.making.works import read_documents, read_works
from narrative_twins.training.trainable import checked_rows

from support.hub import Hub, running
from support.models import SENTENCES, small
from support.processes import COMMAND, run_command

disable_progress_bars()

STORY = [f"{sentence} ({n})" for n, sentence in enumerate(SENTENCES * 3)][:24]
TWINS = [[f"{sentence} So it was." for sentence in STORY[start:]] for start in range(3)]
WORKS = [
    *(
        {
            "id": f"w{n}",
            "title": f"Work {n}",
            "story": [f"{n}. {one}" for one in STORY],
            "twins": TWINS,
        }
        for n in range(5)
    ),
    {"id": "short", "story": STORY[:19], "twins": TWINS},
    {"id": "lone", "story": STORY, "twins": []},
    {
        "id": "translated",
        "story": STORY,
        "twins": [{"sentences": TWINS[0], "language": "fr", "similarity": 0.99}],
    },
]


@pytest.fixture
def works(tmp_path):
    path = tmp_path / "works.jsonl"
    path.write_text("".join(json.dumps(work) + "\n" for work in WORKS))
    return path


@pytest.fixture
def run(bert_folder, works, tmp_path, capsys):
    """Run the command in this process with a small encoder; returns exit code, output and
    errors."""

    def call(*arguments, out="twins.jsonl"):
        command = [
            "make",
            "align",
            str(works),
            "--out",
            str(tmp_path / out),
            "--encoder",
            bert_folder,
        ]
        # A random encoder finds all sentences similar, so most of a story may be aligned to one
        # sentence of the twin.
        code = main([*command, "--device", "cpu", "--min-window", "1", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_installed_command(works, tmp_path):
    """With the default encoder and no network."""
    done = run_command(
        COMMAND, "make", "align", "works.jsonl", "--out", "twins.jsonl", cwd=tmp_path
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    for words in (
        "8  works read",
        "1  - story of fewer than 20",
        "2  - no telling passed the filters",
        "5  - kept, with a twin each",
    ):
        assert words in done.stdout
    assert "twins.jsonl, with its card twins.card.md and its facts twins.facts.yaml" in done.stdout
    rows = rows_of(tmp_path / "twins.jsonl")
    assert [row["id"] for row in rows] == [f"w{n}" for n in range(5)]
    # The twins have nearly the same sentences as the story, so these are in the same windows.
    for row in rows:
        start = len(STORY) - len(row["twin"])
        window_of = [w for w, window in enumerate(row["story"]) for _ in window]
        found = [window_of[start + j] in windows for j, windows in enumerate(row["twin_windows"])]
        assert sum(found) / len(found) > 0.9


def test_rows_are_loaded_and_trained_on(run, tmp_path):
    code, out, _ = run("--windows", 4)
    assert code == 0
    rows = load_window_twins(
        str(tmp_path / "twins.jsonl"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert [len(row["story"]) for row in rows] == [4] * 5 and rows[0]["title"] == "Work 0"
    checked_rows(rows, "twins", silent=True)
    batch = TwinsCollator(small().tokens)(list(rows))
    assert set(batch["texts_window_ids"].unique().tolist()) == {-1, 0, 1, 2, 3}


def test_card_equals_the_pushed_one(run, tmp_path, monkeypatch):
    run()
    facts = read_facts(DatasetFacts, tmp_path / "twins.facts.yaml")
    card = (tmp_path / "twins.card.md").read_text()
    for words in (
        "| train | 5 |",
        "- works read: 8",
        "  - kept, with a twin each: 5",
        "- seed: 0",
        "- works of: works.jsonl",
    ):
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
    assert pushed == fill_in_id(card, "somebody/twins")


def test_interrupted_run_is_resumed(run, tmp_path, monkeypatch):
    """With the same file and report as an uninterrupted run; works with a row are not aligned
    again."""
    _, report, _ = run(out="complete.jsonl")
    row, aligned = LongTwins.row, []

    def interrupted(self, work):
        if work.id == "w3":
            raise KeyboardInterrupt
        return row(self, work)

    monkeypatch.setattr(LongTwins, "row", interrupted)
    code, _, err = run()
    assert code == 130 and "twins.jsonl.part; continue with --resume" in err
    assert not (tmp_path / "twins.jsonl").exists() and not (tmp_path / "twins.card.md").exists()
    assert [one["id"] for one in rows_of(tmp_path / "twins.jsonl.part")] == ["w0", "w1", "w2"]
    assert (
        not (tmp_path / "twins.facts.yaml").exists()
        and (tmp_path / "twins.jsonl.part.run").exists()
    )

    def recorded(self, work):
        aligned.append(work.id)
        return row(self, work)

    monkeypatch.setattr(LongTwins, "row", recorded)
    code, resumed, _ = run("--resume")
    assert code == 0 and aligned == ["w3", "w4", "short", "lone", "translated"]
    assert (tmp_path / "twins.jsonl").read_bytes() == (tmp_path / "complete.jsonl").read_bytes()
    assert (tmp_path / "twins.card.md").read_bytes() == (tmp_path / "complete.card.md").read_bytes()
    assert (tmp_path / "twins.facts.yaml").read_bytes() == (
        tmp_path / "complete.facts.yaml"
    ).read_bytes()
    assert resumed == report.replace("complete.", "twins.")
    names = ["twins.card.md", "twins.facts.yaml", "twins.jsonl", "twins.jsonl.run"]
    assert sorted(path.name for path in tmp_path.glob("twins.*")) == names


def test_each_row_is_on_disk_before_the_next(run, tmp_path, monkeypatch):
    row, written, synced = LongTwins.row, [], []

    def recorded(self, work):
        written.append([one["id"] for one in rows_of(tmp_path / "twins.jsonl.part")])
        return row(self, work)

    monkeypatch.setattr(LongTwins, "row", recorded)
    monkeypatch.setattr(os, "fsync", synced.append)
    run()
    ids = [f"w{n}" for n in range(5)]
    assert written == [ids[:n] for n in range(5)] + [ids] * 3
    assert len(synced) == 5


def test_resuming_with_works_of_the_same_id_and_story(run, works, tmp_path):
    """Each of them keeps its own row, wherever the run stopped."""
    pairs = [WORKS[0] | {"twins": [twin]} for twin in (STORY[:2], *TWINS, TWINS[0])]
    works.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    _, report, _ = run()
    out = tmp_path / "twins.jsonl"
    lines = out.read_bytes().splitlines(keepends=True)
    assert [row["twin"] for row in rows_of(out)] == [*TWINS, TWINS[0]]
    for done in range(5):
        out.write_bytes(b"".join(lines[:done]))
        assert run("--resume") == (0, report, "")
        assert out.read_bytes() == b"".join(lines)


@pytest.fixture
def interrupted(run, monkeypatch):
    """Run the command, interrupted at a work."""

    def call(at, *arguments):
        row = LongTwins.row

        def stopping(self, work):
            if work.id == at:
                raise KeyboardInterrupt
            return row(self, work)

        with monkeypatch.context() as patched:
            patched.setattr(LongTwins, "row", stopping)
            assert run(*arguments)[0] == 130

    return call


def test_interrupted_run_does_not_change_the_complete_one(run, interrupted, tmp_path):
    run()
    before = {path.name: path.read_bytes() for path in tmp_path.glob("twins.*")}
    interrupted("w2", "--windows", 4)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    code, _, err = run("--resume")
    assert code == 2 and "started with windows 4 (now 5)" in err
    # Without the interrupted run, the complete one is resumed, with its own settings only.
    for name in ("twins.jsonl.part", "twins.jsonl.part.run"):
        (tmp_path / name).unlink()
    code, _, err = run("--resume", "--windows", 4)
    assert code == 2 and "started with windows 5 (now 4)" in err
    assert run("--resume")[0] == 0
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_resuming_needs_the_settings(run, interrupted, tmp_path):
    interrupted("w2")
    interrupted("w3", "--windows", 4)
    # Also with a file that was set aside.
    (tmp_path / "twins.jsonl.part.old").replace(tmp_path / "twins.jsonl.part")
    (tmp_path / "twins.jsonl.part.old.run").replace(tmp_path / "twins.jsonl.part.run")
    assert run("--resume")[0] == 0 and len(rows_of(tmp_path / "twins.jsonl")) == 5
    (tmp_path / "twins.jsonl").replace(tmp_path / "twins.jsonl.part")
    (tmp_path / "twins.jsonl.run").unlink()
    code, _, err = run("--resume")
    assert code == 2 and "its settings" in err and "are missing" in err


def edited(path, **facts):
    """Change some of the facts in a file."""
    path.write_text(facts_text(replace(read_facts(DatasetFacts, path), **facts)))


def test_edited_facts(run, works, tmp_path, caplog):
    """Edits stay with the same rows, and are not used for others."""
    run("--language", "de")
    path, old = tmp_path / "twins.facts.yaml", tmp_path / "twins.facts.yaml.old"
    assert read_facts(DatasetFacts, path).language == "de"
    edited(path, license="cc-by-4.0", name="Mills")
    for again in ((), ("--resume",)):
        code, _, err = run(*again)
        facts = read_facts(DatasetFacts, path)
        assert (code, err, facts.license, facts.name, facts.language) == (
            0,
            "",
            "cc-by-4.0",
            "Mills",
            "en",
        )
        assert "license: cc-by-4.0" in (tmp_path / "twins.card.md").read_text()
    works.rename(tmp_path / "other.jsonl")
    works.symlink_to(tmp_path / "other.jsonl")
    assert run()[0] == 0 and "twins.facts.yaml.old; copy what is still true" in caplog.text
    facts = read_facts(DatasetFacts, path)
    assert (facts.license, facts.name) == (None, "Long narrative twins")
    assert "cc-by" not in (tmp_path / "twins.card.md").read_text()
    assert read_facts(DatasetFacts, old).license == "cc-by-4.0"
    # A file without edits is not set aside.
    old.unlink()
    assert run("--seed", 1)[2] == "" and not old.exists()


def test_encoders_in_folders_of_the_same_name(run, bert_folder, tmp_path):
    """They are distinguished by their files, and their paths are not stored."""
    folders = [tmp_path / name / "final" for name in "ab"]
    for folder in folders:
        shutil.copytree(bert_folder, folder)
    (weights,) = folders[1].glob("*.safetensors")
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert run("--encoder", folders[0])[0] == 0
    code, _, err = run("--resume", "--encoder", folders[1])
    assert code == 2 and 'started with encoder fingerprint "' in err
    folders[0].parent.rename(tmp_path / "moved")
    assert run("--resume", "--encoder", tmp_path / "moved" / "final")[0] == 0
    assert str(tmp_path) not in (tmp_path / "twins.facts.yaml").read_text()


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        (("--windows", 4), "windows 5 (now 4)"),
        (("--seed", 1), "seed 0 (now 1)"),
        (("--max-similarity", "0.5"), '"other": 0.6} (now {"other": 0.5})'),
        (
            ("--anonymized",),
            """names of 'Tell me again!' replaced "no" (now "in the twins only")""",
        ),
    ],
)
def test_resuming_with_other_options(run, tmp_path, options, setting):
    run()
    before = (tmp_path / "twins.jsonl").read_bytes()
    code, _, err = run("--resume", *options)
    assert code == 2 and "started with" in err and setting in err
    assert (tmp_path / "twins.jsonl").read_bytes() == before


def test_resuming_with_missing_and_invalid_files(run, tmp_path):
    code, out, _ = run("--resume")
    assert code == 0 and "5  - kept" in out, "without an earlier run it starts"
    kept = (tmp_path / "twins.jsonl.run").read_text()
    (tmp_path / "twins.jsonl.run").unlink()
    code, _, err = run("--resume")
    assert code == 2 and "twins.jsonl.run) are missing" in err
    (tmp_path / "twins.jsonl").write_text('{"id": "w0"}\n')
    (tmp_path / "twins.jsonl.run").write_text(kept)
    code, _, err = run("--resume")
    assert code == 2 and "line 1 is not a row of this command" in err


def test_changed_and_removed_works(run, works, tmp_path):
    run()
    changed = [WORKS[0] | {"twins": [["Another telling."] * 24]}, *WORKS[1:]]
    works.write_text("".join(json.dumps(work) + "\n" for work in changed))
    code, out, err = run("--resume")
    assert (
        code == 0
        and "1 rows of the earlier run are of works or twins that are not in the input now" in err
    )
    assert [row["id"] for row in rows_of(tmp_path / "twins.jsonl")].count("w0") == 2
    works.write_text("".join(json.dumps(work) + "\n" for work in WORKS[1:]))
    code, out, err = run("--resume")
    assert (
        code == 0
        and "2 rows of the earlier run are of works or twins that are not in the input now" in err
    )
    assert "7  works read" in out and "2  rows of an earlier run" in out
    card = (tmp_path / "twins.card.md").read_text()
    for words in (
        "| train | 6 |",
        "  - kept, with a twin each: 4",
        "- rows of an earlier run, of works or twins",
    ):
        assert words in card


def test_only_rows_of_removed_works(run, works, tmp_path):
    run()
    works.write_text(json.dumps(WORKS[-1]) + "\n")
    code, out, err = run("--resume")
    assert code == 0 and "no work is left" not in err and (tmp_path / "twins.card.md").exists()


def test_invalid_works_are_skipped(run, works, tmp_path, monkeypatch):
    """Texts that are not valid Unicode, and vectors that are not numbers."""
    bad = [
        {"id": "w\ud800"},
        {"title": "T\ud800"},
        {"twins": [{"sentences": TWINS[0], "language": "\ud800"}]},
    ]
    bad += [{"story": {"text": ["A b.", "C d."]}}, {"twins": [{"sentences": ["A b."], "text": 5}]}]
    works.write_text(
        "".join(json.dumps(work) + "\n" for work in (*(WORKS[0] | one for one in bad), *WORKS))
    )
    embed = SentenceEmbedder.__call__

    def some(self, sentences):
        return embed(self, sentences) * (np.nan if sentences[0].startswith("3.") else 1)

    monkeypatch.setattr(SentenceEmbedder, "__call__", some)
    code, out, err = run()
    assert code == 1 and "6  - could not be read or aligned" in out and "13  works read" in out
    for words in (
        "line 1: 'id' has a lone surrogate",
        "line 2: 'title' has a",
        "line 3: 'twins[0].language' has a",
        "line 4: 'story': 'text' is list, not text",
        "line 5: 'twins[0]': 'text' is int, not text",
        "line 9: work 'w3': can't be aligned",
    ):
        assert f"works.jsonl, {words}" in err
    assert [row["id"] for row in rows_of(tmp_path / "twins.jsonl")] == ["w0", "w1", "w2", "w4"]


def test_unreadable_works_are_reported_and_skipped(run, works, tmp_path):
    works.write_text('{"id": "x"}\n{"cut\n' + works.read_text())
    code, out, err = run()
    assert code == 1 and "2  - could not be read" in out and "5  - kept" in out
    assert (
        "works.jsonl, line 1: no column 'story'" in err
        and "works.jsonl, line 2: is not valid JSON" in err
    )
    assert len(rows_of(tmp_path / "twins.jsonl")) == 5


def test_no_work_is_left(run, tmp_path):
    code, out, err = run("--min-sentences", 100)
    assert code == 1 and "no work is left" in err and "0  - kept, with a twin each" in out
    assert (tmp_path / "twins.jsonl").read_text() == "" and not (
        tmp_path / "twins.card.md"
    ).exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("works.jsonl", "--out", "-"), "ends in .jsonl"),
        (("works.jsonl", "--out", "twins.parquet"), "ends in .jsonl"),
        (("works.jsonl", "--out", "works.jsonl"), "would be overwritten"),
        (
            ("works.jsonl", "--out", "a.jsonl", "--max-similarity", "high"),
            "not a list of similarities",
        ),
        (
            ("works.jsonl", "--out", "a.jsonl", "--max-similarity", "fr=0.7,fr=0.6"),
            "two numbers for fr",
        ),
        (
            ("works.jsonl", "--out", "a.jsonl", "--max-similarity", "0.7,0.6"),
            "two numbers for other",
        ),
        (("works.jsonl", "--out", "a.jsonl", "--windows", "0"), "not an integer of 1 or more"),
        (
            ("works.jsonl", "--out", "a.jsonl", "--max-difference", "-1"),
            "not a number of 0 or more",
        ),
        ((".", "--out", "a.jsonl"), "is in ., which is read"),
        (("works.jsonl", ".", "--out", "inner/../inner/a.jsonl"), "is in ., which is read"),
    ],
)
def test_invalid_calls(works, tmp_path, monkeypatch, capsys, arguments, problem):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["make", "align", *arguments])
    assert stopped.value.code == 2 and problem in capsys.readouterr().err


def test_more_windows_than_sentences(run):
    code, _, err = run("--windows", 6, "--min-sentences", 5)
    assert code == 1 and "6 windows for stories of 5 sentences" in err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fr=0.7", {**MAX_SIMILARITY, "fr": 0.7}),
        ("fr=0.7,pt=0.5", {**MAX_SIMILARITY, "fr": 0.7, "pt": 0.5}),
        ("0.5", {OTHER_LANGUAGES: 0.5}),
        ("0.5, fr=0.7", {OTHER_LANGUAGES: 0.5, "fr": 0.7}),
    ],
)
def test_parsing_of_similarities(text, expected):
    assert similarities(text) == expected


def test_anonymized_twins(run, works, tmp_path):
    """The story keeps its names, and the naming is told in the settings and on the card."""
    stories = {"en": " ".join(STORY), "de": "Nadja fand eine Karte."}
    twin = [sentence.replace("Nadia", "Ada") for sentence in STORY[1:]]
    document = {
        "wikidata_id": "Q1",
        "summaries": stories,
        "en_translated_summaries": {"de": {"text": " ".join(STORY[1:])}},
        "anonymized": {"en": " ".join(["Bea ran.", *STORY[1:]]), "de": " ".join(twin)},
    }
    works.write_text(json.dumps(document) + "\n")
    assert run("--anonymized", "--max-difference", "5")[0] == 0
    (row,) = rows_of(tmp_path / "twins.jsonl")
    assert "Nadia" in " ".join(row["story"][0]) and "Bea" not in str(row["story"])
    assert "Ada" in " ".join(row["twin"]) and "Nadia" not in " ".join(row["twin"])
    words = "names of 'Tell me again!' replaced: in the twins only"
    assert f"- {words}" in (tmp_path / "twins.card.md").read_text()


def test_pooling(run, tmp_path, bert_folder, works):
    """The pooler gives other alignments; the pooling is told, and a run is not resumed with the
    other."""
    assert run("--pooling", "checkpoint", out="mean.jsonl")[0] == 0
    assert run("--pooling", "pooler")[0] == 0
    mean, pooled = (rows_of(tmp_path / name) for name in ("mean.jsonl", "twins.jsonl"))
    assert [row["alignment"] for row in mean] != [row["alignment"] for row in pooled]
    twins = LongTwins(
        SentenceEmbedder(bert_folder, "cpu", pooling="pooler"), filters=Filters(min_window=1)
    )
    made = [twins.row(work) for _, work in read_works(read_documents([str(works)]))]
    assert json.loads(json.dumps([row for row in made if row is not None])) == pooled
    assert "- sentence pooling: pooler" in (tmp_path / "twins.card.md").read_text()
    code, _, err = run("--resume")
    assert code == 2 and 'started with sentence pooling "pooler" (now "checkpoint")' in err
    code, _, err = run("--pooling", "pooler", "--encoder", default_encoder(), out="other.jsonl")
    assert (
        code == 1
        and "its settings name mean pooling" in err
        and not (tmp_path / "other.jsonl").exists()
    )


def test_limit_of_one_language_keeps_the_other_defaults(run, tmp_path):
    assert run("--max-similarity", "de=0.7", "--max-difference", 0)[0] == 0
    assert "translated" not in [row["id"] for row in rows_of(tmp_path / "twins.jsonl")]


def test_similarities_by_language(run, tmp_path):
    code, _, _ = run("--max-similarity", "0.5,fr=1", "--max-difference", 0)
    assert code == 0
    assert "translated" in [row["id"] for row in rows_of(tmp_path / "twins.jsonl")]
