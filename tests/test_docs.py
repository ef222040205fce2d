"""The documentation: examples of the README and the guides run and print what is shown there;
links, tables and lines are right; public names have docstrings."""

import contextlib
import csv
import inspect
import io
import json
import re
import shlex
import shutil
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from types import FunctionType
from unittest.mock import patch

import pytest
import yaml

import narrative_twins
from narrative_twins import Story, StoryEncoder, StorySalience, score_book

from support.chat_server import Model, serving
from support.command import run
from support.models import save_base
from support.processes import COMMAND, run_command
from support.recognizers import save_pipeline
from support.rows import write_rows

ROOT = Path(__file__).parent.parent
# A source distribution has no research.
HAS_RESEARCH = (ROOT / "research").is_dir()
RESEARCH = [*ROOT.glob("research/README.md"), *ROOT.glob("research/*/README.md")]
GUIDES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("skills/*/SKILL.md"), *RESEARCH]
    )
}
BLOCKS = [
    (guide, language, code)
    for guide, text in GUIDES.items()
    for language, code in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.S | re.M)
]
PACKAGE = ROOT / "narrative_twins"
DOCSTRINGS = [
    (path.relative_to(ROOT).as_posix(), textwrap.dedent(code))
    for path in sorted(PACKAGE.rglob("*.py"))
    for code in re.findall(r"^ *```python\n(.*?)^ *```$", path.read_text("utf-8"), re.S | re.M)
]
# Blocks that need a page that is served are in tests/app/test_server.py.
PYTHON = [
    (guide, code)
    for guide, language, code in BLOCKS
    if language == "python" and "gradio_client" not in code
]
COMMANDS = [
    (guide, line[2:])
    for guide, language, code in BLOCKS
    if language == "console"
    for line in code.splitlines()
    if line.startswith("$ ")
]


SHOWN_FILES = {
    "choices.json": ("docs/tutorial.md", "json"),
    "labels.csv": ("docs/your_annotations.md", "csv"),
}
"""Files that a guide shows: the guide, and the language of the block."""
SCORE = re.compile(r"(?:★ |  )?-?\b\d\.\d{3}\b(?: [▁▂▃▄▅▆▇█])?")


def assert_shown(printed: str, shown: str) -> None:
    """Compare printed with documented output; the last digits of scores may differ, as they depend
    on the machine."""
    lines, expected = (
        [SCORE.sub("score", line).rstrip() for line in output.rstrip().splitlines()]
        for output in (printed, shown)
    )
    assert lines == expected
    scores, expected = (
        [float(score.strip("★ ▁▂▃▄▅▆▇█")) for score in SCORE.findall(output)]
        for output in (printed, shown)
    )
    assert scores == pytest.approx(expected, abs=0.005)


def output_shown_after(guide: str, block: str) -> str | None:
    text = GUIDES[guide]
    found = re.match(r"```\n+```text\n(.*?)```", text[text.index(block) + len(block) :], re.S)
    return found[1] if found else None


def numbered(pairs):
    """Parameters of tests: those of the README are in the quick suite, the guides in the slow."""
    marks = {"README.md": ()}
    return [
        pytest.param(guide, code, id=f"{guide}-{n}", marks=marks.get(guide, pytest.mark.slow))
        for n, (guide, code) in enumerate(pairs)
    ]


@pytest.mark.parametrize(("guide", "code"), numbered(PYTHON))
def test_python_runs(guide, code, tmp_path, monkeypatch):
    """Run each block separately; if a text block follows, it is the expected output."""
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    # Operations that a block registers are removed afterwards.
    with contextlib.redirect_stdout(printed), patch.dict(narrative_twins.OPERATIONS):
        exec(compile(code, guide, "exec"), {"__name__": "guide"})
    expected = output_shown_after(guide, code)
    assert bool(expected) == bool(printed.getvalue()), "output must be shown in a text block"
    if expected:
        assert_shown(printed.getvalue(), expected)


