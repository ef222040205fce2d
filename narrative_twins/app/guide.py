"""What the web page says about the operations: what each measures, and which to use for what."""

from __future__ import annotations

from html import escape

from narrative_twins.salience.operations import OPERATIONS

ADVICE = {
    "summarization": (
        "Agrees best with human readers, on short stories and films: the one to begin with."
    ),
    "deletion": (
        "Next in agreement with readers. In longer stories it follows the length of sentences"
        " closely."
    ),
    "shifting": "Shows how much the order matters, and where.",
    "disruption": (
        "Shows where the story takes a new direction. Its scores are high on the second and third"
        " sentence of a window, where little has been told; shades and underlines compare them with"
        " what is usual there."
    ),
}
"""For each operation of the package, in the order of their agreement with readers; see
docs/evaluation.md."""


def advice_on(operation: str) -> str:
    """When to use an operation, as HTML; empty for an operation that a user has registered."""
    return f'<p class="hint">{escape(ADVICE[operation])}</p>' if operation in ADVICE else ""


def guide() -> str:
    """The explanation of all operations, as HTML."""
    names = [*ADVICE, *(name for name in OPERATIONS if name not in ADVICE)]
    items = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(_sentence(OPERATIONS[name].meaning))}"
        f" {escape(ADVICE.get(name, ''))}</dd>"
        for name in names
    )
    return f"""<section class="guide"><h2>Four ways to measure salience</h2><dl>{items}</dl>
<p>A story of more than ten sentences is read in windows of about seven, and scores are best compared within a
window.</p></section>"""


def _sentence(meaning: str) -> str:
    return f"{meaning[:1].upper()}{meaning[1:]}."
