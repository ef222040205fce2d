"""Reports: complete pages, safe file names, working links, any text; interruptions and resuming."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins.commands.cli import main
from narrative_twins.plots.printable import one_line, shortened
from narrative_twins.show.report import Report

from support.processes import COMMAND, LIMIT, started, wait_until
from support.results import any_text, result_of, write_report


class Page(HTMLParser):
    """A parsed page: its elements, its links, and the texts of its elements by tag."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags, self.links, self.texts, self.open = [], [], {}, []
        text = path.read_text(encoding="utf-8")
        assert text.startswith("<!doctype html>") and text.endswith("</html>\n")
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "use", "path"):
            self.open.append(tag)
        self.texts.setdefault(tag, []).append("")
        if tag == "a":
            self.links.append(dict(attrs)["href"])

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        for tag in set(self.open):
            self.texts[tag][-1] += data


def pages_of(folder):
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def read(folder):
    """The pages of the stories, in the order of the index."""
    links = Page(folder / "index.html").links
    assert all((folder / link).is_file() for link in links)
    return [Page(folder / link) for link in links]


def test_reports_are_complete(tmp_path):
    results = [
        result_of([f"First of {i}.", "Second."], windows=2, name=f"story {i}") for i in range(4)
    ]
    write_report(tmp_path / "r", results)
    index = Page(tmp_path / "r" / "index.html")
    assert index.links == [f"stories/00000{i + 1}-story-{i}.html" for i in range(4)]
    assert pages_of(tmp_path / "r") == [
        "index.html",
        "report.jsonl",
        "report.jsonl.run",
        *index.links,
    ]
    assert sorted(tmp_path.iterdir()) == [tmp_path / "r"]
    for i, page in enumerate(read(tmp_path / "r")):
        assert page.texts["h1"] == [f"story {i}: 2 sentences, 2 windows"]
        assert [text for text in page.texts["td"] if text.endswith(".")] == [
            f"First of {i}.",
            "Second.",
        ]
        assert "svg" in page.texts and {"deletion", "summarization"} <= set(
            map(str.strip, page.texts["text"])
        )
        neighbours = [urljoin(index.links[i], link) for link in page.links]
        assert neighbours == [
            "index.html",
            *index.links[max(0, i - 1) : i],
            *index.links[i + 1 : i + 2],
        ]


def test_rows_of_the_index(tmp_path):
    result = result_of(["w" * 300 + ".", "Low.", "High."], cut_tokens=3)
    result.scores["summarization"][:] = [0.1, -1, 0.9]
    write_report(tmp_path / "r", [result])
    (name,), cells = (
        Page(tmp_path / "r" / "index.html").texts["bdi"][:1],
        Page(tmp_path / "r" / "index.html").texts["td"],
    )
    assert (name, cells) == ("story 1", ["1", "3", "w" * 89 + "…", "truncated", "High."])


@given(st.lists(st.tuples(any_text, any_text), min_size=1, max_size=4))
@settings(max_examples=12)
def test_any_text_is_shown_as_text(tmp_path_factory, rows):
    """It adds no elements to pages, and no files outside of the folder."""
    folder = tmp_path_factory.mktemp("report") / "r"
    write_report(folder, [result_of([text, "Plain."], name=name) for name, text in rows])
    plain = folder.parent / "plain"
    write_report(plain, [result_of(["x", "Plain."], name="x") for _ in rows])
    index, other = Page(folder / "index.html"), Page(plain / "index.html")
    assert [tag for tag, _ in index.tags] == [tag for tag, _ in other.tags]
    assert index.texts["bdi"][1::3] == [shortened(text, 90) for _, text in rows]
    assert len(pages_of(folder)) == len(rows) + 3
    for (name, text), page, other in zip(rows, read(folder), read(plain), strict=True):
        assert [tag for tag, _ in page.tags] == [tag for tag, _ in other.tags]
        assert page.texts["bdi"] == [one_line(name) or "story 1"]
        assert page.texts["title"] == [shortened(page.texts["bdi"][0], 120)]
        assert page.texts["td"][3] == one_line(text)
    assert {path.name for path in folder.parent.iterdir()} == {"r", "plain"}


