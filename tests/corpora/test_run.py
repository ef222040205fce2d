"""Runs over a corpus: shards and their manifest, whenever a run ends."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import Story, StoryError, StoryScorer
from narrative_twins.corpora import COLUMNS, score_corpus
from narrative_twins.corpora.manifest import Part
from narrative_twins.files import ResumeError

from support.processes import COMMAND, run_command, run_in_copy


class Lengths(StoryScorer):
    """Scores that need no encoder: lengths of sentences. It counts the stories that it scores."""

    def __init__(self, name="a"):
        super().__init__(operations="summarization")
        self.settings_now, self.scored = {"model": name}, 0

    @property
    def settings(self):
        return self.settings_now

    def rows(self, stories):
        found = []
        for story in stories:
            self.scored += 1
            row = dict.fromkeys(COLUMNS)
            try:
                parsed = Story.parse(story)
                row |= {
                    "sentences": list(parsed.sentences),
                    "scores": {"summarization": [*map(len, parsed.sentences)]},
                }
            except StoryError as error:
                error.index = len(found)
                row["error"] = error.problem
            found.append(row)
        return found


def corpus(*sizes):
    """Sources with so many rows, some of them no stories."""
    for name, size in zip("abcdef", sizes, strict=False):
        rows = [
            {"id": f"{name}{n}", "text": f"Nadia ran {n} miles. It rained."} for n in range(size)
        ]
        yield (
            f"{name}.jsonl",
            iter([StoryError("it is torn") if n % 7 == 3 else row for n, row in enumerate(rows)]),
        )


def files_of(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def rows_of(folder):
    return pyarrow.parquet.read_table(folder).to_pylist()


def test_shards_and_manifest(tmp_path):
    told = []
    done = score_corpus(
        corpus(5, 0, 4), tmp_path / "out", Lengths(), rows=4, on_progress=told.append
    )
    assert (done.rows, done.errors, done.shards, done.added, told) == (9, 2, 3, 9, [4, 4, 1])
    rows = rows_of(tmp_path / "out")
    assert [(row["source"], row["row"]) for row in rows] == [
        *(("a.jsonl", n) for n in range(5)),
        *(("c.jsonl", n) for n in range(4)),
    ]
    assert rows[3] | {"id": None, "error": None} == dict.fromkeys(rows[0]) | {
        "source": "a.jsonl",
        "row": 3,
    }
    assert rows[3]["error"] == "it is torn" and rows[4]["id"] == "a4"
    lines = [json.loads(line) for line in (tmp_path / "out" / "_manifest").read_text().splitlines()]
    assert [line["name"] for line in lines] == [f"scores-0000{n}.parquet" for n in range(3)]
    ranges = [(item["start"], item["stop"]) for item in lines[1]["segments"]]
    assert ranges == [(4, 5), (0, 3)]


def test_a_rerun_scores_what_is_new(tmp_path):
    scorer = Lengths()
    score_corpus(corpus(5, 3), tmp_path, scorer, rows=4)
    before = files_of(tmp_path)
    assert score_corpus(corpus(5, 3), tmp_path, scorer, rows=4).added == 0
    assert files_of(tmp_path) == before and scorer.scored == 8
    # A source has grown, and there is another one.
    done = score_corpus(corpus(6, 3, 2), tmp_path, scorer, rows=4)
    assert (done.added, done.rows, scorer.scored) == (3, 11, 11)
    assert {(row["source"], row["row"]) for row in rows_of(tmp_path)} == {
        (name, n)
        for name, size in (("a.jsonl", 6), ("b.jsonl", 3), ("c.jsonl", 2))
        for n in range(size)
    }
    assert before.items() <= {**files_of(tmp_path), "_manifest": before["_manifest"]}.items()


def test_what_is_refused(tmp_path):
    score_corpus(corpus(5, 3), tmp_path, Lengths(), rows=4)
    before = files_of(tmp_path)
    for problem, sources, options, scorer in (
        (r'model "a" \(now "b"\)', corpus(5, 3), {"rows": 4}, Lengths("b")),
        (r"rows of a shard 4 \(now 5\)", corpus(5, 3), {"rows": 5}, Lengths()),
        (r"jobs 1 \(now 2\)", corpus(5, 3), {"rows": 4, "job": (1, 2)}, Lengths()),
        (
            r'column null \(now "text"\)',
            corpus(5, 3),
            {"rows": 4, "settings": {"column": "text"}},
            Lengths(),
        ),
        (
            "rows 4 to 4 of a.jsonl are not those that were scored",
            corpus(4, 3),
            {"rows": 4},
            Lengths(),
        ),
        (
            "rows 0 to 2 of b.jsonl are not",
            [*corpus(5), ("b.jsonl", ["New."] * 3)],
            {"rows": 4},
            Lengths(),
        ),
        (r"x/a.jsonl seems to be a.jsonl", [("x/a.jsonl", ["New."])], {"rows": 4}, Lengths()),
    ):
        with pytest.raises(ResumeError, match=problem):
            score_corpus(sources, tmp_path, scorer, **options)
        assert files_of(tmp_path) == before, problem
    with pytest.raises(ValueError, match="a.jsonl is there twice"):
        score_corpus([*corpus(1), *corpus(1)], tmp_path / "new", Lengths())
    with pytest.raises(ValueError, match="counted from 1"):
        score_corpus(corpus(1), tmp_path / "new", Lengths(), job=(0, 2))
    (tmp_path / "scores-00001.parquet").unlink()
    with pytest.raises(ResumeError, match="scores-00001.parquet is missing or has changed"):
        score_corpus(corpus(5, 3), tmp_path, Lengths(), rows=4)


def test_files_of_something_else_are_left_alone(tmp_path):
    (tmp_path / "scores-00000.parquet").write_text("mine")
    with pytest.raises(FileExistsError, match="has scores-00000.parquet, but no _manifest"):
        score_corpus(corpus(1), tmp_path, Lengths())
    assert files_of(tmp_path) == {"scores-00000.parquet": b"mine"}


def test_jobs_share_the_rows_and_a_folder(tmp_path):
    score_corpus(corpus(23, 9, 40), tmp_path / "alone", Lengths(), rows=4)
    for number in (3, 1, 2, 2):
        done = score_corpus(
            corpus(23, 9, 40), tmp_path / "jobs", Lengths(), rows=4, job=(number, 3)
        )
    assert done.added == 0
    found, expected = rows_of(tmp_path / "jobs"), rows_of(tmp_path / "alone")
    assert sorted(found, key=lambda row: (row["source"], row["row"])) == expected
    names = {
        name.rpartition("-")[0] for name in files_of(tmp_path / "jobs") if name.startswith("scores")
    }
    assert names == {"scores-1-of-3", "scores-2-of-3", "scores-3-of-3"}
    # More rows belong to the jobs that they belonged to.
    for number in (1, 2, 3):
        score_corpus(corpus(25, 9, 40, 30), tmp_path / "jobs", Lengths(), rows=4, job=(number, 3))
    assert len({(row["source"], row["row"]) for row in rows_of(tmp_path / "jobs")}) == 104
    assert len(rows_of(tmp_path / "jobs")) == 104
    for job, model in (((1, 3), "b"), ((1, 4), "a"), ((1, 1), "a")):
        with pytest.raises(ResumeError):
            score_corpus(corpus(23), tmp_path / "jobs", Lengths(model), rows=4, job=job)


@given(
    st.integers(1, 9),
    st.lists(st.text("abc/.", min_size=1), min_size=1, max_size=5),
    st.integers(0, 10**6),
)
def test_each_block_belongs_to_one_job(count, sources, block):
    for source in sources:
        assert sum(Part(number, count).owns(source, block) for number in range(1, count + 1)) == 1


def killed_at(step, torn, sources, folder):
    """Run in a child process that ends at a step of writing, before it or in the middle of it;
    returns whether it did."""

    def run():
        steps = iter(range(10**6))

        def dying(real, *args):
            if next(steps) == step:
                if torn:
                    real(
                        *(
                            [args[0], bytes(args[1])[: len(args[1]) // 2]]
                            if real is os_write
                            else args
                        )
                    )
                os._exit(9)
            return real(*args)

        os_write = os.write
        for name in ("write", "fsync", "replace"):
            setattr(os, name, partial(dying, getattr(os, name)))
        score_corpus(sources, folder, Lengths(), rows=4)

    code = run_in_copy(run)
    assert code in (0, 9), "the run failed"
    return code == 9


@pytest.mark.skipif(sys.platform == "win32", reason="it has no fork")
@pytest.mark.parametrize("examples", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_runs_that_are_killed_anywhere_resume(examples):
    @settings(max_examples=examples)
    @given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=6))
    def check(kills):
        with TemporaryDirectory() as folder:
            expected, found = Path(folder, "expected"), Path(folder, "found")
            score_corpus(corpus(9, 6), expected, Lengths(), rows=4)
            for step, torn in kills:
                killed_at(step, torn, corpus(9, 6), found)
                shards = list(found.glob("scores-*.parquet")) if found.exists() else []
                assert all(
                    path.read_bytes() == (expected / path.name).read_bytes() for path in shards
                ), "all are complete"
            score_corpus(corpus(9, 6), found, Lengths(), rows=4)
            assert files_of(found) == files_of(expected)

    check()


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_full_disk(tmp_path, monkeypatch, step):
    """The error names the file, the shards in the folder stay, and a rerun resumes."""
    score_corpus(corpus(9, 6), tmp_path / "expected", Lengths(), rows=4)
    real, calls = getattr(os, step), []

    def full(*args):
        calls.append(args)
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args)

    folder = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        with pytest.raises(OSError, match="No space left"):
            score_corpus(corpus(9, 6), folder, Lengths(), rows=4)
    valid = pyarrow.parquet.read_table(sorted(folder.glob("scores-*.parquet"))).num_rows
    assert valid in (4, 8, 12) and not list(folder.glob("*.parquet.part"))
    score_corpus(corpus(9, 6), folder, Lengths(), rows=4)
    assert files_of(folder) == files_of(tmp_path / "expected")


def test_a_shard_is_on_disk_before_it_is_recorded(tmp_path, monkeypatch):
    """The shard and its new name in the folder: a crash of the machine leaves no record of a torn
    shard."""
    calls = []  # with the number of the file on the disk, which stays when it is renamed
    sync, replace = os.fsync, os.replace

    def synced(file):
        calls.append(("sync", os.fstat(file).st_ino))
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


def test_two_runs_do_not_write_the_same_shards(tmp_path):
    def rows():
        with pytest.raises(FileExistsError, match="is being written by another run"):
            score_corpus(corpus(3), tmp_path, Lengths())
        yield "Nadia ran."

    assert score_corpus([("a.jsonl", rows())], tmp_path, Lengths()).rows == 1


@pytest.mark.slow
def test_processes_write_what_one_writes(tmp_path, bert_folder):
    sources = [("a", [f"Nadia ran {n} miles. It rained." for n in range(25)] + [" "])]
    options = {"operations": "summarization", "loading": {"device": "cpu", "dtype": "float32"}}
    for folder, processes in (("one", 1), ("two", 2)):
        scorer = StoryScorer(bert_folder, **options)
        score_corpus(sources, tmp_path / folder, scorer, rows=6, processes=processes)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert len(rows_of(tmp_path / "two")) == 26


def test_a_folder_that_can_not_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        score_corpus(corpus(1), tmp_path / "file", Lengths())
    with pytest.raises(FileNotFoundError):
        score_corpus(corpus(1), tmp_path / "no" / "folder", Lengths())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount")
@pytest.mark.slow
def test_a_real_full_disk_and_a_read_only_one(tmp_path, bert_folder):
    source, disk = tmp_path / "in.jsonl", tmp_path / "disk"
    texts = (
        f"Nadia ran {n} miles. {hashlib.sha512(str(n).encode()).hexdigest()}." for n in range(1600)
    )
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    disk.mkdir()
    score = f"{COMMAND} corpus {source} --model {bert_folder} --operations summarization"
    code = f"""mount -t tmpfs -o size=96k none {disk} || exit 77
{score} --out {disk}/scores --shard-rows 100; echo "exit $?"; cp {disk}/scores/*.parquet {tmp_path}; ls {disk}/scores
mount -o remount,ro {disk}; {score} --out {disk}/other; echo "exit $?" """
    done = run_command("unshare", "-m", "sh", "-c", code)
    if done.returncode in (1, 77) and "exit" not in done.stdout:
        pytest.skip("nothing can be mounted here")
    assert done.stdout.count("exit 1") == 2, done.stderr
    assert "No space left on device" in done.stderr and "Read-only file system" in done.stderr
    assert "Traceback" not in done.stderr
    shards = sorted(tmp_path.glob("scores-*.parquet"))
    assert shards and all(pyarrow.parquet.read_table(path).num_rows == 100 for path in shards)
