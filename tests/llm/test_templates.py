"""Prompt templates: placeholders are filled in a single pass, and user files replace those of the package."""

from __future__ import annotations

from importlib.resources import files

import pytest

from narrative_twins.llm.templates import Template, read_templates

TWINS, BASELINES = "narrative_twins.making.twins", "narrative_twins.baselines"


PROMPTS = [
    (package, path.stem) for package in (TWINS, BASELINES) for path in files(package).joinpath("prompts").iterdir()
]


@pytest.mark.parametrize(("package", "name"), PROMPTS)
def test_prompts_of_the_package_are_valid(package, name):
    template = read_templates(package, [name])[name]
    filled = template.fill({"story": "THE STORY", "count": 7})
    assert filled.count("THE STORY") == 1 and "{{" not in filled
    assert "7" in filled or name == "distract_sections"


def test_placeholders_in_values_are_not_filled():
    template = Template("mine", "{{count}}: {{story}} {not} {{ neither }} {{story}}")
    assert template.fill({"story": "{{count}}", "count": 5}) == "5: {{count}} {not} {{ neither }} {{count}}"


def test_prompts_are_replaced_by_name(tmp_path):
    (tmp_path / "retell.txt").write_text("Sing {{story}}", encoding="utf-8")
    templates = read_templates(TWINS, ["expand", "retell"], tmp_path)
    assert templates["retell"].text == "Sing {{story}}"
    assert templates["expand"] == read_templates(TWINS, ["expand"])["expand"]
    (tmp_path / "retel.txt").write_text("{{story}}")
    with pytest.raises(ValueError, match="retel.txt replaces no prompt"):
        read_templates(TWINS, ["retell"], tmp_path)
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        read_templates(TWINS, ["retell"], tmp_path / "none")
