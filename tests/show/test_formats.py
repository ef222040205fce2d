"""Output formats: pictures from the command line."""

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
    one, two = tmp_path / "one.txt", tmp_path / "two.jsonl"
    one.write_text("Nadia ran. It rained. The mill burned.")
    two.write_text('{"id": "a", "text": "Nadia ran. It rained."}\n{"id": "b", "text": "He left."}\n')

    def call(*arguments):
        code = main(["score", "--model", bert_folder, "--device", "cpu", *map(str, arguments)])
        return code, capsys.readouterr().err

    return call, one, two


def test_pictures_by_the_command(score, tmp_path):
    call, one, two = score
    assert call(one, "-f", "svg", "-o", tmp_path / "one.svg", "--top", "1") == (0, "")
    shown = texts_of((tmp_path / "one.svg").read_bytes())
    assert {"deletion", "shifting", "disruption", "summarization", "story 1: 3 sentences, 1 window"} <= set(shown)
    assert call(two, "-f", "svg", "-o", tmp_path / "two.svg", "--operations", "deletion") == (0, "")
    assert {"deletion, 2 stories", "a", "b"} <= set(texts_of((tmp_path / "two.svg").read_bytes()))
    assert call(two, "-f", "png", "-o", tmp_path / "two.png") == (0, "")
    assert imread(tmp_path / "two.png").shape[1] == 1400


def test_pictures_go_through_a_pipe_but_not_to_a_terminal(score, tmp_path, monkeypatch):
    call, one, _ = score
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(data))
    assert call(one, "-f", "png")[0] == 0
    assert imread(io.BytesIO(data.getvalue())).shape[1] == 1400
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit):
        call(one, "-f", "png")


def test_no_story_is_no_picture(score, tmp_path):
    call, *_ = score
    (tmp_path / "bad.jsonl").write_text('""\n')
    code, err = call(tmp_path / "bad.jsonl", "-f", "png", "-o", tmp_path / "bad.png")
    assert code == 1 and "the story is empty" in err and "there is no story to plot" in err
    assert not list(tmp_path.glob("bad.png*"))


def test_pages_hold_half_characters_too():
    "".join(to_html([result_of(NASTY, name="\ud83d")])).encode("utf-8")
