"""`python -m narrative_twins`: the command line."""

from __future__ import annotations

import sys

from narrative_twins.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