@pytest.mark.parametrize(("module", "code"), numbered(DOCSTRINGS))
def test_examples_in_docstrings_run(module, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with patch.dict(narrative_twins.OPERATIONS):
        exec(compile(code, module, "exec"), {"__name__": "example"})


@pytest.fixture(scope="module")
def files(tmp_path_factory, bert_folder) -> Path:
    folder = tmp_path_factory.mktemp("guides")
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "book.txt").write_text(
        "Chapter 1\n\nNadia ran. It rained.\n\nChapter 2\n\nThe mill burned down.\n"
    )
    encoder = StoryEncoder.from_pretrained(bert_folder)
    book = score_book(folder / "book.txt", encoder, levels="sentence")
    (folder / "book.json").write_text(json.dumps(book.json()))
    (folder / "story.txt").write_text("Omar cleaned a window. A man cried. Omar wrote a word.")
    story = ["Nadia ran.", "It rained on.", "The mill burned down."]
    scores = {"deletion": [0.1, 0.3], "summarization": [0.9, 0.2]}
    scored = StorySalience(Story.parse("Nadia ran. It rained."), scores)
    work, twin = ([f"{n}. {text}" for n in range(1, 25)] for text in ("Nadia ran.", "She fled."))
    rows = {
        "labels": [{"story": story, "choices": [3, 3, 1]}] * 3,
        "works": [{"id": "W", "story": work, "twins": [twin]}],
        "stories": [{"text": "Nadia found a map of the old mill. It rained all night. She ran."}],
        "scores": [scored.json()],
        "twins": [{"story": ["Anna ran to Moscow."], "twin": ["Anna fled."]}],
    }
    (folder / "films.csv").write_text("title,plot,year,genre\nSalt,He ran. She fell.,1999,road\n")
    (folder / "sentences.csv").write_text(
        "story_id,sentence_id,text,label\na,2,He ran.,0\na,1,She fell.,1\n"
    )
    texts = ("The mill burned.", "Fire took it.", "It rained.")
    rows["twins_as_triples"] = [dict(zip(("anchor", "positive", "negative"), texts, strict=True))]
    columns = ("anchor_text", "text_a", "text_b", "text_a_is_closer")
    rows["dev_track_a"] = [dict(zip(columns, (*texts, True), strict=True))]
    for name, content in rows.items():
        write_rows(folder / f"{name}.jsonl", content)
    for name, place in SHOWN_FILES.items():
        code = next(code for guide, language, code in BLOCKS if (guide, language) == place)
        (folder / name).write_text(code)
    for run_of_training in ("roc", "salience-smoke"):
        shutil.copytree(bert_folder, folder / "runs" / run_of_training / "final")
    save_base(folder / "multilingual-e5-small")
    operation = next(code for _, code in PYTHON if "class Opening" in code)
    (folder / "opening.py").write_text(operation.partition("\n\n\n(result,)")[0])
    for name in ("my_pipeline", "en_core_web_sm"):
        save_pipeline(folder / name)
    return folder


@pytest.fixture
def folder(files, tmp_path, monkeypatch) -> Path:
    copy = shutil.copytree(files, tmp_path / "guides", symlinks=True)
    monkeypatch.chdir(copy)
    return copy


def of_command(*names: str):
    return numbered((guide, line) for guide, line in COMMANDS if line.startswith(names))


@pytest.mark.parametrize(("guide", "line"), of_command("narrative-twins "))
def test_commands_run(guide, line, folder, request, monkeypatch):
    """With a fake language model in place of the server that a command names."""
    if line.startswith("narrative-twins push"):
        request.getfixturevalue("hub")
    monkeypatch.setattr(sys, "path", sys.path.copy())
    with serving(Model()) as model, patch.dict(narrative_twins.OPERATIONS):
        address = line.replace("http://localhost:8000/v1", model.address)
        done = run(*shlex.split(address)[1:])
    sys.modules.pop("opening", None)
    assert done.code == 0, done.err
    if expected := output_shown_after(guide, f"$ {line}\n"):
        assert_shown(done.out, expected)


@pytest.mark.slow
def test_the_table_of_the_tutorial_is_that_of_its_command(folder):
    (line,) = (line for guide, line in COMMANDS if "--out evaluation" in line and "torial" in guide)
    assert run(*shlex.split(line)[1:]).code == 0
    table = Path("evaluation/table.md").read_text(encoding="utf-8").replace("*", "")
    rows = [re.split(r" *\| *", row) for row in table.splitlines()]
    figures = {row[1]: row[2:5:2] for row in rows if len(row) > 5}
    rows = re.findall(r"^\| (.+) \| ([\d.]+) \| ([\d.]+) \|$", GUIDES["docs/tutorial.md"], re.M)
    assert {name: [float(value) for value in values] for name, *values in rows} == {
        name: [pytest.approx(float(value), abs=0.002) for value in figures[name]]
        for name, *_ in rows
    }
    assert len(rows) == 5


@pytest.mark.parametrize(("guide", "line"), of_command("cat "))
@pytest.mark.slow
def test_the_installed_command_runs_in_a_pipe(guide, line, folder):
    """With the default encoder."""
    done = run_command("sh", "-c", line.replace("narrative-twins", shlex.quote(COMMAND)))
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["sentence"] for row in rows][1] == "A man cried."
    assert all(-1 <= float(row["summarization"]) <= 1 for row in rows)


