"""The endpoint `/score` of the web page, by which programs score stories: what it takes and
returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from narrative_twins.app.guard import Parameter
from narrative_twins.app.page import METHODS, Method, Page, Visitor
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.stories.splitting import SPLITTERS, SplitName, is_split_name

NAME = "score"
DESCRIPTION = (
    "Score a story: the salience of every sentence, by each operation. Until the story is scored,"
    " steps with phase, share and seconds_left are sent; the last one is the result."
)
RETURNS = (
    "sentences, spans (of characters), windows (of sentences), scores (by operation, one for each"
    " sentence), truncated, context_tokens, cut_tokens, approximate"
)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_operations(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= len(OPERATIONS)
        and all(name in list(OPERATIONS) for name in value)
    )


def parameters() -> list[Parameter]:
    """What the endpoint takes, in order."""
    return [
        Parameter("text", "the story as plain text", _is_text),
        Parameter("operations", f"a list of some of {', '.join(OPERATIONS)}", _is_operations),
        Parameter("windows", "text: auto, a count such as 5, or sizes such as 7, 7, 6", _is_text),
        Parameter(
            "method",
            f"{' or '.join(METHODS)}; one pass is fast but approximate",
            METHODS.__contains__,
        ),
        Parameter("split", f"what is scored: {', '.join(SPLITTERS)}", is_split_name),
    ]


def add_endpoint(gr: Any, page: Page) -> None:
    """Add the endpoint to the gradio blocks that are being built. It takes no encoder, which could
    be a path."""

    names = list(OPERATIONS)

    def score(
        request: Any,
        text: str,
        operations: list[str] = names,
        windows: str = "auto",
        method: Method = "exact",
        split: SplitName = "sentences",
    ) -> Iterator[dict[str, Any]]:
        try:
            yield from page.score_data(
                Visitor.of(request), text, operations, windows, method, split
            )
        except ValueError as error:
            raise gr.Error(str(error), print_exception=False) from None

    # gradio passes the request to a parameter with its type, and tells clients the types of the
    # others.
    score.__annotations__ = {
        "request": gr.Request,
        "text": str,
        "operations": list[Literal[tuple(OPERATIONS)]],  # type: ignore[misc]
        "windows": str,
        "method": Method,
        "split": SplitName,
        "return": dict[str, Any],
    }
    # gradio has no limit here, since `ScoringQueue` scores one story at a time.
    gr.api(score, api_name=NAME, api_description=DESCRIPTION, concurrency_limit=None)


def endpoint_info(blocks: Any) -> dict[str, Any]:
    """What gradio tells clients of the endpoint, with the descriptions of its parameters and of
    what it returns."""
    info: dict[str, Any] = blocks.get_api_info()
    endpoint = info["named_endpoints"][f"/{NAME}"]
    for told, parameter in zip(endpoint["parameters"], parameters(), strict=True):
        told["label"] = parameter.name
        told["python_type"]["description"] = parameter.takes
    (returned,) = endpoint["returns"]
    returned["label"] = "salience"
    returned["python_type"]["description"] = RETURNS
    return info
