"""The page for annotators: which stories they get, that their answers are saved whole and are
labels, and how far they agree."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import contextmanager

import pytest

from narrative_twins import Story, evaluate
from narrative_twins.app.annotate import (
    MAX_CHARACTERS,
    MAX_SENTENCES,
    PRACTICE,
    AnnotationPage,
    Answers,
    stories_digest,
)
from narrative_twins.commands.cli import main
from narrative_twins.data import RowError, load_story_salience
from narrative_twins.files import AtomicFile, ResumableFile, ResumeError, complete_lines

from support.processes import COMMAND, LIMIT, started
from support.raw_server import served

TEXTS = {
    "kite": ["Nadia made a kite.", "The wind took it.", "A letter came from an island."],
    "<b>": ["Omar <script>alert(1)</script> ran.", "It rained & rained.", "His house was blue."],
    "boat": ["I took a boat.", "A swan threw me out."],
}
STORIES = [Story.parse({"id": id_, "sentences": text}) for id_, text in TEXTS.items()]


@contextmanager
def collecting(path, stories=STORIES, reports=None):
    """The page for annotators, whose answers are complete at the end."""
    settings = {"stories": stories_digest(stories)}
    file = ResumableFile(str(path), settings, resume=True, sync=True)
    answers = Answers(stories, file, (reports if reports is not None else []).append)
    with file:
        yield AnnotationPage(answers)


def practised(page, name):
    """An annotator's page after practice, or where answers of this name are resumed."""
    shown = page.begin(name)
    for practice in PRACTICE if shown["step"] < 0 else ():
        shown = page.answer(name, shown["step"], "", practice.choice)
    return shown


def choose(page, name, *choices, summary="So it went."):
    """An annotator chooses these sentences, of one story after the other."""
    shown = practised(page, name)
    for choice in choices:
        shown = page.answer(name, shown["step"], summary, choice)
    return shown


def rows_of(path):
    return [json.loads(line) for line in complete_lines(str(path))]


def test_answers_are_labels_of_evaluate(tmp_path):
    path, reports = tmp_path / "choices.jsonl", []
    given = {"Ada": [3, 3, 2], "Ben": [3, 2, 2], "Cy": [1, 3]}
    with collecting(path, reports=reports) as page:
        for name, choices in given.items():
            shown = choose(page, name, *choices, summary=f"{name}   tells it.")
    assert shown["step"] == 2 and shown["work"] == {"visible": True}
    assert [row["annotator"] for row in rows_of(path)] == ["Ada"] * 3 + ["Ben"] * 3 + ["Cy"] * 2
    rows = load_story_salience(str(path), "train", cache_dir=str(tmp_path / "cache"))
    assert rows["id"] == list(TEXTS) and rows["story"] == list(TEXTS.values())
    assert rows["choices"] == [[3, 3, 1], [3, 2, 3], [2, 2]]
    assert rows["summaries"][0] == ["Ada tells it.", "Ben tells it.", "Cy tells it."]
    line = evaluate({}, str(path), baselines=()).line("choices", "people, one of them")["mean"]
    assert reports[-1] == (
        "Cy has answered 2 of 3; answers: 8, annotators: 3; 3 stories, 8 sentences; entropy of the"
        f" labels 0.61 bits, perplexity 1.53; agreement (people, one of them): Spearman"
        f" {line['spearman']:.3f} (3 of 3), AUC {line['auc']:.3f} (3 of 3)"
    )


def test_annotators_resume_where_they_stopped(tmp_path):
    path = tmp_path / "choices.jsonl"
    with collecting(path) as page:
        choose(page, "Ada", 1)
        # After a reload; the name is compared without extra spaces.
        assert page.begin("  Ada ")["step"] == 1
    with collecting(path) as page:
        shown = page.begin("Ada")
        assert shown["step"] == 1 and "Welcome back" in shown["status"]
        assert "Practice 1 of 2" in page.begin("Ben")["story"]
        shown = choose(page, "Ada", 2, 2)
        assert shown["step"] is None and shown["end"] == {"visible": True}
        # In another tab that still shows the story.
        again = page.answer("Ada", 1, "Another.", 3)
        assert again["step"] is None and "that answer is kept" in again["status"]
    assert [row["choice"] for row in rows_of(path)] == [1, 2, 2]
    with pytest.raises(ResumeError, match="it was started with stories"):
        collecting(path, STORIES[:2]).__enter__()


