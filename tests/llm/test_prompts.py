"""Prompt templates: placeholders are filled in a single pass, and user files replace those of the
package."""

from __future__ import annotations

from importlib.resources import files

import pytest

from narrative_twins.baselines import styles
from narrative_twins.llm.prompts import (
    PLACEHOLDERS,
    AnswerError,
    Template,
    read_object,
    read_templates,
)

TWINS, BASELINES = "narrative_twins.making", "narrative_twins.baselines"
PROMPTS = [
    (package, path.stem)
    for package in (TWINS, BASELINES)
    for path in files(package).joinpath("prompts").iterdir()
]


@pytest.mark.parametrize(("package", "name"), PROMPTS)
def test_prompts_of_the_package_are_valid(package, name):
    placeholders = styles.PLACEHOLDERS if package == BASELINES else PLACEHOLDERS
    template = read_templates(package, [name], placeholders=placeholders)[name]
    filled = template.fill({"story": "STORY", "count": "COUNT", "first": "FIRST", "last": "LAST"})
    assert filled.count("STORY") == 1 and "{{" not in filled
    by_window = package == BASELINES and styles.STYLES[name].by_window
    assert [part in filled for part in ("COUNT", "FIRST", "LAST")] == [
        not by_window and name != "distract_sections",
        by_window,
        by_window,
    ]


def test_placeholders_in_values_are_not_filled():
    template = Template("mine", "{{count}}: {{story}} {not} {{ neither }}")
    assert template.fill({"story": "{{count}}", "count": 5}) == "5: {{count}} {not} {{ neither }}"


def test_prompts_are_replaced_by_name(tmp_path):
    retell = tmp_path / "retell.txt"
    with pytest.raises(ValueError, match="has no prompt; the file name must be one of .*expand"):
        read_templates(TWINS, ["retell"], tmp_path)
    retell.write_text("Sing {{story}}", encoding="utf-8")
    templates = read_templates(TWINS, ["expand", "retell"], tmp_path)
    assert templates["retell"].text == "Sing {{story}}"
    assert templates["expand"] == read_templates(TWINS, ["expand"])["expand"]
    retell.write_text("{{story}} {{first}}", encoding="utf-8")
    with pytest.raises(ValueError, match="unknown placeholder {{first}}; use {{story}}, {{count}}"):
        read_templates(TWINS, ["retell"], tmp_path)
    retell.write_text("Sing")
    with pytest.raises(ValueError, match="has no {{story}} placeholder"):
        read_templates(TWINS, ["retell"], tmp_path)
    retell.rename(tmp_path / "retel.txt")
    with pytest.raises(ValueError, match="retel.txt replaces no prompt"):
        read_templates(TWINS, ["retell"], tmp_path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', 1),
        ('Draft: {"a": 1}. Better: ```json\n{"a": {"b": 2}}\n``` Done {', {"b": 2}),
        ('{"b": 1} {"a": 3}', 3),
        ("{" * 5_000 + '{"a": 1}', None),
        ('{"a": ' + "[" * 100_000, None),
        ('{"a": 1, "b": 2}', None),
        ("no", None),
    ],
    ids=range(7),
)
def test_object_in_an_answer(text, found):
    if found is not None:
        assert read_object(text, ["a"], ["b", "c"]) == {"a": found}
        return
    with pytest.raises(AnswerError, match="contains no JSON object|instead of"):
        read_object(text, ["a"], ["b", "c"])
