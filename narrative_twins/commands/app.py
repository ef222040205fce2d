"""`narrative-twins app`: serves a page to score stories on."""

from __future__ import annotations

from contextlib import closing

from narrative_twins.commands.serving_options import Serving
from narrative_twins.commands.signatures import Count, command


@command(extra="demo")
def app(
    server: Serving, *, model: str | None = None, exact: bool = False, max_sentences: Count = 500
) -> int:
    """Serve a web page to score stories and books on, until Ctrl-C. It sends them nowhere else.

    Args:
        model (ENCODER): Folder or Hub id (default: the default encoder).
        exact: Preselect exact scores on the page (default: one pass).
        max_sentences (N): Longer stories and books are scored in one pass only.
    """
    from transformers.utils import logging

    from narrative_twins.app.page import ScoringPage
    from narrative_twins.app.scoring import Scoring

    logging.disable_progress_bar()
    with closing(Scoring(model, max_sentences)) as scoring:
        server.serve(lambda: ScoringPage(scoring, "exact" if exact else "one pass"))
    return 0