@pytest.mark.parametrize(("guide", "line"), of_command("accelerate ", "torchrun "))
def test_training_scripts_and_configs_exist(guide, line):
    """Their runs are in tests/test_training_examples.py and research/tests."""
    files = [word for word in line.split() if word.startswith(("examples/", "research/"))]
    assert files
    for file in files:
        assert (ROOT / file).is_file() or (file.startswith("research/") and not HAS_RESEARCH)


def test_make_targets_exist():
    files = [ROOT / "Makefile", *ROOT.glob("research/targets.mk")]
    targets = set(re.findall(r"^([\w-]+):", "".join(map(Path.read_text, files)), re.M))
    named = {
        target for text in GUIDES.values() for target in re.findall(r"(?:`|\$ )make ([\w-]+)", text)
    }
    assert named and (named <= targets or not HAS_RESEARCH)


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a Markdown file, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("guide", GUIDES)
def test_links_lead_somewhere_and_lines_have_at_most_120_columns(guide):
    assert [line for line in GUIDES[guide].splitlines() if len(line) > 120] == []
    for target in re.findall(r"\]\((?!https?://)([^)]+)\)", GUIDES[guide]):
        file, _, anchor = target.partition("#")
        path = (ROOT / guide).parent / file if file else ROOT / guide
        assert path.exists(), target
        assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), target


def test_the_readme_names_all_guides():
    readme = GUIDES["README.md"]
    others = {"README.md", "CHANGELOG.md", *SKILLS, *OF_RESEARCH}
    assert all(f"({guide})" in readme for guide in GUIDES.keys() - others)


SKILLS = [guide for guide in GUIDES if guide.endswith("SKILL.md")]
OF_RESEARCH = [guide for guide in GUIDES if guide.startswith("research/")]


@pytest.mark.parametrize("guide", SKILLS)
def test_skills_have_the_front_matter_that_agents_read(guide):
    """Name and description as the format of agent skills has them; commands and code run as in
    guides, and the commands in the text exist."""
    _, front, body = re.split(r"^---$\n", GUIDES[guide], maxsplit=2, flags=re.M)
    data = yaml.safe_load(front)
    assert data.keys() == {"name", "description", "license"}
    assert data["name"] == Path(guide).parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", data["name"])
    assert 100 < len(data["description"]) <= 1024
    assert guide in GUIDES["docs/other_tools.md"]
    for line in re.findall(r"`(narrative-twins [\w -]+?)(?: [A-Z]+)?`", body):
        assert run(*line.split()[1:], "--help").code == 0, line


def test_tables_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import tables

    for table in tables.all_tables():
        assert "\n".join(table) in GUIDES["docs/speed.md"]


def test_public_names_are_documented():
    """That they have types is checked by mypy."""
    members = {name: getattr(narrative_twins, name) for name in narrative_twins.__all__}
    for path in PACKAGE.glob("*/__init__.py"):
        module = import_module(f"narrative_twins.{path.parent.name}")
        members |= {f"{module.__name__}.{name}": value for name, value in vars(module).items()}
    for name, value in list(members.items()):
        if inspect.isclass(value):
            members |= {f"{name}.{key}": member for key, member in vars(value).items()}
    kinds = (type, classmethod, property, FunctionType)
    public = {
        name: value
        for name, value in members.items()
        if isinstance(value, kinds) and "._" not in name and not name.startswith("_")
    }
    assert len(public) > 200
    assert [name for name, value in public.items() if not inspect.getdoc(value)] == []


def test_the_reference_has_a_page_for_each_public_name(monkeypatch):
    pytest.importorskip("mkdocs", reason="the site needs the extra [docs]")
    monkeypatch.syspath_prepend(ROOT / "release")
    import site_pages

    names = {name for name in narrative_twins.__all__ if name not in site_pages.SUBPACKAGES}
    assert set(site_pages.public_names(PACKAGE)) == names


def test_all_is_sorted_and_unknown_names_raise():
    assert narrative_twins.__all__ == sorted(narrative_twins.__all__)
    assert dir(narrative_twins) == narrative_twins.__all__, "also after everything is imported"
    with pytest.raises(AttributeError, match="attribute nothing"):
        narrative_twins.nothing  # noqa: B018


def test_the_changelog_and_the_citation_have_the_version():
    assert f"## {narrative_twins.__version__}" in GUIDES["CHANGELOG.md"]
    assert f"version: {narrative_twins.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"version={{{narrative_twins.__version__}}}" in GUIDES["README.md"]
