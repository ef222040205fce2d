"""Windows and macOS, as far as another system can tell: commands in a process that treats this
package as Windows does (`support.windows`), and no float64 where MPS would refuse it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from narrative_twins import Story, StoryEncoder, evaluate, score_stories
from narrative_twins.books import book_table
from narrative_twins.data import load_story_salience, load_story_twins
from narrative_twins.evaluation.labelled import load_labelled
from narrative_twins.prompting.templates import read_templates
from narrative_twins.stories.reading import read_stories
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.salience_loss import SalienceLoss

from support.models import SENTENCES, small, trainable
from support.processes import COMMAND, LIMIT, run_command, run_python, started, wait_until
from support.rows import write_rows
from support.twins_batches import STORIES, features

TESTS = Path(__file__).parent
HAS_PROC = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="open files are listed in /proc"
)


@pytest.fixture
def windows(tmp_path):
    """The environment of a process that stands in for Windows."""
    folders = [TESTS / "support" / "windows", TESTS, os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(str(folder) for folder in folders if str(folder)),
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "cp1252",
        "PYTHONWARNDEFAULTENCODING": "1",
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_OFFLINE": "1",
    }


REFUSED = {
    "import fcntl": "No module named 'fcntl'",
    "from resource import getrlimit": "No module named 'resource'",
    "open('a.txt')": "opened without an encoding",
    "Path('a.txt').read_text()": "EncodingWarning",
    "subprocess.run(['true'], text=True)": "EncodingWarning",
    "open('CON.txt', 'wb')": "The filename is incorrect",
    "Path('a: b').mkdir()": "The filename is incorrect",
    "os.replace('b.txt', 'a.txt')": "It is being used by another process",
    "Path('a.txt').unlink()": "It is being used by another process",
}


@HAS_PROC
def test_the_stand_in_refuses_what_windows_does(windows, tmp_path):
    """To modules of the package; libraries may do it."""
    code = (
        "import os, subprocess, sys; from pathlib import Path\n"
        "Path('b.txt').write_bytes(b'b'); held = open('a.txt', 'wb')\n"
        "try: exec(sys.argv[1], {'__name__': sys.argv[2], **globals()} | {'__name__': sys.argv[2]})\n"
        "except BaseException as error: print(type(error).__name__, error)"
    )
    for statement, reason in REFUSED.items():
        python = [sys.executable, "-c", code, statement]
        done = run_command(*python, "narrative_twins.encoder", env=windows, cwd=tmp_path)
        assert reason in done.stdout, (statement, done)
        done = run_command(*python, "transformers.hub", env=windows, cwd=tmp_path)
        assert done.stdout == "", (statement, done)


@pytest.mark.parametrize(
    "name", ["score", pytest.param("evaluate_and_train", marks=pytest.mark.slow)]
)
@HAS_PROC
def test_commands_run_on_windows(name, windows, tmp_path, bert_folder):
    run_python("-m", "support.on_windows", name, tmp_path, bert_folder, env=windows, cwd=tmp_path)


@HAS_PROC
@pytest.mark.slow
def test_a_killed_run_and_one_ended_by_ctrl_break_are_resumed(windows, tmp_path, bert_folder):
    """The second shares its stories with two processes, which get the signal of the console too."""
    stories = [{"text": f"In {n} the mill burned. Nadia ran. " * 3} for n in range(800)]
    write_rows(tmp_path / "in.jsonl", stories)
    part = tmp_path / "out.jsonl.part"
    command = [COMMAND, "score", "in.jsonl", "--model", bert_folder, "--device", "cpu"]
    command += ["--batch-size", "1", "-o", "out.jsonl", "--operations", "summarization"]
    options = {"env": windows, "cwd": tmp_path, "stderr": subprocess.PIPE}

    def lines() -> int:
        return part.read_bytes().count(b"\n") if part.exists() else 0

    with started(*command, **options) as process:
        wait_until(lambda: lines() > 20, process)
        process.kill()
    before = lines()
    resumed = [*command, "--resume", "--processes", "2"]
    with started(*resumed, **options) as process:
        wait_until(lambda: lines() > before + 20, process)
        children = psutil.Process(process.pid).children()
        workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        assert len(workers) == 2
        for each in (*workers, process):
            each.send_signal(signal.SIGUSR1)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and "continue with --resume" in err, err
    assert "Traceback" not in err, err
    done = run_command(*resumed, "--quiet", env=windows, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and not part.exists()
    assert len((tmp_path / "out.jsonl").read_bytes().splitlines()) == len(stories)


@HAS_PROC
@pytest.mark.slow
def test_a_corpus_is_scored_by_two_processes_and_an_encoder_is_pushed(
    windows, tmp_path, bert_folder, hub
):
    stories = [{"id": f"story: {n}?", "text": f"{' '.join(SENTENCES[:4])}"} for n in range(5)]
    write_rows(tmp_path / "in.jsonl", stories)
    command = [COMMAND, "corpus", "in.jsonl", "-o", "out", "--processes", "2", "--shard-rows", "2"]
    command += ["--model", bert_folder, "--device", "cpu", "--dtype", "float32", "--quiet"]
    done = run_command(*command, env=windows, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shards = sorted(file.name for file in (tmp_path / "out").glob("*.parquet"))
    assert shards == [f"scores-{number:05}.parquet" for number in range(3)]
    network = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1"}
    network["HF_TOKEN"] = "secret"
    push = [COMMAND, "push", bert_folder, "--to", "somebody/encoder"]
    done = run_command(*push, env=windows | network, cwd=tmp_path)
    assert done.stdout.split() == [f"{hub.address}/somebody/encoder"], done.stderr
    assert "1_Pooling/config.json" in hub.files("models", "somebody/encoder")


@HAS_PROC
@pytest.mark.slow
def test_the_page_is_served_and_asked(windows, tmp_path, bert_folder):
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [COMMAND, "app", "--port", "0", "--model", bert_folder]
    with started(*command, **pipes, env=windows, cwd=tmp_path) as process:
        address = process.stdout.readline().split()[4]
        call = f"{address}gradio_api/call/score"
        body = {"data": ["Nadia ran. “It rained”.", None, "auto", "one pass", "sentences"]}
        with httpx.Client(trust_env=False, timeout=LIMIT) as client:
            event = client.post(call, json=body).json()["event_id"]
            answer = client.get(f"{call}/{event}").text
        data = answer.split("event: complete\ndata: ")[1].split("\n")[0]
        assert len(json.loads(data)[0]["sentences"]) == 2
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, errors) == (130, "narrative-twins: interrupted\n")


# Line breaks of Windows

TALE = "Nadia found a map. It led\nto a mill.\n\nThe mill was gone.\n"
BOOK = "# Rain\n\nIt rained. She\nran.\n\n# Snow\n\nIt snowed.\n\n* * *\n\nHe left.\n"


def stories_of(path):
    documents = list(read_stories([str(path)]))
    return [Story.parse(document.content).sentences for document in documents]


def table_of(path):
    table = book_table(path)
    return [(list(level.texts), level.spans) for level in (table.chapters, table.sentences)]


def template_of(path):
    return read_templates([path.stem], path.parent)


TEXTS = {
    "story.txt": (stories_of, TALE),
    "story.md": (stories_of, TALE),
    "story.html": (stories_of, f"<p>\n{TALE}</p>\n"),
    "rows.jsonl": (stories_of, '{"text": "It rained. She ran."}\n\n{"text": "It snowed."}\n'),
    "rows.json": (stories_of, '[\n{"text": "It rained."},\n{"text": "It snowed."}\n]\n'),
    "rows.csv": (stories_of, 'id,text\n1,"It\nrained. She ran."\n2,It snowed.\n'),
    "book.txt": (table_of, BOOK.replace("# ", "Chapter ")),
    "book.md": (table_of, BOOK),
    "book.html": (table_of, "<h1>Rain</h1>\n<p>It rained.\nShe ran.</p>\n<pre>He\nleft.</pre>\n"),
    "labels.jsonl": (
        lambda path: load_labelled(path).stories,
        '{"story": ["It rained.", "She ran."], "labels": [0, 1]}\n' * 2,
    ),
    "twins.jsonl": (
        lambda path: list(load_story_twins(str(path), split="train")),
        '{"story": ["It rained."], "twin": ["Rain fell."]}\n',
    ),
    "choose.txt": (
        template_of,
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


@pytest.mark.parametrize("options", [{}, {"approximate": "one-pass"}])
def test_scoring_makes_no_float64(options):
    encoder = small()
    with NoFloat64():
        (result,) = score_stories([" ".join(SENTENCES[:4])], encoder, **options)
    assert len(result.scores) == 4
    with pytest.raises(AssertionError, match="makes float64"), NoFloat64():
        torch.ones(2).double()


def test_evaluation_makes_no_float64(tmp_path):
    rows = [{"story": SENTENCES[:5], "labels": [0, 1, 0, 0, 1]}] * 3
    path = write_rows(tmp_path / "labels.jsonl", rows)
    options = {"baselines": ["trail", "textrank"], "sentence_encoder": small()}
    with NoFloat64():
        comparison = evaluate(small(), str(path), **options)
    assert "textrank" in comparison.tables()[0].to_markdown()


@pytest.mark.parametrize("size", [None, 2])
def test_training_makes_no_float64(size):
    model = trainable()
    loss = NarrativeTwinsLoss(model, mini_batch_size=size)
    batch = features(model, STORIES)
    with NoFloat64():
        value = loss([batch])
        value.backward()
    assert value.dtype == torch.float32


@pytest.mark.parametrize("approximate", [None, "one-pass"])
def test_training_on_votes_makes_no_float64(approximate):
    model = trainable()
    loss = SalienceLoss(model, approximate=approximate)
    tokenizer = StoryEncoder.from_sentence_transformer(model).tokenizer
    batch = loss.collator(tokenizer)(list(load_story_salience(split="train[:2]"))).items()
    with NoFloat64():
        value = loss([{name.removeprefix("texts_"): values for name, values in batch}])
        value.backward()
    assert value.dtype == torch.float32
