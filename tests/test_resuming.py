"""Every command that can be resumed is killed at each step of writing and resumed: it then writes
what an uninterrupted run writes. With other options, encoders or inputs it is not resumed."""

import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from narrative_twins import writing
from narrative_twins.data.sources import corpus_rows

from support.chat_server import Model, serving
from support.command import Done, run, with_defaults
from support.models import SENTENCES
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

    def rows(name: str, content: list[object]) -> Path:
        return write_rows(folder / f"{name}.jsonl", content)

    stories = rows("stories", [{"text": " ".join(story)} for story in STORIES])
    judged = rows("judged", [{"story": story, "labels": [0, 1, 0, 1, 0]} for story in STORIES])
    twins = [[f"{n} {sentence}" for sentence in LONG] for n in range(3)]
    works = [{"id": str(n), "story": LONG, "twins": [twin]} for n, twin in enumerate(twins)]
    named = [{"story": ["Anna hid in Moscow."], "twin": ["Anna fled to Moscow."]}] * 3
    tale = folder / "tale.txt"
    tale.write_text("\n\n".join(f"Chapter {n}\n\n{' '.join(LONG)}" for n in range(1, 4)))
    pipeline = ["--pipeline", str(save_pipeline(folder / "pipeline")), "--quiet"]
    cpu = ["--device", "cpu", "--quiet"]
    encoder = ["--model", bert_folder, "--dtype", "float32", *cpu, "--operations", "summarization"]
    aligner = ["--encoder", bert_folder, "--min-window", "1", *cpu]
    with serving(Model()) as model, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "none")
        server = ["--server", model.address, "--model", "tiny", "--concurrency", "1", "--quiet"]
        yield {
            "score": ["score", stories, *encoder],
            "book": ["book", tale, *encoder],
            "corpus": ["corpus", stories, *encoder, "--shard-rows", "2"],
            "evaluate": ["evaluate", judged, *encoder],
            "make align": ["make", "align", rows("works", works), *aligner],
            "make entities": ["make", "entities", rows("rows", named), *pipeline],
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

    if not hasattr(os, "fork"):
        pytest.skip("Windows makes no copies of processes")
    child = os.fork()
    if not child:
        try:
            # Torch makes a new thread pool at its first use after a fork, which fails if two
            # threads, as those that load weights, do it at once.
            torch.set_num_threads(torch.get_num_threads())
            writing.append, os.replace = append, replace
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
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
        (["--similarity", "euclidean"], 'similarity "cosine" (now "euclidean")'),
        (["--score-headings"], "score headings false (now true)"),
        (["--top", "1"], "top null (now 1)"),
        (["--model", OTHER], "model fingerprint"),
    ],
    "book": [
        (["--level", "chapter"], "levels"),
        (["--exact"], "approximate"),
        (["--similarity", "dot"], "similarity"),
        ([], "book"),
    ],
    "make align": [
        (["--max-similarity", "0.5"], '"other": 0.6} (now {"other": 0.5})'),
        (["--encoder", OTHER], "sentence encoder"),
    ],
    "make entities": [(["--seed", "1"], "was started with")],
}
"""What differs, an option or else the input, and what the message says of it."""


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_can_not_be_resumed(name, inputs, other, tmp_path, monkeypatch):
    out, words = tmp_path / "out.jsonl", inputs[name]
    at = next(at for at, word in enumerate(words) if isinstance(word, Path))
    source = Path(shutil.copy(words[at], tmp_path))
    words = [*words[:at], source, *words[at + 1 :], "-o", out]
    content = source.read_text("utf-8")

    def command(*options: str) -> Done:
        return run(*with_defaults(words, *options))

    resume = partial(command, "--resume")
    append, appended = writing.append, []

    def interrupt(file, data):
        if len(appended) == 2:
            raise KeyboardInterrupt
        appended.append(data)
        append(file, data)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "append", interrupt)
        done = command()
    assert done.code == 130 and "continue with --resume" in done.err
    done = command()
    assert done.code == 2 and "continue it with --resume, or delete the file" in done.err
    for options, problem in DIFFERENCES[name]:
        source.write_text(content if options else f"{content} It rained.", "utf-8")
        done = resume(*(other if word is OTHER else word for word in options))
        assert done.code == 2 and problem in done.err, (options, done)
    source.write_text(content, "utf-8")
    assert not out.exists() and resume().code == 0 and not Path(f"{out}.part").exists()
    done = resume()
    assert done.code == 0 and (name not in ("score", "book") or "is complete" in done.err)
