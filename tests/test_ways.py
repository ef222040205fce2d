"""The ways through the package that docs/architecture.md describes, file by file: what runs is what
is written there."""

import gc
import inspect
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import datasets
import pytest
from transformers import pipeline

import narrative_twins
from narrative_twins.books import book_table

from support.books import WRITERS, WrittenChapter

ROOT = Path(__file__).parent.parent
STORY = "Omar cleaned a window. A man cried. Omar wrote a word."
PACKAGE = "narrative_twins."
# Code of a module, of a class body, and of what runs when they are imported, such as decorators.
_AT_IMPORT = ("<module>", "_find_and_load", "_find_and_load_unlocked")


def modules_run(call: Callable[[], Any]) -> list[str]:
    """The modules of the package of which a function runs during a call, in order of the first
    call, without the package's name. Code that runs because a module is imported does not count: a
    reader of the way through need not read it."""
    seen: dict[str, None] = {}
    importing = threading.local()

    def follow(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_name in _AT_IMPORT and event in ("call", "return"):
            importing.depth = getattr(importing, "depth", 0) + (1 if event == "call" else -1)
        name = frame.f_globals.get("__name__", "")
        is_function = code.co_flags & inspect.CO_NEWLOCALS  # not a class body
        if event != "call" or not is_function or not name.startswith(PACKAGE):
            return
        if getattr(importing, "depth", 0) == 0:
            seen.setdefault(name.removeprefix(PACKAGE))

    gc.collect()  # generators that earlier tests left open would be entered when they are closed
    threading.setprofile(follow)
    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen)


def documented(heading: str) -> list[str]:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split(f"### {heading}\n")[1].split("\n#")[0]
    files = re.findall(r"^\d+\. `([\w/]+)\.py`", section, re.M)
    return [file.replace("/", ".") for file in files]


def test_the_way_of_a_story(bert_folder):
    assert narrative_twins.__version__  # imported before the pipeline, so that the task is known

    def score():
        pipeline("narrative-salience", model=bert_folder, device="cpu", dtype="float32")(STORY)

    assert modules_run(score) == documented("From a story to its scores")


def test_the_way_of_a_book(tmp_path):
    chapters = [WrittenChapter("Chapter 1", ["It rained. She ran.", "It snowed."], [1])]
    (tmp_path / "book.epub").write_bytes(WRITERS["book2.epub"]("Rain", chapters))
    modules = modules_run(lambda: book_table(tmp_path / "book.epub"))
    way = [name for name in modules if name not in SHARED]
    assert way == documented("From a book to its table")


@pytest.mark.slow
def test_the_way_of_a_training_step(tmp_path, monkeypatch, bert_folder):
    from narrative_twins.training.trainer import NarrativeTwinsTrainer

    class StepDone(Exception):
        """Ends the training after a step."""

    def step(self, *arguments, **options):
        original(self, *arguments, **options)
        raise StepDone

    def train():
        with suppress(StepDone):
            train_wiki.main()

    monkeypatch.syspath_prepend(ROOT / "examples")
    import train_wiki

    monkeypatch.chdir(tmp_path)
    original = NarrativeTwinsTrainer.training_step
    monkeypatch.setattr(NarrativeTwinsTrainer, "training_step", step)
    options = ["--smoke", "--encoder", bert_folder, "--report_to", "none", "--use_cpu", "true"]
    monkeypatch.setattr(sys, "argv", ["train_wiki.py", *options])
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    way = modules_run(train)
    assert way == documented("From a script to a step of training")


SHARED = {
    "extras",
    "text",
    "writing",
    *(f"commands.{name}" for name in ("cli", "signatures", "streams")),
}
SHARED |= {"commands.messages", "commands.encoder_options", "commands.scoring_options"}


def test_the_way_of_labels(bert_folder, tmp_path, monkeypatch, capsys):
    from narrative_twins.commands.cli import main

    def evaluate():
        command = ["evaluate", "labels.csv", "--model", bert_folder, "--baselines", "none"]
        assert main([*command, "--quiet", "--dtype", "float32", "--device", "cpu"]) == 0

    monkeypatch.chdir(tmp_path)
    rows = "story_id,sentence,label\na,It rained.,0\na,She ran.,1\nb,He left.,1\nb,So.,0\n"
    Path("labels.csv").write_text(rows, encoding="utf-8")
    scoring = {*documented("From a story to its scores"), "salience.progress"}
    way = [name for name in modules_run(evaluate) if name not in SHARED | scoring]
    assert way == documented("From labels to a table")
    assert " summarization | " in capsys.readouterr().out
