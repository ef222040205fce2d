"""The tests of research/: its scripts import each other by their names, and the fixtures are those
of the tests of the package."""

import sys
from pathlib import Path

RESEARCH = Path(__file__).parents[1]
sys.path[:0] = [str(RESEARCH / folder) for folder in ("paper", "encoders", "tests")]

pytest_plugins = ["support.fixtures"]
