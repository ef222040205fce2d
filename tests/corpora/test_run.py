"""Runs over a corpus: shards and their manifest, whenever a run ends."""

from __future__ import annotations

import errno
import json
import os
from itertools import islice
from pathlib import Path

import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import Story, StoryError, StoryScorer
from narrative_twins.corpora import COLUMNS, score_corpus
from narrative_twins.corpora.run import owns
from narrative_twins.files import ResumeError


class Lengths(StoryScorer):
    """Scores that need no encoder: lengths of sentences. It counts the stories that it scores."""

    def __init__(self, name="a"):
        super().__init__(operations="summarization")
        self.settings_now, self.scored = {"model": name}, 0

    @property
    def settings(self):
        return self.settings_now

    def unload(self):
        raise AssertionError("a single process needs its encoder")

    def rows(self, stories):
        found = []
        for story in stories:
            self.scored += 1
            row = dict.fromkeys(COLUMNS)
            try:
                sentences = list(Story.parse(story).sentences)
                row |= {"sentences": sentences, "scores": {"summarization": [*map(len, sentences)]}}
            except StoryError as error:
                row["error"] = error.problem
            found.append(row)
        return found


def corpus(*sizes):
    """Sources with so many rows, some of them no stories."""
    for name, size in zip("abcdef", sizes, strict=False):
        rows = [{"id": f"{name}{n}", "text": f"Nadia ran {n} miles."} for n in range(size)]
        rows[3::7] = [StoryError("it is torn")] * len(rows[3::7])
        yield f"{name}.jsonl", iter(rows)


def files_of(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def rows_of(folder):
    return pyarrow.parquet.read_table(folder).to_pylist()


def places(folder):
    return [(row["source"], row["row"]) for row in rows_of(folder)]


def test_shards_and_manifest(tmp_path):
    counts, folder = [], tmp_path / "out"
    done = score_corpus(corpus(5, 0, 4), folder, Lengths(), rows=4, on_progress=counts.append)
    assert (done.rows, done.errors, done.shards, done.added, counts) == (9, 2, 3, 9, [4, 4, 1])
    assert done.truncated == 0
    expected = [(name, n) for name, size in (("a.jsonl", 5), ("c.jsonl", 4)) for n in range(size)]
    assert places(folder) == expected
    rows = rows_of(folder)
    empty = dict.fromkeys(rows[0])
    assert rows[3] == empty | {"source": "a.jsonl", "row": 3, "error": "it is torn"}
    assert rows[4]["id"] == "a4"
    lines = [json.loads(line) for line in (folder / "_manifest").read_text().splitlines()]
    assert [line["name"] for line in lines] == [f"scores-0000{n}.parquet" for n in range(3)]
    ranges = [(item["start"], item["stop"]) for item in lines[1]["segments"]]
    assert ranges == [(4, 5), (0, 3)]
    # Manifests of earlier versions are resumed, so the digest never changes.
    (last,) = lines[2]["segments"]
    assert last["digest"] == "5d390e1cd8b9f9014be5012a5fe9d959"


def test_a_rerun_scores_what_is_new(tmp_path):
    scorer = Lengths()
    score_corpus(corpus(5, 3), tmp_path, scorer, rows=4)
    before = files_of(tmp_path)
    assert score_corpus(corpus(5, 3), tmp_path, scorer, rows=4).added == 0
    assert files_of(tmp_path) == before and scorer.scored == 8
    # A source has grown, and there is another one.
    done = score_corpus(corpus(6, 3, 2), tmp_path, scorer, rows=4)
    assert (done.added, done.rows, scorer.scored) == (3, 11, 11)
    sizes = (("a.jsonl", 6), ("b.jsonl", 3), ("c.jsonl", 2))
    assert sorted(places(tmp_path)) == [(name, n) for name, size in sizes for n in range(size)]
    assert before.items() <= {**files_of(tmp_path), "_manifest": before["_manifest"]}.items()


def test_what_is_refused(tmp_path):
    score_corpus(corpus(5, 3), tmp_path, Lengths(), rows=4)
    before = files_of(tmp_path)
    for problem, sources, options in (
        (r'model "a" \(now "b"\)', corpus(5, 3), {"scorer": Lengths("b")}),
        (r"rows of a shard 4 \(now 5\)", corpus(5, 3), {"rows": 5}),
        (r"jobs 1 \(now 2\)", corpus(5, 3), {"job": (1, 2)}),
        (r'column null \(now "x"\)', corpus(5, 3), {"settings": {"column": "x"}}),
        ("rows 4 to 4 of a.jsonl are not those that were scored", corpus(4, 3), {}),
        ("rows 0 to 2 of b.jsonl are not", [*corpus(5), ("b.jsonl", ["New."] * 3)], {}),
        ("rows 0 to 3 of a.jsonl are not", [("a.jsonl", ["New."] * 5)], {}),
        ("x/a.jsonl seems to be a.jsonl", [("x/a.jsonl", ["New."])], {}),
    ):
        with pytest.raises(ResumeError, match=problem):
            score_corpus(sources, tmp_path, **{"scorer": Lengths(), "rows": 4, **options})
        assert files_of(tmp_path) == before, problem
    for problem, options in (
        ("a.jsonl is named twice", {}),
        ("counted from 1", {"job": (0, 2)}),
        ("counted from 1", {"job": (3, 2)}),
        ("counted from 1", {"rows": 0}),
    ):
        with pytest.raises(ValueError, match=problem):
            score_corpus([*corpus(1), *corpus(1)], tmp_path / "new", Lengths(), **options)
    manifest = before["_manifest"].splitlines(keepends=True)
    for record in (b'{"name": "x"}', b'{"segments": [1]}', b'{"segments": [], "name": "x"}'):
        (tmp_path / "_manifest").write_bytes(manifest[0] + record + b"\n")
        with pytest.raises(ResumeError, match="line 2 is not the record of a shard"):
            score_corpus(corpus(5, 3), tmp_path, Lengths(), rows=4)
    (tmp_path / "_manifest").write_bytes(before["_manifest"])
    (tmp_path / "scores-00001.parquet").unlink()
    with pytest.raises(ResumeError, match="scores-00001.parquet is missing or has changed"):
        score_corpus(corpus(5, 3), tmp_path, Lengths(), rows=4)
    (tmp_path / "file").write_text("")
    for folder in ("file", "no/folder"):
        with pytest.raises(OSError, match=folder):
            score_corpus(corpus(1), tmp_path / folder, Lengths())


def test_files_of_something_else_are_left_alone(tmp_path):
    (tmp_path / "scores-00000.parquet").write_text("mine")
    with pytest.raises(FileExistsError, match="has scores-00000.parquet, but no _manifest"):
        score_corpus(corpus(1), tmp_path, Lengths())
    assert files_of(tmp_path) == {"scores-00000.parquet": b"mine"}


def test_jobs_share_the_rows_and_a_folder(tmp_path):
    together, alone = tmp_path / "jobs", tmp_path / "alone"
    score_corpus(corpus(23, 9, 40), alone, Lengths(), rows=4)
    for number in (2, 1, 1):
        done = score_corpus(corpus(23, 9, 40), together, Lengths(), rows=4, job=(number, 2))
    assert done.added == 0
    found = sorted(rows_of(together), key=lambda row: (row["source"], row["row"]))
    assert found == rows_of(alone)
    names = {name.rpartition("-")[0] for name in files_of(together) if name.startswith("scores")}
    assert names == {"scores-1-of-2", "scores-2-of-2"}
    # More rows belong to the jobs that they belonged to.
    for number in (1, 2):
        score_corpus(corpus(25, 9, 40, 30), together, Lengths(), rows=4, job=(number, 2))
    assert len(places(together)) == len(set(places(together))) == 104
    # With any version of the package.
    assert owns((734, 1000), "a.jsonl", 0) and owns((735, 1000), "a.jsonl", 1)
    for job, model in (((1, 2), "b"), ((1, 3), "a"), ((1, 1), "a")):
        with pytest.raises(ResumeError):
            score_corpus(corpus(23), together, Lengths(model), rows=4, job=job)


@given(
    st.integers(1, 9),
    st.lists(st.text("abc/.", min_size=1), min_size=1, max_size=5),
    st.integers(0, 10**6),
)
def test_each_block_belongs_to_one_job(count, sources, block):
    for source in sources:
        assert sum(owns((n, count), source, block) for n in range(1, count + 1)) == 1


def test_a_shard_is_on_disk_before_it_is_recorded(tmp_path, monkeypatch):
    """The shard and its new name in the folder: a crash of the machine leaves no record of a torn
    shard."""
    calls = []  # with the number of the file on the disk, which stays when it is renamed
    files = []
    sync, replace = os.fsync, os.replace

    def synced(file):
        calls.append(("sync", os.fstat(file).st_ino))
        files.append(file)
        sync(file)

    def renamed(source, target):
        calls.append(("rename", os.stat(source).st_ino))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    folder = tmp_path / "out"
    score_corpus(corpus(9), folder, Lengths(), rows=4)
    within, manifest = (path.stat().st_ino for path in (folder, folder / "_manifest"))
    shards = [path.stat().st_ino for path in folder.glob("scores-*.parquet")]
    assert len(shards) == 3
    for shard in shards:
        at = calls.index(("rename", shard))
        assert calls[at - 1] == ("sync", shard)
        assert calls[at + 1 : at + 3] == [("sync", within), ("sync", manifest)]
    for file in files:  # all are closed
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)