@pytest.mark.parametrize(
    "names",
    [
        [
            "../../etc/passwd",
            "/etc/passwd",
            "..",
            ".",
            "a/b",
            "a\\b",
            "C:\\x",
            "\x00",
            "a\x00b",
            "\ud83d",
            "",
        ],
        ["n" * 5000, "N" * 5000, "İ" * 5000, "東" * 5000, "e\u0301" * 5000],
        ["same", "same", "SAME", "Same", None, None, 7, 7],
        ["con", "NUL", "aux.txt", "a:b", "a?b*", " ", "trailing. ", "-rf", "~", "$HOME", "%2e%2e"],
    ],
)
def test_file_names_are_safe(tmp_path, names):
    write_report(tmp_path / "r", [result_of(["A.", "B."], name=name) for name in names])
    files = os.listdir(tmp_path / "r" / "stories")
    assert len({name.lower() for name in files}) == len(names)
    assert all(re.fullmatch(r"\d{6}(-[a-z0-9][a-z0-9-]{0,39})?\.html", name) for name in files)
    assert os.listdir(tmp_path) == ["r"]
    assert len(read(tmp_path / "r")) == len(names)


def test_pages_are_written_as_results_arrive(tmp_path):
    """Only the last story is held in memory, until its page can link to the next."""
    (tmp_path / "r.part").mkdir()
    seen = []

    def results():
        for i in range(5):
            seen.append(len(list((tmp_path / "r.part" / "stories").iterdir())))
            assert not (tmp_path / "r").exists()
            yield result_of(["A."], name=i)

    write_report(tmp_path / "r", results())
    assert seen == [0, 0, 1, 2, 3]


def test_a_report_replaces_only_an_earlier_report(tmp_path):
    folder = tmp_path / "r"
    write_report(folder, [result_of(["A."], name=i) for i in range(5)])
    (folder / "notes.txt").write_text("mine")
    (folder / "stories" / "mine.html").write_text("mine")
    write_report(folder, [result_of(["B."], name="new")])
    assert pages_of(folder) == sorted(
        [
            "index.html",
            "notes.txt",
            "report.jsonl",
            "report.jsonl.run",
            "stories/000001-new.html",
            "stories/mine.html",
        ]
    )
    assert os.listdir(tmp_path) == ["r"]
    other = tmp_path / "other"
    other.mkdir()
    write_report(other, [])
    assert "0 stories" in (other / "index.html").read_text()


