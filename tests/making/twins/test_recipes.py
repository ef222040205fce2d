"""Recipes of questions: what is asked, and which recipes there are."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from narrative_twins.making.twins.recipes import COLUMNS, Recipe, recipe_steps

HOSTILE = [
    "{{count}} {count} %s $story",
    "He said \"no\" \\ 'yes' }}",
    "{% raw %} </story> \u202eשלום",
    "```json",
    "🦊",
]


def walked(windows, recipe):
    """All steps about a story, each answered by its stand-in."""
    steps = recipe_steps(windows, recipe)
    found = [next(steps)]
    while True:
        try:
            found.append(steps.send(found[-1].stand_in))
        except StopIteration:
            return found


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
@example(HOSTILE)
def test_a_story_comes_through_a_prompt_as_it_is(story):
    recipe = Recipe()
    steps = walked([story], recipe)
    assert [step.name for step in steps if not step.follows] == ["twin, expanded", "negative"]
    for step in steps:
        prompt = step.prompt(recipe)
        told = json.JSONDecoder().raw_decode(prompt, prompt.index("\n[") + 1)[0]
        assert told == (story * 4 if step.name.endswith("retold") else story)
        before, after = recipe.templates[step.template].text.split("{{story}}")
        assert len(prompt) == len((before + after).strip().replace("{{count}}", str(step.values["count"]))) + len(
            str(step.values["story"])
        )


def test_a_synopsis_comes_through_its_prompt_as_it_is():
    recipe = Recipe("synopses")
    (step,) = walked([[one] for one in HOSTILE], recipe)
    prompt = step.prompt(recipe)
    told = json.JSONDecoder().raw_decode(prompt, prompt.index("\n{") + 1)[0]
    assert told == {f"section_{number}": [one] for number, one in enumerate(HOSTILE, start=1)}


def test_the_order_of_questions():
    columns = {
        ("twin",): ["twin, expanded", "twin, retold"],
        ("twin", "negative"): ["twin, expanded", "twin, retold", "negative"],
        COLUMNS: ["twin, expanded", "twin, retold", "negative", "negative_twin, expanded", "negative_twin, retold"],
    }
    for chosen, names in columns.items():
        assert [step.name for step in walked([["A.", "B."]], Recipe(columns=chosen))] == names


@pytest.mark.parametrize(
    ("text", "problem"),
    [("Retell it.", "no {{story}}"), ("{{story}} {{stroy}}", "placeholder {{stroy}}; there are {{story}}, {{count}}")],
)
def test_a_prompt_that_is_no_template_is_refused(text, problem, tmp_path):
    (tmp_path / "retell.txt").write_text(text)
    with pytest.raises(ValueError, match=problem.replace("{", r"\{")):
        Recipe(prompts=str(tmp_path))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": "novels"}, "no recipe 'novels'"),
        ({"columns": ["twins"]}, "no column 'twins'"),
        ({"columns": ["twin", "negative_twin"]}, "made of a negative"),
        ({"columns": ["negative"]}, "ask for the twin"),
        ({"attempts": 0}, "attempts=0"),
        ({"twin_overlap": 70}, "twin_overlap=70"),
        ({"distractor_overlap": float("nan")}, "distractor_overlap=nan"),
    ],
)
def test_recipes_that_there_are_not(options, problem):
    with pytest.raises(ValueError, match=problem):
        Recipe(**options)
