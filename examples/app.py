"""The web page, as a Hugging Face Space runs it: for everybody, with the default encoder, and no story may take long.

python examples/app.py

On your own machine the command `narrative-twins app` is what you want. To make a Space, upload this file as `app.py`
with `hub_cards/space_card.md` as `README.md`, and a `requirements.txt` that names `narrative_twins[demo]` or where to
get it.
"""

from narrative_twins.app.server import serve

if __name__ == "__main__":
    try:
        serve("0.0.0.0", 7860, patience=120)
    except KeyboardInterrupt:
        pass
