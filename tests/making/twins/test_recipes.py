"""Recipes: the prompts, the order of the questions, and invalid recipes."""

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


def all_steps(windows, recipe):
    """All steps for a story, each answered by its stand-in."""
    steps = recipe_steps(windows, recipe)
    found = [next(steps)]
    while True:
        try:
            found.append(steps.send(found[-1].stand_in))
        except StopIteration:
            return found


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
@example(HOSTILE)
def test_prompts_contain_the_story_unchanged(story):
    recipe = Recipe()
    steps = all_steps([story], recipe)
    assert [step.name for step in steps if not step.follows] == ["twin, expanded", "negative"]
    for step in steps:
        prompt = step.prompt(recipe)
        shown = json.JSONDecoder().raw_decode(prompt, prompt.index("\n[") + 1)[0]
        assert shown == (story * 4 if step.name.endswith("retold") else story)
        before, after = recipe.templates[step.template].text.split("{{story}}")
        assert len(prompt) == len(
            (before + after).strip().replace("{{count}}", str(step.values["count"]))
        ) + len(str(step.values["story"]))


def test_prompt_contains_the_synopsis_unchanged():
    recipe = Recipe("synopses")
    (step,) = all_steps([[sentence] for sentence in HOSTILE], recipe)
    prompt = step.prompt(recipe)
    shown = json.JSONDecoder().raw_decode(prompt, prompt.index("\n{") + 1)[0]
    assert shown == {
        f"section_{number}": [sentence] for number, sentence in enumerate(HOSTILE, start=1)
    }


def test_the_order_of_questions():
    columns = {
        ("twin",): ["twin, expanded", "twin, retold"],
        ("twin", "negative"): ["twin, expanded", "twin, retold", "negative"],
        COLUMNS: [
            "twin, expanded",
            "twin, retold",
            "negative",
            "negative_twin, expanded",
            "negative_twin, retold",
        ],
    }
    for chosen, names in columns.items():
        assert [step.name for step in all_steps([["A.", "B."]], Recipe(columns=chosen))] == names


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Retell it.", "no {{story}}"),
        ("{{story}} {{stroy}}", "placeholder {{stroy}}; use {{story}}, {{count}}"),
    ],
)
def test_invalid_templates(text, problem, tmp_path):
    (tmp_path / "retell.txt").write_text(text)
    with pytest.raises(ValueError, match=problem.replace("{", r"\{")):
        Recipe(prompts=str(tmp_path))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": "novels"}, "unknown recipe 'novels'"),
        ({"columns": ["twins"]}, r"columns=\['twins'\]: must be"),
        ({"columns": ["twin", "negative_twin"]}, "made from negative"),
        ({"columns": ["negative"]}, "add the column twin"),
        ({"attempts": 0}, "attempts=0: must be 1 or more"),
        ({"twin_overlap": 70}, "twin_overlap=70: must be from 0 to 1"),
        ({"distractor_overlap": float("nan")}, "distractor_overlap=nan"),
    ],
)
def test_invalid_recipes(options, problem):
    with pytest.raises(ValueError, match=problem):
        Recipe(**options)
