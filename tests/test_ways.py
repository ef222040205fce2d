"""The ways through the package that docs/architecture.md describes, file by file: what runs is what
is written there, and it is little."""

from __future__ import annotations

import gc
import re
import sys
import threading
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import datasets
import pytest
from transformers import pipeline

import narrative_twins
from narrative_twins.books import book_table

from support.books import WRITERS, WrittenChapter
from support.models import encoder_of

ROOT = Path(__file__).parent.parent
STORY = "Omar cleaned a window. A man cried. Omar wrote a word."
PACKAGE = "narrative_twins."
# Code of a module, of a class body, and of what runs when they are imported, such as decorators.
_AT_IMPORT = ("<module>", "_find_and_load", "_find_and_load_unlocked")


def modules_run(call: Callable[[], Any]) -> dict[str, int]:
    """The modules of the package of which a function runs during a call, in order of the first
    call, without the package's name, each with the number of returns to it. Code that runs because
    a module is imported does not count: a reader of the way through need not read it.

    A module is returned to when a new call enters it after the way has gone on to a module that had
    not been seen before: once for each such step, however often it is called then.

    Args:
        call: what to follow, in all threads that it starts.
    """
    seen: dict[str, int] = {}
    last_entered: dict[str, int] = {}
    importing = threading.local()

    def follow(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return"):
            return
        if code.co_name in _AT_IMPORT:
            depth = getattr(importing, "depth", 0)
            importing.depth = depth + (1 if event == "call" else -1)
            return
        name = frame.f_globals.get("__name__", "")
        is_class_body = not code.co_flags & 0x0002  # without CO_NEWLOCALS
        if event == "call" and name.startswith(PACKAGE) and not getattr(importing, "depth", 0):
            if not is_class_body:
                module = name.removeprefix(PACKAGE)
                returns = seen.setdefault(module, 0)
                if last_entered.setdefault(module, len(seen)) < len(seen):
                    seen[module] = returns + 1
                last_entered[module] = len(seen)

    gc.collect()  # generators that earlier tests left open would be entered when they are closed
    threading.setprofile(follow)
    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def documented(heading: str) -> list[str]:
    """The modules that a section of the architecture lists, in its order."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split(f"### {heading}\n")[1].split("\n#")[0]
    files = re.findall(r"^\d+\. `([\w/]+)\.py`", section, re.M)
    return [file.replace("/", ".") for file in files]


def test_the_way_of_a_story(bert_folder):
    assert narrative_twins.__version__  # imported before the pipeline, so that the task is known

    def score():
        pipeline("narrative-salience", model=bert_folder, device="cpu", dtype="float32")(STORY)

    returns = modules_run(score)
    assert list(returns) == documented("From a story to its scores")
    assert len(returns) <= 12
    # See docs/architecture.md for what counts as a return.
    assert max(returns.values()) <= 2 and sum(returns.values()) <= 10, returns


def test_the_way_of_a_book_comes_back_to_no_room(tmp_path):
    chapters = [WrittenChapter("Chapter 1", ["It rained. She ran.", "It snowed."], [1])]
    (tmp_path / "book.epub").write_bytes(WRITERS["book2.epub"]("Rain", chapters))
    way = list(modules_run(lambda: book_table(tmp_path / "book.epub")))
    assert way == documented("From a book to its table")
    rooms = [room for room, _ in groupby(way, key=lambda module: module.split(".")[0])]
    assert len(rooms) == len(set(rooms))


@pytest.mark.slow
def test_the_way_of_a_training_step(tmp_path, monkeypatch):
    from narrative_twins.training.trainer import NarrativeTwinsTrainer

    class StepDone(Exception):
        """Ends the training after a step."""

    def step(self, *arguments, **options):
        original(self, *arguments, **options)
        raise StepDone

    def train():
        try:
            train_wiki.main()
        except StepDone:
            pass

    monkeypatch.syspath_prepend(ROOT / "examples")
    import train_wiki

    for part in encoder_of("bert"):
        part.save_pretrained(tmp_path / "encoder")
    monkeypatch.chdir(tmp_path)
    original = NarrativeTwinsTrainer.training_step
    monkeypatch.setattr(NarrativeTwinsTrainer, "training_step", step)
    options = ["--smoke", "--encoder", str(tmp_path / "encoder"), "--report_to", "none"]
    monkeypatch.setattr(sys, "argv", ["train_wiki.py", *options, "--use_cpu", "true"])
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    found = list(modules_run(train))
    assert found == documented("From a script to a step of training") and len(found) <= 14


SHARED = {"extras", "writing", "commands.cli", "commands.options", "commands.shared"}
"""Modules that all commands use."""


def test_the_way_of_labels(bert_folder, tmp_path, monkeypatch, capsys):
    from narrative_twins.commands.cli import main

    def evaluate():
        command = ["evaluate", "labels.csv", "--model", bert_folder, "--baselines", "none"]
        assert main([*command, "--quiet", "--dtype", "float32", "--device", "cpu"]) == 0

    monkeypatch.chdir(tmp_path)
    rows = [
        "story_id,sentence,label",
        "a,Nadia ran.,0",
        "a,It rained.,1",
        "b,He left.,1",
        "b,So.,0",
    ]
    Path("labels.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    scoring = {*documented("From a story to its scores"), "salience.progress"}
    way = [name for name in modules_run(evaluate) if name not in SHARED | scoring]
    assert way == documented("From labels to a table") and len(way) <= 14
    assert " summarization | " in capsys.readouterr().out
