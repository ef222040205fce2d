"""Every command that can be resumed is killed at each step of writing and resumed: it then writes
what an uninterrupted run writes. With other options, encoders or inputs it is not resumed."""

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from narrative_twins import writing
from narrative_twins.data.sources import corpus_rows

from support.chat_server import Model, serving
from support.command import run
from support.models import SENTENCES
from support.processes import run_in_copy
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


def killed_at(step: int, torn: bool, work: Callable[[], object]) -> bool:
    """Run a function in a copy of this process that ends at a step of writing, as by SIGKILL: at
    the appending of bytes or the renaming of a file, before the step or, if `torn`, with half of
    the bytes or after the renaming. Returns whether it did; else the function has ended first."""
    steps = count()

    def append(file: Any, data: bytes, real: Any = writing.append) -> None:
        is_last = next(steps) == step
        real(file, data[: len(data) // 2 * torn] if is_last else data)
        if is_last:
            os._exit(9)

    def replace(*names: Any, real: Any = os.replace) -> None:
        is_last = next(steps) == step
        if torn or not is_last:
            real(*names)
        if is_last:
            os._exit(9)

    def run() -> None:
        writing.append, os.replace = append, replace  # in the copy only
        work()

    code = run_in_copy(run)
    assert code in (0, 9), "the function failed"
    return code == 9


RESUMES = ("score", "book", "make align", "make entities")
"""Commands that are resumed by a flag; the others are without one."""


@pytest.mark.parametrize(
    "name",
    [name if name == "score" else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
)
def test_killed_at_any_step_of_writing_and_resumed(name, inputs, tmp_path_factory):
    resumes = ["--resume"] if name in RESUMES else []

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


@pytest.fixture(scope="module")
def other(bert_folder, tmp_path_factory) -> str:
    """An encoder of the same name with other weights."""
    folder = tmp_path_factory.mktemp("other") / Path(bert_folder).name
    shutil.copytree(bert_folder, folder)
    (weights,) = folder.glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    return str(folder)


OTHER = "OTHER ENCODER"
DIFFERENCES = {
    "score": [
        (["--operations", "deletion"], 'operations ["summarization"] (now ["deletion"])'),
        (["--context-tokens", "20"], "context tokens 512 (now 20)"),
        (["--split", "lines"], 'splitter null (now "lines")'),
        (["--similarity", "euclidean"], 'similarity null (now "euclidean")'),
        (["--score-headings"], "score headings false (now true)"),
        (["--top", "1"], "top null (now 1)"),
        (["--model", OTHER], "model fingerprint"),
    ],
    "book": [
        (["--level", "chapter"], "levels"),
        (["--exact"], "approximate"),
        (["--similarity", "dot"], "similarity"),
        (-1, "book"),
    ],
    "corpus": [
        (["--exact"], "approximate"),
        (["--windows", "2"], 'windows "auto" (now 2)'),
        (["--score-headings"], 'splitter null (now "split_sentences")'),
    ],
    "make align": [
        (["--max-similarity", "0.5"], '"other": 0.6} (now {"other": 0.5})'),
        (["--encoder", OTHER], "sentence encoder"),
    ],
    "make entities": [(["--seed", "1"], "was started with")],
}
"""What differs, an option or a line of the input, and what the message says of it."""


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_can_not_be_resumed(name, inputs, other, tmp_path, monkeypatch):
    out = tmp_path / ("out" if name == "corpus" else "out.jsonl")
    words = inputs[name]
    at = next(at for at, word in enumerate(words) if isinstance(word, Path))
    source = Path(shutil.copy(words[at], tmp_path))
    command = partial(run, *words[:at], source, *words[at + 1 :], "-o", out)
    resume = partial(command, *(["--resume"] if name in RESUMES else []))
    whole = tmp_path / "whole" / out.name
    whole.parent.mkdir()
    assert command("-o", whole).code == 0
    append, appended = writing.append, []

    def interrupt(file, data):
        if len(appended) == 2:
            raise KeyboardInterrupt
        appended.append(data)
        append(file, data)

    if name in RESUMES:
        with monkeypatch.context() as patch:
            patch.setattr(writing, "append", interrupt)
            done = command()
        assert done.code == 130 and "continue with --resume" in done.err and not out.exists()
        done = command()
        assert done.code == 2 and "continue it with --resume, or delete the file" in done.err
    else:
        assert command().code == 0
    before = written(tmp_path)
    for difference, problem in DIFFERENCES[name]:
        content = source.read_text("utf-8")
        if isinstance(difference, int):
            lines = content.splitlines()
            lines[difference] = lines[difference].replace("a", "b")
            source.write_text("\n".join(lines), "utf-8")
            difference = []
        done = resume(*(other if word is OTHER else word for word in difference))
        source.write_text(content, "utf-8")
        assert done.code == 2 and problem in done.err, (difference, done)
    assert written(tmp_path) == before
    assert resume().code == 0
    if name in RESUMES:
        assert out.read_bytes() == whole.read_bytes() and not Path(f"{out}.part").exists()
    done = resume()
    assert done.code == 0 and (name not in ("score", "book") or "is complete" in done.err)