def test_practice_explains_wrong_choices(tmp_path):
    with collecting(tmp_path / "choices.jsonl") as page:
        shown = page.begin("Ada")
        assert "Tomas finds gold in a wall" in shown["story"] and not shown["summary"]["visible"]
        wrong = page.answer("Ada", shown["step"], "", PRACTICE[0].choice + 1)
        assert "choose again" in wrong["status"] and "step" not in wrong
        shown = page.answer("Ada", shown["step"], "", PRACTICE[0].choice)
        assert shown["step"] == -1 and "That&#39;s right" in shown["status"]
        shown = page.answer("Ada", -1, "", PRACTICE[1].choice)
        assert shown["step"] == 0 and shown["summary"]["visible"]
    assert not rows_of(tmp_path / "choices.jsonl")


@pytest.mark.parametrize(
    ("summary", "choice", "problem"),
    [
        ("  \n", 1, "sum up the story first"),
        ("word " * 12, 1, "has 12 words; use at most 11"),
        ("w" * 201, 1, "at most 200 characters"),
        ("It went.", None, "choose a sentence"),
        ("It went.", 4, "no sentence 4"),
    ],
)
def test_answers_that_are_not_valid_are_not_saved(tmp_path, summary, choice, problem):
    path = tmp_path / "choices.jsonl"
    with collecting(path) as page:
        shown = practised(page, "Ada")
        refused = page.answer("Ada", shown["step"], summary, choice)
        assert set(refused) == {"status"} and problem in refused["status"]
        page.answer("Ada", 0, "word " * 11, 1)
    assert [row["summary"] for row in rows_of(path)] == ["word " * 10 + "word"]


def test_names_and_texts_are_shown_as_text(tmp_path):
    with collecting(tmp_path / "choices.jsonl") as page:
        for name in ("", " \n", "n" * 41):
            assert set(page.begin(name)) == {"welcome_status"}
        name = page.begin("<i>\x1b\ud800")["annotator"]
        assert name == "<i>\ufffd\ufffd"
        shown = choose(page, name, 1, summary="A \ud800 letter.")
        assert "&lt;script&gt;" in shown["story"] and "<script>" not in shown["story"]
        # gradio shows the text of choices, without HTML.
        assert shown["choice"]["choices"][0] == ("1. Omar <script>alert(1)</script> ran.", 1)
    (row,) = rows_of(tmp_path / "choices.jsonl")
    assert (row["annotator"], row["summary"]) == (name, "A \ufffd letter.")


