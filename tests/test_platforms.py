"""Windows and macOS, as far as another system can tell: commands in a process that treats this
package as Windows does (`support.windows`), and no float64 where MPS would refuse it.

This file, run with the name of a function, a folder and an encoder, is what runs in that process."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import pipeline

from narrative_twins import Story, evaluate, score_stories
from narrative_twins.books import book_table
from narrative_twins.books.story_files import read_story_files
from narrative_twins.data import load_story_salience
from narrative_twins.prompting.templates import read_templates
from narrative_twins.show.formats import FORMATS
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.salience_loss import SalienceLoss

from support.command import Done, run
from support.models import SENTENCES, small, trainable
from support.processes import COMMAND, LIMIT, run_command, run_python, started, wait_until
from support.rows import write_rows
from support.twins_batches import STORIES, collated, features, trainer_of

TESTS = Path(__file__).parent
HAS_PROC = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="open files are listed in /proc"
)


@pytest.fixture
def windows(tmp_path, hub):
    """The environment of a process that stands in for Windows, with a local hub."""
    folders = [TESTS / "support" / "windows", TESTS, os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(str(folder) for folder in folders if str(folder)),
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "cp1252",
        "PYTHONWARNDEFAULTENCODING": "1",
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_ENDPOINT": hub.address,
    }


TEXT = "Nadia found a map. “It led to a mill — naïve!” The mill was gone. 東京は雨でした。"
CHAPTERS = "".join(f"Chapter {n}\n\n{TEXT} It rained.\n\n" for n in (1, 2, 3))


REFUSED = {
    "open('a.txt')": "opened without an encoding",
    "subprocess.run(['true'], text=True)": "",
    "open('CON.txt', 'wb')": "The filename is incorrect",
    "Path('a: b').mkdir()": "The filename is incorrect",
    "os.replace('b.txt', 'a.txt')": "It is being used by another process",
    "Path('a.txt').unlink()": "It is being used by another process",
}
"""What Windows refuses, and modules of the package may not do; libraries may."""


def check_stand_in() -> None:
    names = {"os": os, "subprocess": subprocess, "Path": Path}
    for statement, reason in REFUSED.items():
        Path("b.txt").write_bytes(b"b")
        with open("a.txt", "wb"):
            with pytest.raises((EncodingWarning, OSError), match=reason):
                exec(statement, {"__name__": "narrative_twins.encoder", **names})
            exec(statement, {"__name__": "transformers.hub", **names})


def command(folder: Path, *arguments: object, encoding: str = "cp1252") -> Done:
    done = run(*arguments, cwd=folder, encoding=encoding)
    assert done.code == 0, (arguments, done)
    return done


def score(folder: Path, encoder: str) -> None:
    """Score by the pipeline and the command, write and show every format."""
    check_stand_in()
    result = pipeline("narrative-salience", model=encoder, device="cpu", dtype="float32")(TEXT)
    options = ["--model", encoder, "--device", "cpu", "--dtype", "float32", "--quiet"]
    (folder / "tale: 1?.txt").write_bytes(TEXT.encode())
    (folder / "book.txt").write_bytes(CHAPTERS.encode())
    table = command(folder, "score", "tale: 1?.txt", *options).out
    assert "Nadia found a map." in table and "\N{BOX DRAWINGS LIGHT HORIZONTAL}" not in table
    command(folder, "score", "tale: 1?.txt", *options, "-o", "scores.jsonl")
    for form in FORMATS:
        command(folder, "show", "scores.jsonl", "-f", form, "-o", f"shown.{form}")
    (saved,) = json.loads((folder / "shown.json").read_text(encoding="utf-8"))
    assert saved["sentences"] == list(result.sentences)
    command(folder, "book", "book.txt", *options, "-o", "book.jsonl")
    for form in ("text", "json", "html"):
        command(folder, "show", "book.jsonl", "-f", form, "-o", f"book.{form}")
    extract = command(folder, "extract", "book.json", "--sentences", "3", "--quiet").out
    assert "Chapter 1" in extract


def evaluate_and_train(folder: Path, encoder: str) -> None:
    """Evaluate, write a plot of data with an illegal name, and take a step of training."""
    story = ["Nadia found a map.", "It led to a mill.", "It was gone.", "She left.", "It rained."]
    rows = [{"story": story[n:] + story[:n], "labels": [1, 0, 0, 1, 0]} for n in range(3)]
    (folder / "judged.jsonl").write_bytes("\r\n".join(map(json.dumps, rows)).encode())
    options = ["--device", "cpu", "--dtype", "float32", "--quiet"]
    command(folder, "evaluate", "judged.jsonl", f"--model=CON={encoder}", *options, "-o", "figures")
    twins: Any = [{"story": story[n:], "twin": story[:n]} for n in range(1, 5)]
    model, steps = SentenceTransformer(encoder, device="cpu"), {"max_steps": 1, "save_steps": 1}
    steps |= {"loss": NarrativeTwinsLoss(model), "save_strategy": "steps"}
    trainer = trainer_of(folder / "run", Dataset.from_list(twins), model, **steps)
    trainer.train()
    trainer.save_model(str(folder / "run" / "final"))


def corpus_and_push(folder: Path, encoder: str) -> None:
    """Score stories in two processes into shards, and push the encoder to the hub."""
    rows = [{"id": f"story: {n}?", "text": TEXT} for n in range(5)]
    write_rows(folder / "in.jsonl", rows)
    options = ["--model", encoder, "--device", "cpu", "--dtype", "float32", "--quiet"]
    options += ["--processes", "2", "--shard-rows", "2"]
    command(folder, "corpus", "in.jsonl", "-o", "out", *options)
    assert len(list((folder / "out").glob("scores-0000?.parquet"))) == 3
    command(folder, "push", encoder, "--to", "somebody/encoder")


@pytest.mark.parametrize("name", ["score", "evaluate_and_train", "corpus_and_push"])
@HAS_PROC
@pytest.mark.slow
def test_commands_run_on_windows(name, windows, hub, tmp_path, bert_folder):
    run_python(__file__, name, tmp_path, bert_folder, env=windows, cwd=tmp_path)
    if name == "corpus_and_push":
        assert "1_Pooling/config.json" in hub.files("models", "somebody/encoder")


@HAS_PROC
@pytest.mark.slow
def test_a_run_that_ctrl_break_ends_is_resumed(windows, tmp_path, bert_folder):
    """It shares its stories with two processes, which get the signal of the console too."""
    stories = [{"text": f"In {n} the mill burned. Nadia ran. " * 3} for n in range(800)]
    write_rows(tmp_path / "in.jsonl", stories)
    part = tmp_path / "out.jsonl.part"
    command = [COMMAND, "score", "in.jsonl", "--model", bert_folder, "--device", "cpu", "--resume"]
    command += ["--batch-size", "1", "-o", "out.jsonl", "--operations", "summarization"]
    command += ["--processes", "2"]
    with started(*command, env=windows, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        wait_until(lambda: part.exists() and part.read_bytes().count(b"\n") > 20, process)
        children = psutil.Process(process.pid).children()
        workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        assert len(workers) == 2
        for each in (*workers, process):
            each.send_signal(signal.SIGUSR1)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and "continue with --resume" in err, err
    assert "Traceback" not in err, err
    done = run_command(*command, "--quiet", env=windows, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and not part.exists()
    assert len((tmp_path / "out.jsonl").read_bytes().splitlines()) == len(stories)


# Line breaks of Windows

TALE = "Nadia found a map. It led\nto a mill.\n\nThe mill was gone.\n"
BOOK = "# Rain\n\nIt rained. She\nran.\n\n# Snow\n\nIt snowed.\n\n* * *\n\nHe left.\n"


def stories_of(path):
    return [Story.parse(each.content).sentences for each in read_story_files([str(path)])]


def table_of(path):
    table = book_table(path)
    return [(list(level.texts), level.spans) for level in (table.chapters, table.sentences)]


TEXTS = {
    "story.txt": (stories_of, TALE),
    "story.md": (stories_of, TALE),
    "rows.jsonl": (stories_of, '{"text": "It rained. She ran."}\n\n{"text": "It snowed."}\n'),
    "rows.csv": (stories_of, 'id,text\n1,"It\nrained. She ran."\n2,It snowed.\n'),
    "book.txt": (table_of, BOOK.replace("# ", "Chapter ")),
    "book.md": (table_of, BOOK),
    "book.html": (table_of, "<h1>Rain</h1>\n<p>It rained.\nShe ran.</p>\n<pre>He\nleft.</pre>\n"),
    "choose.txt": (
        lambda path: read_templates([path.stem], path.parent),
        (TESTS.parent / "narrative_twins/prompting/prompts/choose.txt").read_text("utf-8"),
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_line_breaks_of_windows_change_nothing(name, tmp_path):
    read, text = TEXTS[name]
    results = []
    for folder, content in (("unix", text), ("windows", text.replace("\n", "\r\n"))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(content.encode())
        results.append(read(tmp_path / folder / name))
    assert results[0] == results[1] and results[0]


# macOS: MPS has no float64


class NoFloat64(TorchDispatchMode):
    """Refuses operations that make tensors in float64."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(each, torch.Tensor):
                assert each.dtype != torch.float64, f"{func} makes float64, which MPS lacks"
        return result


