"""The web page for a Hugging Face Space: public, with the default encoder and a time limit for each
story.

    python examples/app.py

On your own machine, use the command `narrative-twins app`. To create a Space, upload this file as
`app.py`, the file `hub_cards/space_card.md` as `README.md`, and a `requirements.txt` with
`narrative_twins[demo]` or its URL.
"""

import os

from narrative_twins.app.server import serve

if __name__ == "__main__":
    # A Space is reached through a proxy only, which reports the address of the client.
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "*")
    name = os.environ.get("SPACE_HOST")
    try:
        serve("0.0.0.0", 7860, allow_hosts=[name] if name else [], patience=120)
    except KeyboardInterrupt:
        pass
