"""The web page for a Hugging Face Space: public, with the default encoder, and exact scores for
short stories only.

    python examples/app.py

On your own machine, use the command `narrative-twins app`. To create a Space, upload this file as
`app.py`, the file `hub_cards/space_card.md` as `README.md`, and a `requirements.txt` with
`narrative_twins[demo]` or its URL.
"""

import os
from contextlib import closing, suppress

from narrative_twins.app.page import ScoringPage
from narrative_twins.app.scoring import Scoring
from narrative_twins.app.server import serve

if __name__ == "__main__":
    names = filter(None, [os.environ.get("SPACE_HOST")])
    with closing(Scoring(max_sentences=50)) as scoring, suppress(KeyboardInterrupt):
        port = int(os.environ.get("GRADIO_SERVER_PORT", "7860"))
        serve(lambda: ScoringPage(scoring), "0.0.0.0", port, allow_hosts=[*names])
