"""Runs over a corpus: their shards, whenever a run ends."""

from itertools import islice
from pathlib import Path

import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import Story, StoryError, StoryScorer
from narrative_twins.corpora import COLUMNS, score_corpus
from narrative_twins.writing import ResumeError


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
        self.scored += len(stories)
        return [dict.fromkeys(COLUMNS) | self.row(story) for story in stories]

    def row(self, story):
        try:
            sentences = list(Story.parse(story).sentences)
        except StoryError as error:
            return {"error": error.problem}
        return {"sentences": sentences, "scores": {"summarization": [*map(len, sentences)]}}


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
    return [(row["file"], row["row"]) for row in rows_of(folder)]


def test_shards(tmp_path):
    counts, folder = [], tmp_path / "out"
    done = score_corpus(corpus(5, 0, 4), folder, Lengths(), rows=4, on_progress=counts.append)
    assert (done.rows, done.errors, done.shards, done.added, counts) == (9, 2, 3, 9, [4, 4, 1])
    assert done.truncated == 0
    expected = [(name, n) for name, size in (("a.jsonl", 5), ("c.jsonl", 4)) for n in range(size)]
    assert places(folder) == expected
    rows = rows_of(folder)
    empty = dict.fromkeys(rows[0])
    assert rows[3] == empty | {"file": "a.jsonl", "row": 3, "error": "it is torn"}
    assert rows[4]["id"] == "a4"
    shards = [f"scores-0000{n}.parquet" for n in range(3)]
    assert sorted(files_of(folder)) == ["_run.json", *shards]


def test_a_rerun_scores_what_is_new(tmp_path):
    """Rows and sources at the end of the input."""
    scorer = Lengths()
    score_corpus(corpus(5, 3), tmp_path, scorer, rows=4)
    before = files_of(tmp_path)
    assert score_corpus(corpus(5, 3), tmp_path, scorer, rows=4).added == 0
    assert files_of(tmp_path) == before and scorer.scored == 8
    for sizes, counts in (((5, 5, 2), (4, 12)), ((5, 5, 3), (1, 13))):
        done = score_corpus(corpus(*sizes), tmp_path, scorer, rows=4)
        assert (done.added, done.rows) == counts and scorer.scored == done.rows
    sizes = (("a.jsonl", 5), ("b.jsonl", 5), ("c.jsonl", 3))
    assert places(tmp_path) == [(name, n) for name, size in sizes for n in range(size)]


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_shards_that_are_missing_or_torn_are_scored_again(tmp_path_factory, missing, torn):
    """So the folder is that of a run that was never interrupted."""
    folder = tmp_path_factory.mktemp("corpus")
    score_corpus(corpus(23, 9, 7), folder, Lengths(), rows=4)
    before = files_of(folder)
    for number in torn:
        (folder / f"scores-{number:05}.parquet").write_bytes(b"PAR1")
    for number in missing:
        (folder / f"scores-{number:05}.parquet").unlink()
    again = score_corpus(corpus(23, 9, 7), folder, Lengths(), rows=4)
    assert files_of(folder) == before and again.rows == 39
    assert again.added == sum(3 if number == 9 else 4 for number in missing | torn)


def test_what_is_refused(tmp_path):
    score_corpus(corpus(5, 3), tmp_path, Lengths(), rows=4)
    before = files_of(tmp_path)
    for problem, sources, options in (
        (r'model "a" \(now "b"\)', corpus(5, 3), {"scorer": Lengths("b")}),
        (r"rows of a shard 4 \(now 5\)", corpus(5, 3), {"rows": 5}),
        (r'column null \(now "x"\)', corpus(5, 3), {"settings": {"column": "x"}}),
        ("scores-00001.parquet has other rows than the input", corpus(4, 3), {}),
        ("scores-00000.parquet has other rows", [("a.jsonl", ["New."] * 5)], {}),
        ("name the files as before", [("x/a.jsonl", ["New."])], {}),
    ):
        with pytest.raises(ResumeError, match=problem):
            score_corpus(sources, tmp_path, **{"scorer": Lengths(), "rows": 4, **options})
        assert files_of(tmp_path) == before, problem
    for options in ({"job": (0, 2)}, {"job": (3, 2)}, {"rows": 0}):
        with pytest.raises(ValueError, match="counted from 1"):
            score_corpus(corpus(1), tmp_path / "new", Lengths(), **options)
    with pytest.raises(OSError, match="no/folder"):
        score_corpus(corpus(1), tmp_path / "no/folder", Lengths())


@given(st.integers(1, 5))
def test_jobs_share_the_rows_and_a_folder(tmp_path_factory, jobs):
    folder, alone = tmp_path_factory.mktemp("jobs"), tmp_path_factory.mktemp("alone")
    score_corpus(corpus(23, 9, 17), alone, Lengths(), rows=4)
    for number in (jobs, *range(1, jobs + 1)):
        score_corpus(corpus(23, 9, 17), folder, Lengths(), rows=4, job=(number, jobs))
    assert files_of(folder) == files_of(alone)


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
    done = score_corpus([("endless", islice(endless(), 27))], tmp_path, Lengths(), rows=5)
    assert done.added == 2


def test_one_shard_needs_no_further_process(tmp_path):
    assert score_corpus([("a", ["It rained."])], tmp_path, Lengths(), processes=2).added == 1


@pytest.mark.slow
def test_processes_write_what_one_writes(tmp_path, bert_folder):
    sources = [("a", [f"Nadia ran {n} miles. It rained." for n in range(25)] + [" "])]
    options = {"operations": "summarization", "loading": {"device": "cpu", "dtype": "float32"}}
    for folder, processes in (("one", 1), ("two", 2)):
        scorer = StoryScorer(bert_folder, **options)
        score_corpus(sources, tmp_path / folder, scorer, rows=6, processes=processes)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert len(rows_of(tmp_path / "two")) == 26