def scored(approximate):
    (result,) = score_stories([" ".join(SENTENCES[:4])], small(), approximate=approximate)
    assert len(result.scores) == 4


def evaluated(folder):
    rows = [{"story": SENTENCES[:5], "labels": [0, 1, 0, 0, 1]}] * 3
    path = str(write_rows(folder / "labels.jsonl", rows))
    options = {"baselines": ["trail", "textrank"], "sentence_encoder": small()}
    assert "textrank" in evaluate(small(), path, **options).tables()[0].to_markdown()


def step(loss, batch):
    value = loss([batch])
    value.backward()
    assert value.dtype == torch.float32


def step_on_votes(approximate):
    loss = SalienceLoss(trainable(), approximate=approximate)
    return partial(step, loss, collated(loss, list(load_story_salience(split="train[:2]"))))


def step_on_twins(size):
    model = trainable()
    return partial(step, NarrativeTwinsLoss(model, mini_batch_size=size), features(model, STORIES))


WORK = {
    "exact scores": lambda folder: partial(scored, None),
    "scores in one pass": lambda folder: partial(scored, "one-pass"),
    "evaluation": lambda folder: partial(evaluated, folder),
    "training": lambda folder: step_on_twins(None),
    "training in mini-batches": lambda folder: step_on_twins(2),
    "training on votes": lambda folder: step_on_votes(None),
    "training on votes in one pass": lambda folder: step_on_votes("one-pass"),
}


@pytest.mark.parametrize("name", WORK)
def test_float64_is_not_made(name, tmp_path):
    work = WORK[name](tmp_path)
    with NoFloat64():
        work()
        with pytest.raises(AssertionError, match="makes float64"):
            torch.ones(2).double()


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