def test_invalid_folders_are_refused_before_anything_is_written(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.docx").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "r.part").mkdir()
    (tmp_path / "r.part" / "report.jsonl.part").write_text('{"kind": "other"}\n')
    for name, kind, problem in (
        ("full", ValueError, "contains other files than a report; name a new or an empty folder"),
        ("file", NotADirectoryError, "is a file; a report is a folder"),
        ("no/where", FileNotFoundError, "create it first"),
        ("r", ValueError, "r.part contains other files"),
    ):
        with pytest.raises(kind, match=problem):
            Report(str(tmp_path / name))
    assert pages_of(tmp_path) == ["file", "full/thesis.docx", "r.part/report.jsonl.part"]


def test_a_damaged_list_deletes_no_other_files(tmp_path):
    write_report(tmp_path / "r", [result_of(["A."])])
    (tmp_path / "mine.html").write_text("mine")
    lines = (tmp_path / "r" / "report.jsonl").read_text().splitlines()
    row = json.loads(lines[0]) | {"page": "../../mine.html"}
    (tmp_path / "r" / "report.jsonl").write_text(f"{json.dumps(row)}\n")
    with pytest.raises(ValueError, match=r"line 1 is not of a report"):
        write_report(tmp_path / "r", [result_of(["B."])])
    assert (tmp_path / "mine.html").read_text() == "mine"


def interrupt(folder, results, after, kind=KeyboardInterrupt):
    def interrupted():
        yield from results[:after]
        raise kind

    with pytest.raises(kind):
        write_report(folder, interrupted(), {"operations": ["deletion"]})


@pytest.mark.parametrize("after", [1, 2, 4])
def test_resuming_a_report(tmp_path, after):
    results = [result_of(["A.", "B."], name=f"s{i}", seed=i) for i in range(4)]
    write_report(tmp_path / "complete", results, {"operations": ["deletion"]})
    folder = tmp_path / "r"
    interrupt(folder, results, after)
    assert not folder.exists()
    if after > 1:
        with pytest.raises(
            ValueError,
            match=f"has {after - 1} pages of an interrupted report; resume it, or remove it",
        ):
            Report(str(folder))
    report = Report(str(folder), resume=True)
    with (
        pytest.raises(ValueError, match="started with operations")
        if after > 1
        else pytest.raises(KeyError)
    ):
        report.begin({"operations": ["shifting"]})
        raise KeyError
    report = Report(str(folder), resume=True)
    done = report.begin({"operations": ["deletion"]})
    assert len(done) == after - 1
    with report:
        for result in results[after - 1 :]:
            report.add(result)
    assert pages_of(folder) == pages_of(tmp_path / "complete")
    for name in pages_of(folder):
        assert (folder / name).read_bytes() == (tmp_path / "complete" / name).read_bytes()


def test_resuming_with_other_stories_is_refused(tmp_path):
    results = [result_of(["A."], name=f"s{i}") for i in range(4)]
    interrupt(tmp_path / "r", results, 3)
    for others in ([result_of(["A."], name="other")], []):
        report = Report(str(tmp_path / "r"), resume=True)
        report.begin({"operations": ["deletion"]})
        with (
            pytest.raises(ValueError, match="the stories differ from those it was started with"),
            report,
        ):
            for result in others:
                report.add(result)
    assert (
        len(list((tmp_path / "r.part" / "stories").iterdir())) == 2
        and not (tmp_path / "r").exists()
    )


def test_an_earlier_report_stays_until_the_new_report_is_complete(tmp_path):
    write_report(tmp_path / "r", [result_of(["Old."], name="old")])
    before = {name: (tmp_path / "r" / name).read_bytes() for name in pages_of(tmp_path / "r")}
    interrupt(tmp_path / "r", [result_of(["New."], name="new")] * 3, 2)
    assert {
        name: (tmp_path / "r" / name).read_bytes() for name in pages_of(tmp_path / "r")
    } == before


def test_without_matplotlib_pages_say_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report = write_report(tmp_path / "r", [result_of(["A.", "B."])])
    (page,) = read(tmp_path / "r")
    assert "svg" not in page.texts and page.texts["p"][0].startswith(
        "No curves: plots need matplotlib: pip install"
    )
    assert "pip install" in report.no_curves


def test_pages_load_no_external_resources(tmp_path):
    write_report(tmp_path / "r", [result_of(["A.", "B."], name=i) for i in range(2)])
    for path in (tmp_path / "r").rglob("*.html"):
        page, text = Page(path), path.read_text()
        assert not {"link", "img", "iframe", "object", "base", "form"} & {
            tag for tag, _ in page.tags
        }
        assert set(re.findall(r"\w+://[^\"]*", text)) <= {
            "http://www.w3.org/2000/svg",
            "http://www.w3.org/1999/xlink",
        }
        assert "default-src 'none'" in html.unescape(text)
        assert ("script" in page.texts) == (path.name == "index.html")


@pytest.fixture
def run(bert_folder, capsys):
    def call(*arguments):
        code = main(["report", "--model", bert_folder, "--device", "cpu", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


def stories(path, count, start=0):
    rows = [
        {"id": f"s{i}", "text": f"In {i} the mill burned. Nadia ran."}
        for i in range(start, start + count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_command(run, tmp_path):
    source = stories(tmp_path / "in.jsonl", 3)
    source.write_text(source.read_text() + '""\n"No name. It rained."\n')
    code, out, err = run(
        source, "--out", tmp_path / "r", "--operations", "deletion,summarization", "--top", "1"
    )
    assert (
        (code, out) == (1, "")
        and "line 4: the story is empty" in err
        and "r/index.html has 4 stories" in err
    )
    assert "1 more could not be scored" in (tmp_path / "r" / "index.html").read_text()
    pages = read(tmp_path / "r")
    assert [page.texts["bdi"][0] for page in pages] == ["s0", "s1", "s2", "story 5"], (
        "position in the input"
    )
    assert all(len(page.texts["tr"]) == 2 for page in pages)


def test_the_command_refuses_early(run, tmp_path, capsys):
    source = stories(tmp_path / "in.jsonl", 1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    code, _, err = run(source, "--out", tmp_path / "full", "--model", "/nowhere")
    assert code == 1 and "contains other files than a report" in err
    for arguments in ([source], [source, "--out", "-"]):
        with pytest.raises(SystemExit) as stop:
            run(*arguments)
        assert stop.value.code == 2
    code, _, err = run(tmp_path / "none.txt", "--out", tmp_path / "r")
    assert code == 1 and (tmp_path / "r" / "index.html").exists()


def test_ctrl_c_and_resuming(bert_folder, tmp_path, run):
    source, folder = stories(tmp_path / "in.jsonl", 300), tmp_path / "r"
    arguments = [str(source), "--out", str(folder), "--operations", "summarization"]
    command = (
        COMMAND,
        "report",
        "--model",
        bert_folder,
        "--device",
        "cpu",
        *arguments,
        "--batch-size",
        "1",
    )
    pages = tmp_path / "r.part" / "stories"
    with started(*command, stderr=subprocess.PIPE) as process:
        wait_until(lambda: pages.exists() and len(list(pages.iterdir())) > 5, process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and "Traceback" not in err
    assert "the pages so far are in" in err and "continue with --resume" in err
    assert not folder.exists() and not list(pages.glob("*.part"))
    listed = (tmp_path / "r.part" / "report.jsonl.part").read_text()
    assert listed.endswith("\n") and 5 <= listed.count("\n") <= len(list(pages.iterdir()))
    # Resumed with fewer stories, to save time.
    source.write_text(
        "".join(source.read_text().splitlines(keepends=True)[: listed.count("\n") + 4])
    )
    code, _, err = run(*arguments, "--resume")
    assert code == 0, err
    assert [page.texts["bdi"][0] for page in read(folder)] == [
        f"s{i}" for i in range(listed.count("\n") + 4)
    ]
    assert not (tmp_path / "r.part").exists()


def test_resuming_with_other_options_is_refused(run, tmp_path):
    source = stories(tmp_path / "in.jsonl", 3)
    run(source, "--out", tmp_path / "complete", "--operations", "deletion")
    (tmp_path / "r.part" / "stories").mkdir(parents=True)
    lines = (tmp_path / "complete" / "report.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "r.part" / "report.jsonl.part").write_text(lines[0])
    shutil.copy(
        tmp_path / "complete" / "report.jsonl.run", tmp_path / "r.part" / "report.jsonl.part.run"
    )
    for options, difference in (
        (["--top", "1"], "top null (now 1)"),
        ([], 'operations ["deletion"] (now'),
    ):
        code, _, err = run(source, "--out", tmp_path / "r", "--resume", *options)
        assert code == 2 and difference in err and "use the same options" in err
    assert (tmp_path / "r.part" / "report.jsonl.part").read_text() == lines[0]


def test_resuming_keeps_numbers_and_equal_stories(run, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('"Nadia ran."\n' * 3 + '""\n' + '"Nadia ran."\n"He left."\n')
    run(source, "--out", tmp_path / "complete")
    Path(tmp_path / "r.part").mkdir()
    lines = (tmp_path / "complete" / "report.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "r.part" / "report.jsonl.part").write_text("".join(lines[:2]) + lines[2][:30])
    shutil.copy(
        tmp_path / "complete" / "report.jsonl.run", tmp_path / "r.part" / "report.jsonl.part.run"
    )
    (tmp_path / "r.part" / "stories").mkdir()
    for name in ("000001.html", "000002.html"):
        (tmp_path / "r.part" / "stories" / name).write_bytes(
            (tmp_path / "complete" / "stories" / name).read_bytes()
        )
    assert run(source, "--out", tmp_path / "r", "--resume")[0] == 1
    assert pages_of(tmp_path / "r") == pages_of(tmp_path / "complete")
    assert [page.texts["bdi"][0] for page in read(tmp_path / "r")] == [
        f"story {i}" for i in (1, 2, 3, 5, 6)
    ]


def test_second_report_in_the_same_folder_is_refused(run, tmp_path):
    """Also before the first page is complete."""
    source = stories(tmp_path / "in.jsonl", 2)
    report = Report(str(tmp_path / "r"))
    report.begin({})
    with report:
        code, _, err = run(source, "--out", tmp_path / "r")
        assert code == 1 and "r.part is being written by another run" in err
        assert (tmp_path / "r.part" / "stories").is_dir()


def test_stories_of_the_folder_are_not_read(run, tmp_path, capsys):
    (tmp_path / "r.part").mkdir()
    source = stories(tmp_path / "r.part" / "in.jsonl", 2)
    with pytest.raises(SystemExit, match="2"):
        run(source, "--out", tmp_path / "r")
    assert source.exists() and "is in --out" in capsys.readouterr().err
