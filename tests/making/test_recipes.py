"""Recipes: the prompts, the order of the questions, and which answers are valid."""

import json
from contextlib import nullcontext

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from narrative_twins import split_sentences
from narrative_twins.making.twins import (
    COLUMNS,
    RECIPES,
    Recipe,
    TwinOptions,
    check_distractor,
    check_twin,
    overlap,
)
from narrative_twins.prompting.chat import Question
from narrative_twins.prompting.templates import AnswerError, answer_form, fill, list_of, read_answer

from support.chat_server import Model, serving, story_in
from support.command import run
from support.rows import read_rows, write_rows

STORY = split_sentences(
    "Ada lost the ring. She cried all night. A fox found it. It wore it home. Ada laughed at last."
)
OTHER = split_sentences(
    "A golden band slipped off. Tears followed until dawn. Some animal picked it up."
    " That beast took it along. Finally its owner smiled."
)


def all_steps(windows, options):
    """All questions about a story, each answered by the sentences asked for, unchecked."""
    found = []

    def ask(step):
        found.append(step)
        shown = story_in(step.prompt)
        if isinstance(shown, dict):
            return list(shown.values())
        return shown * 4 if step.step.endswith("expanded") else windows[0]

    RECIPES[options.recipe].make(ask, windows, options)
    return found


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
@example(["{{count}} {count} %s", "He said \"no\" \\ 'yes' }}", "</story> \u202eשלום", "```json"])
def test_prompts_contain_the_story_unchanged(story):
    options = TwinOptions()
    for step in all_steps([story], options):
        assert story_in(step.prompt) == (story * 4 if step.step.endswith("retold") else story)
    (step,) = all_steps([[sentence] for sentence in story], TwinOptions("synopses"))
    sections = {f"section_{n}": [sentence] for n, sentence in enumerate(story, start=1)}
    assert story_in(step.prompt) == sections


def test_the_order_of_questions():
    twin, negative = ["twin, expanded", "twin, retold"], ["negative"]
    columns = {
        ("twin",): twin,
        ("twin", "negative"): twin + negative,
        COLUMNS: twin + negative + ["negative_twin, expanded", "negative_twin, retold"],
    }
    for chosen, names in columns.items():
        steps = all_steps([["A.", "B."]], TwinOptions(columns=chosen))
        assert [step.step for step in steps] == names


def test_columns_that_are_not_enough():
    for columns in (["twin", "negative_twin"], ["negative"]):
        with pytest.raises(ValueError, match="add twin, .* and negative, from which negative_twin"):
            TwinOptions(columns=columns)


def test_recipe_is_added_in_one_place(tmp_path, monkeypatch):
    """A record in `RECIPES` is a choice of the command, which makes and describes its rows."""

    def make(ask, windows, options):
        prompt = fill(options.templates["expand"], story=json.dumps(*windows), count=20)
        form = answer_form(sentences=list_of(str, 20, 20))
        return {"twin": ask(Question("twin", prompt, form, lambda answer: answer["sentences"]))}

    monkeypatch.setitem(RECIPES, "longer", Recipe(make, ("expand",), ("twin",)))
    command = ["make", "twins", "s.jsonl", "--out", "o.jsonl", "--model", "tiny", "--recipe"]
    assert "'stories', 'synopses', 'longer'" in run(*command, "novels").err
    write_rows(tmp_path / "s.jsonl", [STORY])
    with serving(Model()) as model:
        assert run(*command, "longer", "--server", model.address, cwd=tmp_path).code == 0
    assert len(model.bodies) == 1
    (row,) = read_rows(tmp_path / "o.jsonl")
    assert row["story"] == STORY and len(row["twin"]) == 20 and "negative" not in row
    facts = (tmp_path / "o.facts.yaml").read_text()
    assert "- recipe: longer\n" in facts and "- columns: twin\n" in facts


def answer_with(sentences):
    return json.dumps({"sentences": sentences})


SECTIONS = [["Ada lost the ring again."], ["She cried all day."], ["A fox found her."]]
SECTIONS += [["All else."], ["Ada laughed."]]


