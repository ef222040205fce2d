"""Every command that can be resumed is killed at each step of writing and resumed: it then writes
what an uninterrupted run writes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from narrative_twins.data.sources import corpus_rows

from support.chat_server import Model, serving
from support.command import run
from support.models import SENTENCES
from support.processes import killed_at
from support.recognizers import save_pipeline
from support.rows import write_rows

CASES = ["score", "book", "corpus", "evaluate"]
CASES += ["make align", "make entities", "make twins", "make judgments"]
STORIES = [row["story"] for row in corpus_rows("stories")["validation"]][:3]
LONG = [f"{sentence} ({number})" for number, sentence in enumerate(SENTENCES * 3)][:24]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, bert_folder) -> Iterator[dict[str, list[object]]]:
    """The arguments of each command, but for its output."""
    folder = tmp_path_factory.mktemp("inputs")
    stories = write_rows(folder / "stories.jsonl", [{"text": " ".join(story)} for story in STORIES])
    works = [
        {"id": str(n), "story": LONG, "twins": [[f"{n} {sentence}" for sentence in LONG]]}
        for n in range(3)
    ]
    labels = [0, 1, 0, 1, 0]
    judged = write_rows(folder / "judged.jsonl", [{"story": s, "labels": labels} for s in STORIES])
    rows = [{"story": ["Anna hid in Moscow."], "twin": ["Anna fled to Moscow."]}] * 3
    tale = folder / "tale.txt"
    tale.write_text("\n\n".join(f"Chapter {n}\n\n{' '.join(LONG)}" for n in range(1, 4)))
    encoder = ["--model", bert_folder, "--device", "cpu", "--dtype", "float32"]
    once = ["--operations", "summarization", "--quiet"]
    with serving(Model()) as model, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "none")
        server = ["--server", model.address, "--model", "tiny", "--concurrency", "1", "--quiet"]
        yield {
            "score": ["score", stories, *encoder, *once],
            "book": ["book", tale, *encoder, *once],
            "corpus": ["corpus", stories, *encoder, "--shard-rows", "2", *once],
            "evaluate": ["evaluate", judged, *encoder, "--operations", "summarization", "--quiet"],
            "make align": ["make", "align", write_rows(folder / "works.jsonl", works)]
            + ["--encoder", bert_folder, "--device", "cpu", "--min-window", "1", "--quiet"],
            "make entities": [
                "make",
                "entities",
                write_rows(folder / "rows.jsonl", rows),
                "--quiet",
            ]
            + ["--pipeline", str(save_pipeline(folder / "pipeline"))],
            "make twins": ["make", "twins", stories, *server],
            "make judgments": ["make", "judgments", stories, "--samples", "2", *server],
        }


def written(folder: Path) -> dict[str, bytes]:
    """The results in a folder, without the files that record a run."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.suffix in (".jsonl", ".parquet", ".md", ".yaml")
    }


@pytest.mark.parametrize(
    "name",
    [name if name == "score" else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
)
def test_killed_at_any_step_of_writing_and_resumed(name, inputs, tmp_path_factory):
    resumes = ["--resume"] if name in ("score", "book", "make align", "make entities") else []

    def command(folder: Path, *more: object) -> None:
        out = folder / ("out" if name in ("corpus", "evaluate") else "out.jsonl")
        done = run(*inputs[name], "-o", out, *more, cwd=folder)
        assert done.code == 0, done.err

    expected = tmp_path_factory.mktemp("expected")
    command(expected)
    killed = 0
    for step in count():
        if killed < 2 * step:
            break
        for torn in (False, True):
            folder = tmp_path_factory.mktemp("resumed")
            killed += killed_at(step, torn, partial(command, folder))
            command(folder, *resumes)
            assert written(folder) == written(expected), (step, torn)
    assert killed > 6