def test_a_shard_that_can_not_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="scores-00000.parquet can't be written: No space left"):
            score_corpus(corpus(3), tmp_path, Lengths(), rows=4)
    assert not [name for name in files_of(tmp_path) if "parquet" in name]
    assert score_corpus(corpus(3), tmp_path, Lengths(), rows=4).added == 3


def test_rows_are_read_as_they_are_needed(tmp_path):
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield "Nadia ran. It rained."

    def stop(count):
        if len(taken) > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_corpus([("endless", endless())], tmp_path, Lengths(), rows=5, on_progress=stop)
    assert len(taken) == 25
    assert (
        score_corpus([("endless", islice(endless(), 27))], tmp_path, Lengths(), rows=5).added == 2
    )


@pytest.mark.slow
def test_processes_write_what_one_writes(tmp_path, bert_folder, warm_processes):
    sources = [("a", [f"Nadia ran {n} miles. It rained." for n in range(25)] + [" "])]
    options = {"operations": "summarization", "loading": {"device": "cpu", "dtype": "float32"}}
    for folder, processes in (("one", 1), ("two", 2)):
        scorer = StoryScorer(bert_folder, **options)
        score_corpus(sources, tmp_path / folder, scorer, rows=6, processes=processes)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert len(rows_of(tmp_path / "two")) == 26


def test_planted_links_are_not_written_through(tmp_path):
    """At the name that a shard has until it is complete."""
    (victim := tmp_path / "victim").write_text("precious")
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(3):
        (folder / f"_scores-{number:05}.parquet.part").symlink_to(victim)
    stories = ["Nadia ran.", "It rained.", "He left."]
    assert score_corpus([("a", stories)], folder, Lengths(), rows=1).shards == 3
    assert victim.read_text() == "precious"
