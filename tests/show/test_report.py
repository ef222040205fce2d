"""Reports: complete pages, safe file names, working links, any text; nothing of the user's lost."""

from __future__ import annotations

import html
import json
import os
import re
import sys
from urllib.parse import urljoin

import pytest

from narrative_twins.commands.cli import main
from narrative_twins.plots.style import one_line, shortened
from narrative_twins.show import report as reports
from narrative_twins.show.report import Report

from support.parsed import Parsed
from support.results import NASTY, result_of, write_report


def files_in(folder):
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def read(folder):
    """The pages of the stories, in the order of the index."""
    return [Parsed(folder / link) for link in Parsed(folder / "index.html").links]


@pytest.fixture
def no_curves(monkeypatch):
    monkeypatch.setattr(reports, "_curves", lambda result: "<svg></svg>")


def test_reports_are_complete_and_load_nothing(tmp_path):
    results = [
        result_of([f"First of {i}.", "Second."], windows=2, name=f"story {i}") for i in range(3)
    ]
    write_report(tmp_path / "r", results)
    index = Parsed(tmp_path / "r" / "index.html")
    assert index.links == [f"stories/00000{i + 1}-story-{i}.html" for i in range(3)]
    assert files_in(tmp_path / "r") == ["index.html", "scores.jsonl", *index.links]
    assert os.listdir(tmp_path) == ["r"]
    saved = (tmp_path / "r" / "scores.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in saved] == [result.to_dict() for result in results]
    for i, page in enumerate(read(tmp_path / "r")):
        assert page.texts["h1"] == [f"story {i}: 2 sentences, 2 windows"]
        sentences = [text for text in page.texts["td"] if text.endswith(".")]
        assert sentences == [f"First of {i}.", "Second."]
        assert {"deletion", "summarization"} <= set(map(str.strip, page.texts["text"]))
        neighbours = [*index.links[max(0, i - 1) : i], *index.links[i + 1 : i + 2]]
        assert [urljoin(index.links[i], link) for link in page.links] == ["index.html", *neighbours]
    external = {"link", "img", "iframe", "object", "base", "form"}
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    for path in (tmp_path / "r").rglob("*.html"):
        page, text = Parsed(path), path.read_text()
        assert not external & set(page.tags)
        assert set(re.findall(r"\w+://[^\"]*", text)) <= namespaces
        assert "default-src 'none'" in html.unescape(text)
        assert ("script" in page.texts) == (path.name == "index.html")


def test_rows_of_the_index(tmp_path, no_curves):
    result = result_of(["w" * 300 + ".", "Low.", "High."], cut_tokens=3)
    result.scores["summarization"][:] = [0.1, -1, 0.9]
    write_report(tmp_path / "r", [result])
    index = Parsed(tmp_path / "r" / "index.html")
    assert index.texts["bdi"][:1] == ["story 1"]
    assert index.texts["td"] == ["1", "3", "w" * 89 + "…", "truncated", "High."]


def test_any_text_is_shown_as_text(tmp_path):
    """It adds no elements to pages, and no files outside of the folder."""
    rows = list(zip(NASTY, reversed(NASTY), strict=True))[::2]
    folder, plain = tmp_path / "r", tmp_path / "plain"
    write_report(folder, [result_of([text, "Plain."], name=name) for name, text in rows])
    write_report(plain, [result_of(["x", "Plain."], name="x") for _ in rows])
    index = Parsed(folder / "index.html")
    assert index.tags == Parsed(plain / "index.html").tags
    assert index.texts["bdi"][1::3] == [shortened(text, 90) for _, text in rows]
    for (name, text), page, other in zip(rows, read(folder), read(plain), strict=True):
        assert page.tags == other.tags
        assert page.texts["bdi"] == [one_line(name)]
        assert page.texts["title"] == [shortened(one_line(name), 120)]
        assert page.texts["td"][3] == one_line(text)
    assert set(os.listdir(tmp_path)) == {"r", "plain"}


NAMES = ["../../etc/passwd", "/etc/passwd", "..", "a/b", "a\\b", "C:\\x", "\x00", "\ud83d", ""]
NAMES += ["n" * 5000, "N" * 5000, "東" * 5000, "e\u0301" * 5000, "same", "SAME", None, None, 7, 7]
NAMES += ["con", "NUL", "aux.txt", "a:b", "a?b*", " ", "trailing. ", "-rf", "~", "$HOME", "%2e"]


def test_file_names_are_safe(tmp_path, no_curves):
    write_report(tmp_path / "r", [result_of(["A.", "B."], name=name) for name in NAMES])
    files = os.listdir(tmp_path / "r" / "stories")
    assert len({name.lower() for name in files}) == len(NAMES) == len(read(tmp_path / "r"))
    assert all(re.fullmatch(r"\d{6}(-[a-z0-9][a-z0-9-]{0,39})?\.html", name) for name in files)


def test_pages_are_written_as_results_arrive_and_appear_together(tmp_path, no_curves):
    """Only the last story is held in memory, until its page can link to the next. An earlier
    report is replaced when the new one is complete."""
    folder, seen = tmp_path / "r", []

    def results(count):
        for i in range(count):
            seen.append(len(list(tmp_path.glob("r.part-*/new/stories/*"))))
            yield result_of(["A."], name=i)
        if count == 2:
            raise KeyboardInterrupt

    write_report(folder, results(4))
    before = files_in(folder)
    assert seen == [0, 0, 1, 2] and len(before) == 6
    with pytest.raises(KeyboardInterrupt):
        write_report(folder, results(2))
    assert files_in(folder) == before and os.listdir(tmp_path) == ["r"]
    write_report(folder, [result_of(["B."], name="new")])
    assert files_in(folder) == ["index.html", "scores.jsonl", "stories/000001-new.html"]
    write_report(folder, [])
    assert "0 stories" in (folder / "index.html").read_text()
    assert os.listdir(tmp_path) == ["r"]


def test_folders_with_other_files_are_refused_before_anything_is_written(tmp_path, no_curves):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.docx").write_text("mine")
    (tmp_path / "file").write_text("mine")
    write_report(tmp_path / "stories", [result_of(["A."])])
    (tmp_path / "stories" / "stories" / "mine.html").write_text("mine")
    before = files_in(tmp_path)
    for name, kind, problem in (
        ("full", ValueError, "contains other files than a report; name a new or an empty folder"),
        ("stories", ValueError, "contains other files"),
        ("file", NotADirectoryError, "is a file; a report is a folder"),
        ("no/where", FileNotFoundError, "create it first"),
    ):
        with pytest.raises(kind, match=problem):
            Report(tmp_path / name)
    assert files_in(tmp_path) == before


def test_without_matplotlib_pages_say_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report = write_report(tmp_path / "r", [result_of(["A.", "B."])])
    (page,) = read(tmp_path / "r")
    words = "No curves: plots need matplotlib: pip install"
    assert "svg" not in page.texts and page.texts["p"][0].startswith(words)
    assert "pip install" in report.no_curves


@pytest.fixture
def run(bert_folder, capsys):
    def call(*arguments):
        code = main(["report", "--model", bert_folder, "--device", "cpu", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


def test_the_command(run, tmp_path):
    source = tmp_path / "in.jsonl"
    rows = [{"id": f"s{i}", "text": f"In {i} the mill burned. Nadia ran."} for i in range(2)]
    source.write_text("\n".join(map(json.dumps, [*rows, "", "No name. It rained."])))
    code, out, err = run(source, "--out", tmp_path / "r", "--operations", "deletion", "--top", "1")
    assert (code, out) == (1, "") and "line 3: the story is empty" in err
    assert "r/index.html has 3 stories" in err
    assert "1 more could not be scored" in (tmp_path / "r" / "index.html").read_text()
    pages = read(tmp_path / "r")
    names = [page.texts["bdi"][0] for page in pages]
    assert names == ["s0", "s1", "story 4"], "the position in the input"
    assert all(len(page.texts["tr"]) == 2 for page in pages)


def test_the_command_refuses_before_it_loads_the_encoder(run, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "in.txt").write_text("Nadia ran.")
    code, _, err = run(tmp_path / "a.txt", "--out", tmp_path / "full", "--model", "/nowhere")
    assert code == 1 and "contains other files than a report" in err
    source = tmp_path / "full" / "in.txt"
    for arguments in ([source], [source, "--out", "-"], [source, "--out", tmp_path / "full"]):
        with pytest.raises(SystemExit, match="2"):
            run(*arguments)
