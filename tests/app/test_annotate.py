"""The page for annotators: which stories they get, and that their answers are saved and are
labels."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from narrative_twins import Story, evaluate
from narrative_twins.commands.cli import main
from narrative_twins.data import load_story_salience
from narrative_twins.writing import JsonlLog, ResumeError

from support.rows import write_rows

pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")

from narrative_twins.app.annotate import PRACTICE, AnnotationPage, Answers  # noqa: E402

TEXTS = {
    "kite": ["Nadia made a kite.", "The wind took it.", "A letter came from an island."],
    "<b>": ["Omar <script>alert(1)</script> ran.", "It rained & rained.", "His house was blue."],
    "boat": ["I took a boat.", "A swan threw me out."],
}
STORIES = [Story.parse({"id": id_, "sentences": text}) for id_, text in TEXTS.items()]


@contextmanager
def collecting(path, stories=STORIES, reports=None):
    """The page, whose changes are by the names of its parts."""
    with JsonlLog(path) as log:
        answers = Answers(stories, log, (reports if reports is not None else []).append)
        page = AnnotationPage(answers)
        names = {id(part): name for name, part in vars(page).items()}

        def named(event):
            return lambda *values: {names[id(part)]: new for part, new in event(*values).items()}

        yield SimpleNamespace(begin=named(page.begin), answer=named(page.answer))


def choose(page, name, *choices, summary="So it went."):
    """An annotator practises, unless there are answers of this name, and chooses these sentences,
    of one story after the other."""
    shown = page.begin(name)
    for practice in PRACTICE if isinstance(shown["step"], int) else ():
        shown = page.answer(name, shown["step"], "", practice["choice"])
    for choice in choices:
        shown = page.answer(name, shown["step"], summary, choice)
    return shown


def rows_of(path):
    return JsonlLog(path).rows


def test_answers_are_labels_of_evaluate(tmp_path):
    path, reports = tmp_path / "choices.jsonl", []
    choices = {"Ada": [3, 3, 2], "Ben": [3, 2, 2], "Cy": [1, 3]}
    with collecting(path, reports=reports) as page:
        for name, own in choices.items():
            shown = choose(page, name, *own, summary=f"{name}   tells it.")
    assert shown["step"] == "boat" and "Story 3 of 3" in shown["story"]
    assert reports[-1] == "Cy has answered <b>; answers: 8"
    first = {"id": "kite", "annotator": "Ada", "story": TEXTS["kite"], "choice": 3}
    assert rows_of(path)[0] == first | {"summary": "Ada tells it."}
    rows = load_story_salience(str(path), "train", cache_dir=str(tmp_path / "cache"))
    assert rows["id"] == list(TEXTS) and rows["story"] == list(TEXTS.values())
    assert rows["choices"] == [[3, 3, 1], [3, 2, 3], [2, 2]]
    assert rows["summaries"][0] == ["Ada tells it.", "Ben tells it.", "Cy tells it."]
    assert "people, one of them" in str(evaluate({}, str(path), baselines=()).json())


def test_annotators_resume_where_they_stopped(tmp_path):
    path = tmp_path / "choices.jsonl"
    with collecting(path) as page:
        choose(page, "Ada", 1)
        # After a reload; the name is compared without extra spaces.
        assert page.begin("  Ada ")["step"] == "<b>"
    with collecting(path) as page:
        shown = page.begin("Ada")
        assert shown["step"] == "<b>" and "Welcome back" in shown["status"]
        assert "Practice 1 of 2" in page.begin("Ben")["story"]
        shown = choose(page, "Ada", 2, 2)
        assert "last story" in shown["status"] and not shown["work"]["visible"]
        # In another tab that still shows the story: the first answer is kept.
        page.answer("Ada", "<b>", "Another.", 3)
    assert [row["choice"] for row in rows_of(path)] == [1, 2, 2]
    for stories in (STORIES[:2], [Story.parse({"id": "kite", "sentences": ["A."]})]):
        with pytest.raises(ResumeError, match="is not an answer to one of these stories"):
            collecting(path, stories).__enter__()


def test_practice_explains_wrong_choices(tmp_path):
    with collecting(tmp_path / "choices.jsonl") as page:
        shown = page.begin("Ada")
        assert "Tomas finds gold in a wall" in shown["story"] and not shown["summary"]["visible"]
        wrong = page.answer("Ada", shown["step"], "", PRACTICE[0]["choice"] + 1)
        assert "choose again" in wrong["status"] and "step" not in wrong
        shown = page.answer("Ada", shown["step"], "", PRACTICE[0]["choice"])
        assert shown["step"] == 1 and "That&#39;s right" in shown["status"]
        shown = page.answer("Ada", 1, "", PRACTICE[1]["choice"])
        assert shown["step"] == "kite" and shown["summary"]["visible"]
    assert not rows_of(tmp_path / "choices.jsonl")


def test_answers_that_are_not_valid_are_not_saved(tmp_path):
    path = tmp_path / "choices.jsonl"
    with collecting(path) as page:
        for step, summary, choice, problem in (
            ("kite", "  \n", 1, "at most 11 words"),
            ("kite", "word " * 12, 1, "at most 11 words"),
            ("kite", "It went.", None, "choose a sentence"),
            ("kite", "It went.", 4, "choose a sentence"),
            (None, "It went.", 1, "reload the page"),
        ):
            refused = page.answer("Ada", step, summary, choice)
            assert set(refused) == {"status"} and problem in refused["status"]
        page.answer("Ada", "kite", "word " * 11, 1)
    assert [row["summary"] for row in rows_of(path)] == ["word " * 10 + "word"]


def test_names_and_texts_are_shown_as_text(tmp_path):
    with collecting(tmp_path / "choices.jsonl") as page:
        for name in ("", " \n", "n" * 41):
            assert set(page.begin(name)) == {"status"}
        name = page.begin("<i>\x1b\ud800")["annotator"]
        assert name == "<i>\ufffd\ufffd"
        shown = choose(page, name, 1, summary="A \ud800 letter.")
        assert "&lt;script&gt;" in shown["story"] and "<script>" not in shown["story"]
        # gradio shows the text of choices, without HTML.
        assert shown["choice"]["choices"][0] == ("1. Omar <script>alert(1)</script> ran.", 1)
    (row,) = rows_of(tmp_path / "choices.jsonl")
    assert (row["annotator"], row["summary"]) == (name, "A \ufffd letter.")


def test_stories_that_can_not_be_annotated(tmp_path):
    for stories, problem in (([], "at least one story"), (STORIES * 2, "each an id of its own")):
        with pytest.raises(ValueError, match=problem):
            collecting(tmp_path / "choices.jsonl", stories).__enter__()


def test_the_command(tmp_path, capsys, monkeypatch):
    """The log has each answer at once; its output can't be its input."""
    source, path = tmp_path / "stories.jsonl", tmp_path / "choices.jsonl"
    write_rows(source, [{"id": "boat", "story": TEXTS["boat"]}])

    def serve(build, *arguments, **options):
        page = build()
        page.answer("Ada", "boat", "I lost my boat.", 2)
        assert [row["choice"] for row in rows_of(path)] == [2]
        events = page.blocks.config["dependencies"]
        assert {event["api_visibility"] for event in events} == {"private"}
        raise KeyboardInterrupt

    monkeypatch.setattr("narrative_twins.app.server.serve", serve)
    assert main(["annotate", str(source), "--out", str(path)]) == 0
    assert capsys.readouterr().err == "narrative-twins: Ada has answered boat; answers: 1\n"
    assert main(["annotate", str(path), "--out", str(path)]) == 2
    assert "would be overwritten" in capsys.readouterr().err
