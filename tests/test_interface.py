"""What users rely on stays: names and where they are imported from, options of commands, scores."""

from __future__ import annotations

import json
from pkgutil import resolve_name

import pytest

from support import make_interface

INTERFACE = json.loads(make_interface.FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in INTERFACE["names"].items() for name in names]
)
def test_public_names_stay_where_they_are(module, name):
    assert getattr(resolve_name(module), name) is not None


@pytest.mark.parametrize("command", INTERFACE["usage"])
def test_options_of_commands_stay(command):
    """All options with their choices, in whatever order."""
    found, expected = make_interface.usage(command), INTERFACE["usage"][command]
    assert sorted(found.replace("]", "[").split("[")) == sorted(expected.replace("]", "[").split("["))


def test_scores_stay():
    found = make_interface.scores()
    for one, expected in zip(found, INTERFACE["scores"], strict=True):
        assert one.keys() == expected.keys()
        for name, values in expected.items():
            assert one[name] == pytest.approx(values, abs=1e-6)
