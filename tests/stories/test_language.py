"""The language of a text, and the note on texts that the default encoder was not trained for."""

import pytest
from transformers import pipeline

from narrative_twins import StoryEncoder, score_book, score_stories
from narrative_twins.app.result_html import reading
from narrative_twins.data.sources import corpus_rows
from narrative_twins.stories.language import is_other_language, language_of

from support.command import run
from support.models import save_base

NOTE = "does not look like English, the language of this encoder"
CURE = "--model multilingual, StoryEncoder.from_pretrained('multilingual')"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The man was in the house and he ran to it.", "en"),
        ("Der Mann lief in das Haus, und es regnete die ganze Nacht.", ""),
        ("הוא הלך הביתה. ירד גשם כל הלילה.", "he"),
        ("彼は家に帰った。雨が降っていた。", "ja"),
        ("他回家了。下了一夜的雨。", "zh"),
        ("그는 집에 갔다.", "ko"),
        (
            "You wake up in a strange room. Your phone is dead. Somebody knocks. Nobody is there.",
            "en",
        ),
        ("A fiú az erdőben lakott. Egy nap a folyóhoz ment, és ott egy hal várt rá.", ""),
        ("I was in Berlin. Der Mann lief in das Haus, und es regnete die ganze Nacht.", ""),
        ("", ""),
        ("1, 2, 3.", ""),
    ],
)
def test_the_language_of_a_text_is_told_by_script_and_words(text, code):
    assert language_of(text) == code


def test_translations_are_in_other_languages_and_originals_are_not():
    rows = [*corpus_rows("translations")["validation"]]
    assert all(is_other_language(row["story"]) for row in rows)
    for corpus in ("stories", "everyday"):
        english = corpus_rows(corpus)["validation"]
        assert not any(is_other_language(row["story"]) for row in english)
    assert not is_other_language(["Omar lief."]), "too few words to tell"
    assert is_other_language(["Старик жил в горах."]), "the script tells"


@pytest.fixture(scope="module")
def translations():
    """A story in each language."""
    rows = corpus_rows("translations")["validation"]
    return {row["id"][-2:]: " ".join(row["story"]) for row in rows}


@pytest.fixture
def notes(caplog):
    """Returns what a function logs of the language."""

    def logged(function):
        caplog.clear()
        function()
        return [record.message for record in caplog.records if NOTE in record.message]

    return logged


OPTIONS = {"approximate": "one-pass", "operations": "summarization"}


@pytest.mark.parametrize("language", ["zh", "hi", "ar", "de", "es"])
def test_functions_and_the_page_name_the_encoder_for_other_languages(
    translations, notes, default, language
):
    text = translations[language]
    results = []
    (note,) = notes(lambda: results.extend(score_stories([text, text], default, **OPTIONS)))
    assert CURE in note
    assert not notes(lambda: [*score_stories([text], default, on_truncation="ignore")])
    assert reading(results[0], "key", True).count("--model multilingual") == 1


@pytest.mark.slow
@pytest.mark.parametrize("language", ["zh", "de"])
def test_pipelines_books_and_commands_do_so_once(translations, notes, tmp_path, language):
    text, files = translations[language], [tmp_path / "one.txt", tmp_path / "two.txt"]
    for file in files:
        file.write_text(text, encoding="utf-8")
    salience = pipeline("narrative-salience", device="cpu", **OPTIONS)
    for use in (
        lambda: score_book(files[0]),
        lambda: salience(text),
        lambda: salience([text, text]),
        lambda: list(salience(iter([text, text]))),
    ):
        (note,) = notes(use)
        assert CURE in note
    for command in (
        ("score", *files, "--fast"),
        ("book", files[0]),
        ("corpus", *files, "--out", tmp_path / "corpus"),
    ):
        assert run(*command, "--device", "cpu").err.count(NOTE) == 1, command
    assert NOTE not in run("score", *files, "--fast", "--on-truncation", "ignore").err


@pytest.mark.slow
def test_other_encoders_and_english_texts_have_no_such_note(
    translations, notes, tmp_path, bert_folder
):
    save_base(tmp_path / "base")
    base = {"base_folder": tmp_path / "base"}
    english = "Nadia ran to the mill. It was gone, and she laughed. " * 9
    for encoder, text, loading in (
        ("multilingual", translations["zh"], base),
        (bert_folder, translations["de"], {}),
        ("default", english, {}),
    ):
        made = StoryEncoder.from_pretrained(encoder, device="cpu", **loading)
        assert not notes(lambda text=text, made=made: list(score_stories([text], made)))
        file = tmp_path / "story.txt"
        file.write_text(text, encoding="utf-8")
        flags = ["--base-folder", loading["base_folder"]] if loading else []
        done = run("score", file, "--fast", "--model", encoder, "--device", "cpu", *flags)
        assert done.code == 0 and done.err == ""
