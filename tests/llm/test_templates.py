"""Prompt templates: placeholders are filled in a single pass, and user files replace those of the
package."""

from __future__ import annotations

from importlib.resources import files

import pytest

from narrative_twins.baselines import styles
from narrative_twins.llm.templates import PLACEHOLDERS, Template, read_templates

TWINS, BASELINES = "narrative_twins.making.twins", "narrative_twins.baselines"


PROMPTS = [
    (package, path.stem)
    for package in (TWINS, BASELINES)
    for path in files(package).joinpath("prompts").iterdir()
]


@pytest.mark.parametrize(("package", "name"), PROMPTS)
def test_prompts_of_the_package_are_valid(package, name):
    placeholders = styles.PLACEHOLDERS if package == BASELINES else PLACEHOLDERS
    template = read_templates(package, [name], placeholders=placeholders)[name]
    filled = template.fill(
        {"story": "THE STORY", "count": "COUNT", "first": "FIRST", "last": "LAST"}
    )
    assert filled.count("THE STORY") == 1 and "{{" not in filled
    by_window = package == BASELINES and styles.STYLES[name].by_window
    assert [part in filled for part in ("COUNT", "FIRST", "LAST")] == [
        not by_window and name != "distract_sections",
        by_window,
        by_window,
    ]


def test_turning_points_are_in_the_middle_of_their_sections():
    lines = read_templates(TWINS, ["distract_sections"])["distract_sections"].text.splitlines()
    for number in range(1, 6):
        middle = round(100 * (number - 0.5) / 5)
        (line,) = [line for line in lines if line.startswith(f"{number}. ")]
        assert f"usually in section {number}, at about {middle} %:" in line


def test_placeholders_in_values_are_not_filled():
    template = Template("mine", "{{count}}: {{story}} {not} {{ neither }} {{story}}")
    assert (
        template.fill({"story": "{{count}}", "count": 5})
        == "5: {{count}} {not} {{ neither }} {{count}}"
    )


def test_placeholders_of_other_prompts_are_unknown(tmp_path):
    for package, name in ((TWINS, "retell"), (BASELINES, "choose")):
        (tmp_path / package).mkdir()
        (tmp_path / package / f"{name}.txt").write_text("{{story}} {{first}}", encoding="utf-8")
    with pytest.raises(
        ValueError, match="unknown placeholder {{first}}; use {{story}}, {{count}}$"
    ):
        read_templates(TWINS, ["retell"], tmp_path / TWINS)
    template = read_templates(BASELINES, ["choose"], tmp_path / BASELINES, styles.PLACEHOLDERS)[
        "choose"
    ]
    assert template.has("first") and not template.has("last")


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
