"""Prompt templates and answers: placeholders are filled in a single pass, user files replace
prompts of the package, and the last JSON object of an answer counts."""

from importlib.resources import files

import pytest

from narrative_twins.prompting.question_styles import STYLES
from narrative_twins.prompting.templates import (
    AnswerError,
    answer_form,
    fill,
    integer,
    list_of,
    read_answer,
    read_templates,
)

PROMPTS = [
    path.name.removesuffix(".txt")
    for path in files("narrative_twins.prompting").joinpath("prompts").iterdir()
]


@pytest.mark.parametrize("name", PROMPTS)
def test_prompts_of_the_package_are_valid(name):
    template = read_templates([name])[name]
    filled = fill(template, story="STORY", count="COUNT", first="FIRST", last="LAST")
    assert filled.count("STORY") == 1 and "{{" not in filled
    by_window = name in STYLES and STYLES[name].by_window
    assert [part in filled for part in ("COUNT", "FIRST", "LAST")] == [
        not by_window and name != "distract_sections",
        by_window,
        by_window,
    ]


def test_placeholders_in_values_are_not_filled():
    template = "{{count}}: {{story}} {not} {{ neither }}"
    assert fill(template, story="{{count}}", count=5) == "5: {{count}} {not} {{ neither }}"


def test_prompts_are_replaced_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"has the prompts \[\]; name them .*expand"):
        read_templates(["retell"], tmp_path)
    retell = tmp_path / "retell.txt"
    retell.write_text("Sing {{story}}", encoding="utf-8-sig")
    templates = read_templates(["expand", "retell"], tmp_path)
    assert templates == read_templates(["expand"]) | {"retell": "Sing {{story}}"}
    for text, needed in {"{{story}} {{first}}": "story", "Sing": "story"}.items():
        retell.write_text(text)
        with pytest.raises(ValueError, match=rf"retell.txt has the .* it needs \['{needed}'\]"):
            read_templates(["retell"], tmp_path)
    # A question about a window says which sentences it is about.
    (tmp_path / "choose.txt").write_text("{{story}} {{first}}")
    with pytest.raises(ValueError, match=r"needs \['first', 'last', 'story'\], and may have"):
        read_templates(["choose"], tmp_path)
    retell.rename(tmp_path / "retel.txt")
    with pytest.raises(ValueError, match=r"has the prompts \['choose', 'retel'\]; name them"):
        read_templates(["expand"], tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1, "b": []}', (1, [])),
        ('Draft: {"a": 1, "b": []}. Better: ```json\n{"b": ["x"], "a": "2"}\n``` {} {', (2, ["x"])),
        ('{"a": 1, "b": []}</think>{"a": 3, "b": []} I hope {this} helps.', (3, [])),
        ('{"a": 1, "b": []} {"a": 9, "b": []}', "a: Input should be less than or equal to 5"),
        ('{"a": "9' + "9" * 9999 + '", "b": []}', "a: .*integer"),
        ('{"a": null, "b": ["x", "y"]}', "a: .*; b: List should have at most 1 item"),
        ('{"a": 1, "b": [], "c": 2}', "no JSON object with the properties a, b"),
        ("{" * 5_000 + '{"a": 1, "b": []}', (1, [])),
        ('{"a": ' + "[" * 100_000, "no JSON object"),
        ("no", "no JSON object$"),
    ],
    ids=range(10),
)
def test_object_in_an_answer(text, expected):
    form = answer_form(a=integer(1, 5), b=list_of(str, 0, 1))
    if isinstance(expected, tuple):
        assert tuple(read_answer(form, text).values()) == expected
        return
    with pytest.raises(AnswerError, match=expected) as error:
        read_answer(form, text)
    assert len(str(error.value)) <= 300
