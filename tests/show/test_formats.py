"""Output formats: images from the command line."""

from __future__ import annotations

import io
import sys

import pytest
from matplotlib.image import imread

from narrative_twins.commands.cli import main
from narrative_twins.show.html import to_html

from support.results import NASTY, result_of, texts_of


@pytest.fixture
def score(bert_folder, tmp_path, capsys):
    story, stories = tmp_path / "one.txt", tmp_path / "two.jsonl"
    story.write_text("Nadia ran. It rained. The mill burned.")
    stories.write_text(
        '{"id": "a", "text": "Nadia ran. It rained."}\n{"id": "b", "text": "He left."}\n'
    )

    def call(*arguments):
        code = main(["score", "--model", bert_folder, "--device", "cpu", *map(str, arguments)])
        return code, capsys.readouterr().err

    return call, story, stories


def test_images_by_the_command(score, tmp_path):
    call, story, stories = score
    assert call(story, "-f", "svg", "-o", tmp_path / "one.svg", "--top", "1") == (0, "")
    shown = texts_of((tmp_path / "one.svg").read_bytes())
    assert {
        "deletion",
        "shifting",
        "disruption",
        "summarization",
        "story 1: 3 sentences, 1 window",
    } <= set(shown)
    assert call(stories, "-f", "svg", "-o", tmp_path / "two.svg", "--operations", "deletion") == (
        0,
        "",
    )
    assert {"deletion, 2 stories", "a", "b"} <= set(texts_of((tmp_path / "two.svg").read_bytes()))
    assert call(stories, "-f", "png", "-o", tmp_path / "two.png") == (0, "")
    assert imread(tmp_path / "two.png").shape[1] == 1400


def test_images_are_written_to_a_pipe_but_not_to_a_terminal(score, tmp_path, monkeypatch):
    call, story, _ = score
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(data))
    assert call(story, "-f", "png")[0] == 0
    assert imread(io.BytesIO(data.getvalue())).shape[1] == 1400
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit):
        call(story, "-f", "png")


def test_without_a_story_no_image_is_written(score, tmp_path):
    call, *_ = score
    (tmp_path / "bad.jsonl").write_text('""\n')
    code, err = call(tmp_path / "bad.jsonl", "-f", "png", "-o", tmp_path / "bad.png")
    assert code == 1 and "the story is empty" in err and "there is no story to plot" in err
    assert not list(tmp_path.glob("bad.png*"))


def test_pages_with_lone_surrogates_can_be_encoded():
    "".join(to_html([result_of(NASTY, name="\ud83d")])).encode("utf-8")