def sections(**changes):
    """An answer with sections, which may be in any order."""
    named = {f"section_{n}": section for n, section in enumerate(SECTIONS, start=1)} | changes
    return json.dumps(dict(reversed(named.items())))


def step_of(recipe="stories", **options):
    """The question about the twin of a story, or about the distractor of a synopsis."""
    windows = [STORY] if recipe == "stories" else [[sentence] for sentence in STORY]
    return all_steps(windows, TwinOptions(recipe, **options))[-4 if recipe == "stories" else 0]


TWIN = step_of()
SYNOPSIS = step_of("synopses")


@pytest.mark.parametrize(
    ("step", "answer", "result"),
    [
        (TWIN, answer_with([f"  {sentence}\n" for sentence in OTHER]), OTHER),
        # With other text, also the end of reasoning, a draft in which does not count.
        (
            TWIN,
            f"Try: {answer_with(['A draft.'] * 5)} no:</think>\n{answer_with(OTHER)} So {{}}.",
            OTHER,
        ),
        (SYNOPSIS, sections(), SECTIONS),
        (TWIN, answer_with([*OTHER[:4], " "]), "sentence 4 is empty"),
        (TWIN, answer_with([*OTHER[:4], "\ud83d"]), "lone surrogate|valid string"),
        (TWIN, answer_with(OTHER[:4]), "at least 5 items"),
        (TWIN, answer_with([*OTHER, "More."]), "at most 5 items"),
        (TWIN, answer_with([f"{each} again" for each in STORY]), "overlap .* above 0.7"),
        (step_of("synopses", distractor_overlap=0.9), sections(), "below 0.9"),
        (SYNOPSIS, sections(section_2=[STORY[1].upper()]), "section_2 is a copy"),
        (SYNOPSIS, sections(section_3=[]), "section_3: .* at least 1 item"),
        (SYNOPSIS, sections(section_3=["A."] * 3), "section_3: .* at most 2 items"),
        (SYNOPSIS, sections(section_6=["More."]), "with the properties section_1, section_2"),
    ],
)
def test_answers(step, answer, result):
    if isinstance(result, list):
        assert step.read(read_answer(step.form, answer)) == result
        return
    with pytest.raises(AnswerError, match=result):
        step.read(read_answer(step.form, answer))


def test_overlap_is_the_dice_coefficient_of_distinct_words():
    assert overlap(["The dog ran.", "the DOG!"], ["A dog sat"]) == pytest.approx(2 * 1 / (3 + 3))
    assert overlap(["a b c"], ["a b c", "a"]) == 1.0
    assert overlap(["🦊"], ["🦊"]) == 0.0
    # A Chinese character is a word; in other scripts a run of letters is.
    assert overlap(["我喜欢狗"], ["我喜欢猫"]) == pytest.approx(2 * 3 / 8)
    assert overlap(["שלום עולם"], ["שלום לך"]) == pytest.approx(0.5)


words = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6).map(" ".join)
texts = st.lists(words, min_size=1, max_size=5)


@given(texts, texts, st.floats(0, 1))
@example(STORY, ["All new words here.", "Others follow.", "all new words HERE"], 1.0)
@example(STORY, ["All new words here.", "she cried -- ALL night"], 1.0)
@example(STORY, [sentence.upper() for sentence in STORY], 0.0)
def test_bounds_of_the_overlap(story, other, bound):
    """Copies and repetitions are found in spite of case and punctuation."""
    plain_story, plain = (
        ["".join(c for c in s.casefold() if c.isalnum() or c == " ").split() for s in text]
        for text in (story, other)
    )
    copied = [sentence in plain_story for sentence in plain]
    share = overlap(story, other)
    is_repeated = any(plain.count(sentence) > 1 for sentence in plain)
    expected = share <= bound and not any(copied) and not is_repeated
    is_valid = share >= bound and not all(copied)
    for check, is_right in ((check_twin, expected), (check_distractor, is_valid)):
        with nullcontext() if is_right else pytest.raises(AnswerError):
            check(story, other, bound)
