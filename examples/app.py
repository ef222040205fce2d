"""The web page for a Hugging Face Space: public, with the default encoder and a time limit for each story.

    python examples/app.py

On your own machine, use the command `narrative-twins app`. To create a Space, upload this file as `app.py`, the file
`hub_cards/space_card.md` as `README.md`, and a `requirements.txt` with `narrative_twins[demo]` or its URL.
"""

from narrative_twins.app.server import serve

if __name__ == "__main__":
    try:
        serve("0.0.0.0", 7860, patience=120)
    except KeyboardInterrupt:
        pass
