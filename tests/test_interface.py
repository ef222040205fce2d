"""The public interface is unchanged: names and their modules, options of commands, scores."""

import json
from pkgutil import resolve_name

import pytest

from support import make_interface

INTERFACE = json.loads(make_interface.FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("module", "name"),
    [(module, name) for module, names in INTERFACE["names"].items() for name in names],
)
def test_public_names_are_unchanged(module, name):
    assert getattr(resolve_name(module), name) is not None


def test_options_of_commands_are_unchanged():
    """All options with their choices."""
    assert make_interface.usage() == INTERFACE["usage"]


@pytest.mark.slow
def test_scores_are_unchanged():
    results = make_interface.scores()
    for scores, expected in zip(results, INTERFACE["scores"], strict=True):
        assert scores.keys() == expected.keys()
        for name, values in expected.items():
            assert scores[name] == pytest.approx(values, abs=1e-6)
