"""The commands of docs/paper.md run as they are typed: on small files, with a small encoder where
one is trained, and a fake language model in place of a server."""

import csv
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from unittest import mock

import pytest
from test_paper import FIVE, save_run

from narrative_twins import training as package
from narrative_twins.commands.cli import command_line
from narrative_twins.evaluation import labelled_stories, scorers, significance

from support import examples
from support.chat_server import Model, serving
from support.command import run
from support.recognizers import save_pipeline
from support.rows import write_rows

ROOT = examples.EXAMPLES.parent
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
PROGRAMS = ("train_", "accelerate ", "narrative-twins ", "python ", "make tables")
SPANS = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", PAGE)]
COMMANDS = list(dict.fromkeys(span for span in SPANS if span.startswith(PROGRAMS)))
for beginning in ("train_", "accelerate launch examples/"):  # of other commands
    COMMANDS.remove(beginning)
DRAGON = "The Girl with the Dragon Tattoo (2011 film)_0"


def commands(program: str) -> list[str]:
    return [command for command in COMMANDS if command.startswith(program)]


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    """A folder with what the placeholders of the page stand for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(significance, "RESAMPLES", 50)
    monkeypatch.setattr(scorers, "RANDOM_DRAWS", 2)
    for name in ("examples", "research", "narrative_twins"):
        Path(name).symlink_to(ROOT / name)
    labels = [{"id": f"S{i}", "story": FIVE[i:] + FIVE[:i], "choices": [1, 3, 3]} for i in range(3)]
    told = [[f"{n}. {words}" for n in range(1, 25)] for words in ("Nadia ran.", "She went away.")]
    rows = {
        "labels": labels,
        "stories": [{"text": " ".join(FIVE)}],
        "twins": [{"story": ["Anna ran to Moscow."], "twin": ["Anna fled."]}],
        "works/works": [{"id": "W", "story": told[0], "twins": told[1:]}],
        "igorsterner/rocstory-salience/test": labels,
        "igorsterner/rocstory-summaries/test": [{**labels[0], "summaries": FIVE[2:3] * 5}],
        "retold/summaries": [{"story": FIVE, "labels": [0.1, 0.2, 0.9, 0.0, 0.3]}],
    }
    for name, content in rows.items():
        write_rows(Path(f"{name}.jsonl"), content)
    sentences = {f"sentence{n}": text for n, text in enumerate(FIVE[::-1], start=1)}
    write_table(Path("roc.csv"), {"storyid": "a", "storytitle": "", **sentences})
    save_pipeline(Path("en_core_web_sm"))
    Path("TRIPOD").mkdir()
    for split, name in (("train", "Juno (film)"), ("test", DRAGON)):
        sentences = [f"[STR_SENT]{name} {n} burned.[END_SENT]" for n in range(10)]
        film = {"movie_name": name, "synopsis_segmented": "".join(sentences)}
        film |= {f"tp{k}": 2 * k - 1 for k in range(1, 6)}
        write_table(Path("TRIPOD", f"TRIPOD_synopses_{split}.csv"), film)
    shutil.copy("TRIPOD/TRIPOD_synopses_train.csv", ".")
    return tmp_path


def write_table(path: Path, row: dict[str, object]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, row)
        table.writeheader()
        table.writerow(row)


FILES = {"entities": "twins.jsonl", "roc_stories": "roc.csv"}
FILES |= dict.fromkeys(("evaluate", "prompt_model"), "labels.jsonl")
"""What FILE stands for, by a word of the command; otherwise for stories."""
PLACEHOLDERS = {"NAME": "tiny", "FOLDER": "works", "OUT": "out.jsonl"}
PLACEHOLDERS |= dict.fromkeys(("LABELS", "OTHERS"), "labels.jsonl")


def filled(command: str, address: str = "URL") -> list[str]:
    """The words of a command, with files of `work` for its placeholders."""
    (file,) = [file for word, file in FILES.items() if word in command] or ["stories.jsonl"]
    stands = PLACEHOLDERS | {"FILE": file, "URL": address}
    words = [stands.get(word, word) for word in shlex.split(command)]
    return [word.replace("/NAME", "/tiny") for word in words]


def test_the_page_has_commands():
    assert len(COMMANDS) > 30 and all(commands(program) for program in PROGRAMS)


@pytest.mark.parametrize("command", commands("narrative-twins "))
@pytest.mark.slow
def test_commands_run(work, command):
    """The page on which people choose is not served, only its arguments are read."""
    if "annotate" in command:
        program, name, *words = shlex.split(command)
        # With the settings of the program, which click keeps for later calls of the command.
        context = command_line.make_context(program, [name, *words])
        command_line.get_command(context, name).make_context(name, words, parent=context)
        return
    with serving(Model()) as model:
        done = run(*filled(command, model.address)[1:])
    assert done.code == 0, done.err


@pytest.mark.parametrize("command", commands("python "))
@pytest.mark.slow
def test_scripts_run(work, command):
    flags = re.findall(r"The flags are `([^`]+)`; a reasoning model takes `([^`]+)`", PAGE)
    more = " ".join(" ".join(flags[0]).split()) if "prompt_model" in command else ""
    with serving(Model()) as model:
        _, path, *words = filled(f"{command} {more}", model.address)
        examples.run(ROOT / path, *words)
        for body in model.bodies:
            assert body["max_completion_tokens"] == 16000 and "max_tokens" not in body


class Parsed(Exception):
    """Ends a training script when its flags are read."""


@pytest.mark.parametrize("command", [*commands("train_"), *commands("accelerate ")])
def test_flags_of_training_scripts_are_read(work, command):
    """A run with a config is in the folder that `make tables` looks in."""
    path, *flags = shlex.split(command.removeprefix("accelerate launch "))

    def parsed(*arguments, parse=package.parse_arguments, **options):
        raise Parsed(*parse(*arguments, **options))

    with mock.patch.object(package, "parse_arguments", parsed), pytest.raises(Parsed) as stop:
        examples.run(ROOT / path if "/" in path else path, *flags, "--use_cpu")
    training, _ = stop.value.args
    for config in re.findall(r"(\w+)\.yaml", command):
        assert training.output_dir == f"runs/{config}-seed{training.seed}"


@pytest.mark.skipif(shutil.which("make") is None, reason="without make")
@pytest.mark.parametrize("command", [one for one in commands("make tables") if "SMOKE" not in one])
@pytest.mark.slow
def test_tables_are_made(work, monkeypatch, command):
    """With the command line that `make` would run, of a run for each figure of stories."""
    load = labelled_stories.load_labelled

    def few(*arguments, **options):  # the corpora of the package are large
        return load(*arguments, **options).first(3)

    monkeypatch.setattr(labelled_stories, "load_labelled", few)
    for name in ("roc_bert_large", "wiki_ettin"):
        save_run(work / "runs" / f"{name}-seed43")
    dry = ["make", "--dry-run", "--directory", ROOT, *shlex.split(command)[1:]]
    printed = subprocess.run(dry, capture_output=True, text=True, check=True, encoding="utf-8")
    (line,) = re.findall(r"make_tables\.py (.+)$", printed.stdout.replace("\\\n", ""), re.M)
    examples.run(
        ROOT / "research" / "paper" / "make_tables.py", *shlex.split(line), "--dtype", "float32"
    )
    figures = {
        name: json.loads(Path("tables", f"{name}.json").read_text(encoding="utf-8"))["stories"]
        for name in ("two_stories", "one_synopsis")
    }
    assert len(figures["two_stories"]) == 2 and len(figures["one_synopsis"]) == 1
    if "SECOND" in command:
        table = Path("tables/stories_baselines.md").read_text(encoding="utf-8")
        assert re.search(r"\| people, second group +\| +1\.000 \|", table)
    elif "Dragon" in command:
        assert figures["one_synopsis"][0]["id"] == DRAGON
    elif "practice" in command:
        assert "gold" in figures["two_stories"][0]["sentences"][1]
