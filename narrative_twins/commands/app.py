"""`narrative-twins app`: serves a page to score stories on."""

from __future__ import annotations

from contextlib import closing

from narrative_twins.commands.serving_options import Serving
from narrative_twins.commands.signatures import Count, command


@command(extra="demo")
def app(
    server: Serving,
    *,
    model: str | None = None,
    base_folder: str | None = None,
    exact: bool = False,
    max_sentences: Count = 500,
) -> int:
    """Serve a web page to score stories and books on, until Ctrl-C. It sends them nowhere else.

    Args:
        model (ENCODER): default, base, multilingual, or folder or Hub id (default: default).
        base_folder (DIR): Folder with the base of an adapter, such as multilingual.
        exact: Preselect exact scores on the page (default: one pass).
        max_sentences (N): Longer stories and books are scored in one pass only.
    """
    from narrative_twins.app.page import ScoringPage
    from narrative_twins.app.scoring import Scoring
    from narrative_twins.encoder.loading import no_progress_bars

    with no_progress_bars(), closing(Scoring(model, max_sentences, base_folder)) as scoring:
        server.serve(lambda: ScoringPage(scoring, "exact" if exact else "one pass"))
    return 0