def test_an_answer_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path, reports = tmp_path / "choices.jsonl", []
    with pytest.raises(KeyboardInterrupt), collecting(path, reports=reports) as page:
        choose(page, "Ada", 1)
        write = AtomicFile.write

        def half(self, piece):
            write(self, piece[: len(piece) // 2])
            raise OSError("no space left")

        with monkeypatch.context() as patched:
            patched.setattr(AtomicFile, "write", half)
            assert "could not be saved" in page.answer("Ada", 1, "It went.", 1)["status"]
        assert "make room, and start again" in reports[-1]
        # Nothing is written after half a line.
        assert "could not be saved" in page.answer("Ada", 1, "It went.", 1)["status"]
        raise KeyboardInterrupt
    with collecting(path) as page:
        assert choose(page, "Ada", 2)["step"] == 2
    assert [row["choice"] for row in rows_of(path)] == [1, 2]


@pytest.mark.parametrize(
    ("stories", "problem"),
    [
        ([], "no story to annotate"),
        ([Story.parse(["A."] * (MAX_SENTENCES + 1))], "story '1' has 101 sentences"),
        ([Story.parse(["a" * (MAX_CHARACTERS + 1)])], "story '1' has 1 sentences and 20,001"),
        ([STORIES[0], STORIES[1], STORIES[0]], "several stories have the id 'kite'"),
    ],
)
def test_stories_that_can_not_be_annotated(tmp_path, stories, problem):
    with pytest.raises(ValueError, match=problem):
        collecting(tmp_path / "choices.jsonl", stories).__enter__()


def test_files_of_answers_that_do_not_fit(tmp_path):
    row = {"id": "a", "annotator": "Ada", "story": ["A.", "B."], "choice": 1, "summary": "A."}
    path = tmp_path / "choices.jsonl"

    def load(*rows):
        path.write_text("".join(json.dumps(each) + "\n" for each in rows))
        return load_story_salience(str(path), "train", cache_dir=str(tmp_path / "cache"))

    with pytest.raises(RowError, match="line 2, id 'a': is a second answer .* annotator 'Ada'"):
        load(row, row)
    with pytest.raises(RowError, match="line 2, id 'a': is another story than .* line 1"):
        load(row, row | {"annotator": "Ben", "story": ["A."]})
    with pytest.raises(RowError, match="'choices' has 3; whole numbers from 1 to 2"):
        load(row | {"choice": 3})
    (found,) = load(row, {**row, "annotator": "Ben", "choice": 2, "summary": None})
    assert found["counts"] == [1, 1] and found["summaries"] is None
    with pytest.raises(SystemExit):
        main(["annotate", str(path), "--out", str(path)])


@pytest.fixture
def client(tmp_path):
    """A client of the served page, and the file of its answers."""
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    import httpx

    from narrative_twins.app.server import annotation_application

    path = tmp_path / "choices.jsonl"
    with collecting(path) as page:
        app = annotation_application(page.answers, ["stories.example"])
        with served(app) as port:
            base = f"http://localhost:{port}"
            with httpx.Client(base_url=base, trust_env=False, timeout=LIMIT) as http:
                yield http, path


def post(http, number, *values, session="abc"):
    body = {"fn_index": number, "data": list(values), "session_hash": session}
    return http.post("/gradio_api/queue/join", json=body)


def outcome(http, number, *values):
    """The message that ends an event."""
    assert post(http, number, *values).status_code == 200
    with http.stream("GET", "/gradio_api/queue/data?session_hash=abc") as stream:
        for line in stream.iter_lines():
            if "process_completed" in line:
                return line
    raise AssertionError("the event did not end")


BEGIN, ENTER, ANSWER = range(3)


@pytest.mark.slow
def test_an_annotator_in_a_browser(client):
    http, path = client
    assert "Practice 1 of 2" in outcome(http, BEGIN, "Ada")
    for practice, following in zip(PRACTICE, ("Practice 2 of 2", "Story 1 of 3"), strict=True):
        assert following in outcome(http, ANSWER, None, None, "", practice.choice)
    assert "Story 2 of 3" in outcome(http, ANSWER, None, None, "A letter came.", 3)
    (row,) = rows_of(path)
    assert row == {
        "id": "kite",
        "annotator": "Ada",
        "story": TEXTS["kite"],
        "choice": 3,
        "summary": "A letter came.",
    }


@pytest.mark.slow
def test_the_guard_refuses_all_else(client):
    http, path = client
    for values in (
        ["Ada", 5, "It went.", 1],  # the name and the step are kept by the server
        [None, None, "It went.", 0],
        [None, None, "It went.", "1"],
        [None, None, "It went.", True],
        [None, None, "w" * 2001, 1],
        [None, None, "It went."],
    ):
        assert post(http, ANSWER, *values).status_code == 422
    assert post(http, BEGIN, "n" * 401).status_code == 422
    for number in (-1, 3, 99):
        assert post(http, number, "Ada").status_code == 422
    cancel = {"fn_index": -1, "session_hash": "abc", "event_id": "e"}
    assert http.post("/gradio_api/cancel", json=cancel).status_code == 422
    for file in (path, "/etc/passwd"):
        assert http.get(f"/gradio_api/file={file}").status_code == 404
    assert http.get("/", headers={"host": "evil.example"}).status_code == 403
    headers = {"origin": "http://evil.example"}
    body = {"fn_index": BEGIN, "data": ["Ada"], "session_hash": "abc"}
    assert http.post("/gradio_api/queue/join", json=body, headers=headers).status_code == 403
    assert http.get("/gradio_api/info").json()["named_endpoints"] == {}
    assert not rows_of(path)


@pytest.mark.slow
def test_the_command_completes_the_file(tmp_path):
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    (tmp_path / "stories.jsonl").write_text(json.dumps({"story": TEXTS["boat"]}) + "\n")
    command = [COMMAND, "annotate", "stories.jsonl", "--out", "choices.jsonl", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(*command, cwd=tmp_path, env=os.environ, **pipes) as process:
        assert process.stdout.readline().startswith("The page is at http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, errors) == (0, "choices.jsonl: no answers yet\n", "")
    assert (tmp_path / "choices.jsonl").read_text() == ""
