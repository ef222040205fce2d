"""`narrative-twins score`: formats, errors, resuming and interruptions."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from transformers.utils import logging as transformers_logging

from narrative_twins import OPERATIONS, score_stories
from narrative_twins.commands.cli import main
from narrative_twins.commands.story_input import StoryInput
from narrative_twins.files import AtomicFile

from support.books import WRITERS, WrittenChapter
from support.processes import COMMAND, LIMIT, run_command, started, wait_until

OMAR = (
    "Omar cleaned the windows of a tower. A man cried at his desk. Omar wrote a word in the foam."
)


@pytest.fixture
def run(bert_folder, capsys):
    """Runs the command in this process with a small encoder; returns its exit code, stdout and
    stderr."""

    def call(*arguments, model=bert_folder):
        code = main(["score", "--model", model, "--device", "cpu", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "omar.txt"
    path.write_text(OMAR)
    return path


@pytest.fixture
def stories(tmp_path):
    path = tmp_path / "stories.jsonl"
    rows = [
        {"id": "a", "text": OMAR},
        {"id": "b", "sentences": ["Nadia ran.", "It rained."], "windows": 2},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_installed_command(story):
    """With the default encoder, in a process of its own."""
    done = run_command(COMMAND, "score", story)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in OPERATIONS)
    assert "omar" not in done.stderr
    for sentence in ("Omar cleaned the windows", "A man cried", "Omar wrote a word"):
        assert sentence in done.stdout
    assert "★" in done.stdout


def test_standard_input(bert_folder):
    done = run_command(
        COMMAND, "score", "--model", bert_folder, "--format", "jsonl", "-", input=OMAR
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["sentences"]) == 3
    assert done.stderr == ""


def test_jsonl_has_the_results_of_the_engine(run, stories, bert_folder):
    code, out, _ = run(stories, "-f", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    expected = [
        result.to_dict()
        for result in score_stories(map(json.loads, stories.read_text().splitlines()), bert_folder)
    ]
    assert code == 0
    for row, other in zip(rows, expected, strict=True):
        assert {**row, "scores": None} == {**other, "scores": None}
        for name, scores in other["scores"].items():
            assert row["scores"][name] == pytest.approx(scores, abs=1e-5)
    code, out, _ = run(stories, "-f", "json")
    assert json.loads(out) == rows


def test_csv(run, stories):
    code, out, _ = run(stories, "-f", "csv", "--operations", "summarization,deletion")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0]) == [
        "story",
        "index",
        "window",
        "start",
        "end",
        "sentence",
        "summarization",
        "deletion",
    ]
    assert [(row["story"], row["index"], row["window"]) for row in rows] == [
        ("a", "0", "0"),
        ("a", "1", "0"),
        ("a", "2", "0"),
        ("b", "0", "0"),
        ("b", "1", "1"),
    ]
    assert OMAR[int(rows[1]["start"]) : int(rows[1]["end"])] == rows[1]["sentence"]
    assert float(rows[1]["deletion"]) != 0


def test_html_to_a_file(run, story, tmp_path):
    page = tmp_path / "page.html"
    code, out, _ = run(story, "-f", "html", "-o", page)
    assert (code, out) == (0, "")
    assert page.read_text().count("<tr><td>") == 3
    assert page.read_text().endswith("</html>\n")


@pytest.mark.parametrize("name", ["book2.epub", "book.docx", "book.html"])
def test_books_are_stories_without_their_headings(run, tmp_path, name):
    chapters = [
        WrittenChapter("The Tower", ["Omar cleaned a window.", "A man cried."], []),
        WrittenChapter("Home", ["So."], []),
    ]
    (tmp_path / name).write_bytes(WRITERS[name]("Omar", chapters))
    code, out, _ = run(tmp_path / name, "--format", "json")
    assert code == 0 and json.loads(out)[0]["sentences"] == [
        "Omar cleaned a window.",
        "A man cried.",
        "So.",
    ]
    (tmp_path / name).write_bytes(b"\0\1")
    code, _, err = run(tmp_path / name, "--format", "json")
    assert code == 1 and f"narrative-twins: {tmp_path / name}: " in err


def test_windows_operations_and_top(run, story):
    _, out, _ = run(
        story, "-f", "jsonl", "--windows", "2,1", "--operations", "deletion", "--top", "2"
    )
    row = json.loads(out)
    assert row["windows"] == [[0, 2], [2, 3]]
    assert list(row["scores"]) == ["deletion"]
    assert [sentence["score"] for sentence in row["top"]] == sorted(
        row["scores"]["deletion"], reverse=True
    )[:2]
    assert json.loads(run(story, "-f", "jsonl", "--windows", "3")[1])["windows"] == [
        [0, 1],
        [1, 2],
        [2, 3],
    ]
    _, out, _ = run(story, "--top", "1")
    assert sum(text in out for text in OMAR.split(". ")) == 1


def test_stories_of_several_files_are_named_by_their_files(run, story, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("Nadia ran. It rained.")
    _, out, _ = run(story, other, "-f", "jsonl")
    assert [json.loads(line)["id"] for line in out.splitlines()] == [str(story), str(other)]


def test_invalid_stories_are_reported_and_skipped(run, story, tmp_path):
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_bytes(
        b'{"text": "Nadia ran. It rained."}\n{"text": \n{"text": ""}\n\xff\xfe\n{"sentences": ["A'
        b' b.", 3]}\n{"sentences": ["Nadia ran.", "\\u0301"]}\n{"text": "Omar left. It snowed."}\n'
    )
    code, out, err = run(tmp_path / "missing.txt", mixed, story, "-f", "jsonl")
    assert code == 1
    assert [json.loads(line)["sentences"][0] for line in out.splitlines()] == [
        "Nadia ran.",
        "Omar left.",
        "Omar cleaned the windows of a tower.",
    ]
    problems = err.splitlines()
    assert len(problems) == 6
    for expected in (
        "missing.txt: can't be read (No such file",
        "mixed.jsonl, line 2: is not valid JSON",
        "mixed.jsonl, line 3: the story is empty",
        "mixed.jsonl, line 4: is not UTF-8",
        "mixed.jsonl, line 5: sentence 1 is int, not text",
        "mixed.jsonl, line 6: sentence 1",
    ):
        assert any(expected in problem for problem in problems), expected


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--operations", "erasure"], "unknown operation 'erasure'"),
        (["--windows", "five"], "'five' is neither auto"),
        (["--top", "0"], "'0' is not an integer of 1 or more"),
        (["--format", "xml"], "invalid choice: 'xml'"),
        (["--resume"], "--resume needs"),
        (["--out", "omar.txt"], "would be overwritten by --out omar.txt"),
        (
            ["--out", "omar.html", "--format", "csv"],
            "--out omar.html is named as html, but --format is csv",
        ),
        (
            ["--out", "omar.json", "--format", "text"],
            "--out omar.json is named as json, but --format is text",
        ),
        (["--split", "words"], "invalid choice: 'words'"),
    ],
)
def test_invalid_options(run, story, capsys, monkeypatch, arguments, problem):
    monkeypatch.chdir(story.parent)
    with pytest.raises(SystemExit) as stop:
        run(story, *arguments)
    assert stop.value.code == 2
    assert problem in capsys.readouterr().err


def test_a_missing_encoder(run, story, tmp_path):
    code, out, err = run(story, model=str(tmp_path / "nothing"))
    assert (code, out) == (1, "")
    assert "nothing' can't be loaded (no folder of this name" in err


@pytest.fixture
def interrupted(run, monkeypatch):
    """Runs the command, with Ctrl-C after some results."""

    def call(after, *arguments):
        engine = score_stories

        def interrupted_engine(*args, **options):
            for number, result in enumerate(engine(*args, **options)):
                if number == after:
                    raise KeyboardInterrupt
                yield result

        with monkeypatch.context() as patched:
            patched.setattr("narrative_twins.commands.inputs.score_stories", interrupted_engine)
            assert run(*arguments)[0] == 130

    return call


def numbered(path, numbers):
    """Write a file of stories with numbers as ids."""
    lines = [
        json.dumps({"id": i, "text": f"In {i} the mill burned. Nadia ran."}) + "\n" for i in numbers
    ]
    path.write_text("".join(lines))
    return path


def ids_of(path):
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_resuming_scores_only_missing_stories(run, interrupted, tmp_path, monkeypatch):
    source, out = numbered(tmp_path / "in.jsonl", range(6)), tmp_path / "out.jsonl"
    assert run(source, "-f", "jsonl", "-o", tmp_path / "complete.jsonl")[0] == 0
    interrupted(3, source, "-f", "jsonl", "-o", out)
    # A line that was cut off, by a power failure for example.
    with open(tmp_path / "out.jsonl.part", "a") as part:
        part.write('{"id": 3, "senten')
    scored = []
    engine = score_stories
    monkeypatch.setattr(
        "narrative_twins.commands.inputs.score_stories",
        lambda *a, **k: (scored.append(r.story.id) or r for r in engine(*a, **k)),
    )
    assert run(source, "-f", "jsonl", "-o", out, "--resume")[0] == 0
    assert scored == [3, 4, 5]
    assert out.read_text() == (tmp_path / "complete.jsonl").read_text()


@pytest.mark.parametrize(
    ("arguments", "difference"),
    [
        (["--operations", "deletion"], '"summarization"] (now ["deletion"])'),
        (["--context-tokens", "20"], "context tokens 512 (now 20)"),
        (["--windows", "2"], 'windows "auto" (now 2)'),
        (["--dtype", "bfloat16"], '"float32" (now "bfloat16")'),
        (["--top", "1"], "top null (now 1)"),
        (["--max-shifts", "1"], "max shifts null (now 1)"),
    ],
)
def test_resuming_with_other_options_is_refused(run, interrupted, tmp_path, arguments, difference):
    source, out = numbered(tmp_path / "in.jsonl", range(3)), tmp_path / "out.jsonl"
    options = ["-f", "jsonl", "-o", out, "--dtype", "float32"]
    interrupted(1, source, *options)
    kept = (tmp_path / "out.jsonl.part").read_text()
    code, _, err = run(source, *options, "--resume", *arguments)
    assert code == 2 and difference in err and "use the same options" in err
    assert (tmp_path / "out.jsonl.part").read_text() == kept and not out.exists()


def test_resuming_with_another_encoder_is_refused(run, interrupted, tmp_path, bert_folder):
    """Even if its folder has the same name."""
    source, out = numbered(tmp_path / "in.jsonl", range(3)), tmp_path / "out.jsonl"
    other = tmp_path / "other" / Path(bert_folder).name
    shutil.copytree(bert_folder, other)
    (weights,) = other.glob("*.safetensors")
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    interrupted(1, source, "-f", "jsonl", "-o", out)
    code, _, err = run(source, "-f", "jsonl", "-o", out, "--resume", model=str(other))
    assert code == 2 and "model fingerprint" in err


@pytest.mark.parametrize(
    "numbers", [[5, 6, 7], [9, 0, 1, 2, 3], [0, 2, 3]], ids=["others", "another before", "fewer"]
)
@pytest.mark.parametrize("finished", [False, True])
def test_resuming_with_other_stories_is_refused(run, interrupted, tmp_path, numbers, finished):
    source, out = numbered(tmp_path / "in.jsonl", range(4)), tmp_path / "out.jsonl"
    if finished:
        run(source, "-f", "jsonl", "-o", out)
    else:
        interrupted(2, source, "-f", "jsonl", "-o", out)
    before = {path.name: path.read_text() for path in tmp_path.glob("out*")}
    numbered(source, numbers)
    code, _, err = run(source, "-f", "jsonl", "-o", out, "--resume")
    assert code == 2 and "use the same input" in err
    assert {path.name: path.read_text() for path in tmp_path.glob("out*")} == before


def test_resuming_with_more_stories(run, tmp_path):
    source, out = numbered(tmp_path / "in.jsonl", range(2)), tmp_path / "out.jsonl"
    run(source, "-f", "jsonl", "-o", out)
    numbered(source, range(4))
    assert run(source, "-f", "jsonl", "-o", out, "--resume")[0] == 0
    assert ids_of(out) == [0, 1, 2, 3]


def test_resuming_reports_invalid_stories_again(run, interrupted, tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(
        '{"id": 0, "text": "Nadia ran."}\n{"text": ""}\n"\u0301"\n{"id": 3, "text": "It rained."}\n'
    )
    interrupted(1, source, "-f", "jsonl", "-o", out)
    code, _, err = run(source, "-f", "jsonl", "-o", out, "--resume")
    assert code == 1 and err.count("in.jsonl, line") == 2
    assert ids_of(out) == [0, 3]
    code, _, err = run(source, "-f", "jsonl", "-o", out, "--resume")
    assert code == 1 and err.count("in.jsonl, line") == 2
    assert ids_of(out) == [0, 3]


def test_resuming_another_file_is_refused(run, story, tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text('{"an": "other"}\nhalf a line')
    code, _, err = run(story, "-f", "jsonl", "-o", out, "--resume")
    assert code == 2 and "settings" in err and "missing" in err
    run(story, "-f", "jsonl", "-o", tmp_path / "real.jsonl")
    shutil.copy(tmp_path / "real.jsonl.run", tmp_path / "out.jsonl.run")
    code, _, err = run(story, "-f", "jsonl", "-o", out, "--resume")
    assert code == 2 and "line 1 is not a result of this command" in err
    assert out.read_text() == '{"an": "other"}\nhalf a line'


def test_resuming_keeps_equal_stories(run, interrupted, tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('"Nadia ran. It rained."\n' * 2 + '"The mill burned."\n')
    interrupted(1, source, "-f", "jsonl", "-o", out)
    assert run(source, "-f", "jsonl", "-o", out, "--resume")[0] == 0
    sentences = [json.loads(line)["sentences"] for line in out.read_text().splitlines()]
    assert sentences == [["Nadia ran.", "It rained."]] * 2 + [["The mill burned."]]


def test_invalid_lines_do_not_stop_the_run(run, tmp_path):
    source = tmp_path / "in.jsonl"
    bad = [
        '{"id": ["x"], "text": "A b."}',
        '{"id": "\\ud83d", "text": "A b."}',
        '{"id": 1.5, "text": "A b."}',
    ]
    bad += ['{"id": ' + "9" * 5000 + ', "text": "A b."}', "[" * 100_000]
    bad += ['{"text": ["A b.", "C d."]}', '{"sentences": ["A b."], "text": 5}']
    source.write_text("\n".join(['"Nadia ran."', *bad, '"It rained."']) + "\n")
    code, out, err = run(source, "-f", "jsonl")
    assert code == 1
    assert [json.loads(line)["sentences"] for line in out.splitlines()] == [
        ["Nadia ran."],
        ["It rained."],
    ]
    assert len(err.splitlines()) == 7
    assert "Traceback" not in err


def test_an_input_without_stories_gives_a_warning(run, tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    code, out, err = run(tmp_path / "empty.jsonl", "-f", "jsonl")
    assert (code, out, err) == (0, "", "narrative-twins: there is no story in the input\n")


def test_stories_keep_their_index_after_invalid_stories(run, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('"Nadia ran."\n""\n"It rained."\n["\u0301"]\n"He left."\n')
    _, out, err = run(source, "-f", "csv", "--operations", "summarization")
    assert [row["story"] for row in csv.DictReader(io.StringIO(out))] == ["0", "2", "4"]
    assert ["line 2" in err, "line 4" in err] == [True, True]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--dtype", "nonsense"], "dtype 'nonsense' is not supported"),
        (["--device", "nonsense"], "device 'nonsense' can't be used"),
        (["--device", "cuda:99"], "device 'cuda:99' can't be used"),
        (["--out", "/nowhere/out.txt"], "the folder of /nowhere/out.txt does not exist"),
        (["--context-tokens", "2"], "leaves no room"),
    ],
)
def test_errors_are_one_line_without_traceback(story, bert_folder, capsys, arguments, problem):
    model = (
        ["--model", bert_folder]
        if "--device" in arguments
        else ["--model", bert_folder, "--device", "cpu"]
    )
    assert main(["score", *model, *arguments, str(story)]) == 1
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_interrupting_leaves_no_incomplete_line(bert_folder, tmp_path, form):
    source, out, part = (
        tmp_path / "in.jsonl",
        tmp_path / f"out.{form}",
        tmp_path / f"out.{form}.part",
    )
    source.write_text(
        "".join(
            json.dumps({"text": f"In {i} the mill burned. Nadia ran. " * 4}) + "\n"
            for i in range(5000)
        )
    )
    command = [
        COMMAND,
        "score",
        "--model",
        bert_folder,
        "-f",
        form,
        "-o",
        str(out),
        "--batch-size",
        "1",
        str(source),
    ]
    with started(*command, stderr=subprocess.PIPE) as process:
        wait_until(lambda: part.exists() and part.read_text().count("\n") > 20, process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert "Traceback" not in err
    assert not out.exists()
    if form == "jsonl":
        text = part.read_text()
        assert text.endswith("\n")
        assert all(len(json.loads(line)["sentences"]) == 8 for line in text.splitlines())
        assert "continue with --resume" in err
    else:
        assert not part.exists()


def test_a_terminal_shows_a_progress_bar(story, bert_folder):
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    command = [COMMAND, "score", "--model", bert_folder, "--format", "jsonl", str(story)]
    done = run_command(*command, stderr=writer)
    os.close(writer)
    shown = os.read(reader, 100_000).decode()
    os.close(reader)
    assert done.returncode == 0
    assert "1.0/1 stories" in shown


def test_a_closed_pipe_is_not_an_error(stories, bert_folder):
    many = stories.read_text() * 200
    command = [
        COMMAND,
        "score",
        "--model",
        bert_folder,
        "--format",
        "jsonl",
        "--operations",
        "deletion",
        "--batch-size",
        "1",
    ]
    with started(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(many)
        process.stdin.close()
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(timeout=LIMIT) == 0
    assert err == ""


@pytest.mark.parametrize("form", ["jsonl", "csv", "html"])
def test_second_run_on_the_same_output_is_refused(run, story, tmp_path, form):
    out = tmp_path / "out"
    with AtomicFile(str(out)):
        code, _, err = run(story, "-f", form, "-o", out)
        assert code == 1 and "is being written by another run; wait until it ends" in err
    assert run(story, "-f", form, "-o", out)[0] == 0


@pytest.mark.parametrize(
    "name", ["out.jsonl", "out.jsonl.part", "out.jsonl.part.old", "out.jsonl.part.run", "link"]
)
def test_input_is_never_overwritten(run, tmp_path, name, capsys):
    """Also if it is the file of an earlier run, or another name for it."""
    source = tmp_path / ("source.jsonl" if name == "link" else name)
    source.write_text('"Nadia ran. It rained."\n')
    if name == "link":
        os.link(source, tmp_path / "out.jsonl.part")
    for resume in ([], ["--resume"]):
        with pytest.raises(SystemExit, match="2"):
            run(source, "-f", "jsonl", "-o", tmp_path / "out.jsonl", *resume)
        assert "would be overwritten" in capsys.readouterr().err
    assert source.read_text() == '"Nadia ran. It rained."\n'


def test_closed_and_full_streams(run, story, monkeypatch):
    code, _, err = run(story, "-o", "/dev/full")
    assert (code, err) == (
        1,
        "narrative-twins: /dev/full can't be written: No space left on device\n",
    )
    monkeypatch.setattr(sys, "stdin", None)
    code, _, err = run("-")
    assert code == 1 and "narrative-twins: standard input: is closed; name a file\n" in err
    monkeypatch.setattr(sys, "stdout", None)
    code, _, err = run(story)
    assert (code, err) == (1, "narrative-twins: standard output can't be written: it is closed\n")


@pytest.mark.slow
def test_full_standard_output(story, bert_folder):
    """Nothing is added by Python at its end."""
    command = shlex.join(
        [COMMAND, "score", "--model", bert_folder, "--operations", "deletion", "-q", str(story)]
    )
    done = run_command("sh", "-c", f"{command} > /dev/full")
    problem = "standard output can't be written: No space left on device"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"narrative-twins: {problem}\n")


def test_all_streams_may_be_closed(story, bert_folder, tmp_path):
    """What libraries print is not written into the output file."""
    command = [
        COMMAND,
        "score",
        "--model",
        bert_folder,
        "--operations",
        "deletion",
        "-f",
        "csv",
        story,
    ]
    command += ["-o", tmp_path / "out.csv"]
    assert run_command("sh", "-c", f"{shlex.join(map(str, command))} <&- >&- 2>&-").returncode == 0
    assert (tmp_path / "out.csv").read_text().startswith("story,index")


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", '=HYPERLINK("http://evil")']
)
def test_cells_of_csv_are_no_formulas(run, tmp_path, text):
    (source := tmp_path / "in.jsonl").write_text(
        json.dumps({"id": text, "sentences": [text, "Nadia ran.", f"a{text}"]})
    )
    _, out, _ = run(source, "-f", "csv", "--operations", "deletion")
    header, first, second, third = csv.reader(io.StringIO(out, newline=""))
    assert first[0] == f"'{text}" and first[5] == f"'{text}"
    assert second[5] == "Nadia ran." and third[5] == f"a{text}"
    assert all(re.fullmatch(r"-?\d\.\d+(e-\d+)?", row[6]) for row in (first, second, third)), (
        "numbers stay numbers"
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize("form", ["text", "jsonl", "csv", "html"])
def test_standard_output_of_other_encodings(run, tmp_path, monkeypatch, encoding, form):
    (source := tmp_path / "in.txt").write_text("Kagerō ran — far. It rained. ★")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding))
    code, _, err = run(source, "-f", form)
    assert (code, err) == (0, "")
    if form == "text":
        lines = written.getvalue().decode(encoding).splitlines()
        assert any(re.search(r"\* 0\.\d{3} 8", line) for line in lines), (
            "a star, and the highest bar"
        )
        assert any(set(line.strip()) == {"-"} for line in lines), "a line below the heading"
        assert any("Kager? ran" in line for line in lines)
    else:
        assert "Kagerō ran — far." in written.getvalue().decode("utf-8")


def test_extracts(run, story):
    shares = {"0.1": 1, "0.6": 2, "1": 3}
    for share, count in shares.items():
        code, out, err = run(story, "--format", "extract", "--share", share)
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert len(lines) == count and lines == [
            line for line in OMAR.replace(". ", ".\n").splitlines() if line in lines
        ]


def test_truncated_stories_are_named_by_file_and_line(run, tmp_path):
    transformers_logging.enable_progress_bar()  # which another command in the same process may have disabled
    path = tmp_path / "stories.jsonl"
    long = json.dumps({"text": "Nadia ran and ran and ran. " * 20})
    path.write_text(f'{{"text": "He left."}}\n{{"text": ""}}\n{long}\n{long}\n')
    code, out, err = run(path, "-f", "jsonl", "--context-tokens", "40")
    assert code == 1 and len(out.splitlines()) == 3
    warnings = [line for line in err.splitlines() if "is longer than the 40 tokens" in line]
    assert len(warnings) == 1 and warnings[0].startswith(
        f"narrative-twins: {path}, line 3: the story is longer"
    )
    assert len(err.splitlines()) == 2
    assert (
        len(
            run(path, "-f", "jsonl", "--context-tokens", "40", "--on-truncation", "ignore")[
                2
            ].splitlines()
        )
        == 1
    )
    _, out, err = run(path, "-f", "jsonl", "--context-tokens", "40", "--on-truncation", "error")
    assert len(out.splitlines()) == 1 and f"{path}, line 4: the story is longer" in err
    assert transformers_logging.is_progress_bar_enabled()


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.html", b"<!doctype html>"),
        ("a.CSV", b"story,"),
        ("a.json", b"["),
        ("a.jsonl", b"{"),
        ("a.svg", b"<?xml"),
    ],
)
def test_the_name_of_the_output_implies_its_format(run, story, tmp_path, name, start):
    assert run(story, "--out", tmp_path / name)[0] == 0
    assert (tmp_path / name).read_bytes().startswith(start)
    assert (
        run(story, "--out", tmp_path / "notes")[0] == 0
        and b"story 1:" in (tmp_path / "notes").read_bytes()
    )


def test_headings_lines_and_paragraphs(run, tmp_path):
    verse = tmp_path / "verse.txt"
    verse.write_text(
        "Chapter 1\n\nThe sea was grey,\nthe sky was grey.\n\nA gull went by. It rained."
    )

    def sentences(*arguments):
        code, out, err = run(verse, "-f", "jsonl", *arguments)
        assert code == 0, err
        return json.loads(out)["sentences"]

    assert sentences() == ["The sea was grey,\nthe sky was grey.", "A gull went by.", "It rained."]
    assert sentences("--score-headings")[0] == "Chapter 1"
    assert sentences("--split", "lines") == [
        "The sea was grey,",
        "the sky was grey.",
        "A gull went by. It rained.",
    ]
    assert sentences("--split", "paragraphs") == [
        "The sea was grey,\nthe sky was grey.",
        "A gull went by. It rained.",
    ]
    out = tmp_path / "out.jsonl"
    assert run(verse, "-o", out, "--split", "lines")[0] == 0
    code, _, err = run(verse, "-o", out, "--resume")
    assert code == 2 and "split" in err


def test_folders_and_tables(run, tmp_path):
    folder = tmp_path / "tales"
    folder.mkdir()
    (folder / "b.txt").write_text(OMAR)
    (folder / "a.csv").write_text("id,ours\nx,Nadia ran. It rained.\n")
    (folder / "c.odt").write_bytes(b"\0\1")
    code, out, err = run(folder, "-f", "jsonl", "--column", "ours")
    assert code == 0, err
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["x", str(folder / "b.txt")]
    code, out, err = run(folder, "-f", "jsonl")
    assert (
        code == 1 and "a.csv: has no column of stories that is known (its columns: id, ours)" in err
    )
    code, out, err = run(folder / "c.odt")
    assert code == 1 and not out


GERMAN = (
    "Der Junge saß ganz oben im Kirschbaum und wollte nicht herunter. In der Nacht war das Gewitter"
    " gekommen, und er"
)
GERMAN += " hatte Angst vor dem Donner."


def test_a_text_that_is_not_in_english_gets_one_hint(tmp_path, capsys):
    files = [tmp_path / "eins.txt", tmp_path / "zwei.txt"]
    for file in files:
        file.write_text(GERMAN, encoding="utf-8")
    stories = StoryInput([*map(str, files)], "auto", "auto", hint="use a multilingual encoder")
    assert len(list(stories)) == 2
    assert capsys.readouterr().err == f"narrative-twins: {files[0]}: use a multilingual encoder\n"


def test_who_names_an_encoder_gets_no_hint(run, tmp_path):
    (tmp_path / "eins.txt").write_text(GERMAN, encoding="utf-8")
    code, _, err = run(tmp_path / "eins.txt")
    assert (code, err) == (0, "")


def test_the_hint_names_the_cure(tmp_path):
    (tmp_path / "eins.txt").write_text(GERMAN, encoding="utf-8")
    done = run_command(COMMAND, "score", tmp_path / "eins.txt")
    assert done.returncode == 0
    (hint,) = done.stderr.splitlines()
    assert (
        "not to be in English" in hint
        and "--model" in hint
        and "multilingual-MiniLM" in hint
        and "--split" in hint
    )


def test_a_book_of_gutenberg_is_told_once(tmp_path, bert_folder, capsys):
    begin = "*** START OF THE PROJECT GUTENBERG EBOOK NINE TALES ***"
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(
            f"Title: Nine Tales\n\n{begin}\n\nNadia ran. It rained.\n"
        )
    files = [str(tmp_path / f"{name}.txt") for name in "ab"]
    assert (
        main(["score", *files, "--model", bert_folder, "--out", str(tmp_path / "scores.jsonl")])
        == 0
    )
    told = capsys.readouterr().err
    assert (
        told.count("seems to be a book of Project Gutenberg") == 1
        and "--level chapter,sentence" in told
    )
