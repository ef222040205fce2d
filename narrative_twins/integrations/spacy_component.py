"""The spaCy component: `nlp.add_pipe("narrative_salience")`, after a component that finds
sentences.

spaCy imports this module, which is an entry point of the package, whenever it makes a pipeline. So
it imports nothing large before the component is made.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Optional, Union

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span

from narrative_twins.extras import check_extra

if TYPE_CHECKING:
    from narrative_twins.encoder.story_encoder import StoryEncoder
    from narrative_twins.salience.result import StorySalience

NAME = "narrative_salience"
ATTRIBUTE = "salience"
"""The default name of the extension attributes."""

_ENCODER_SETTINGS = ("model", "device", "dtype", "context_tokens")


def register_extensions(attribute: str = ATTRIBUTE) -> None:
    """Register `doc._.salience` and `span._.salience`, to read documents that were scored
    elsewhere. Adding the component to a pipeline does so too.

    Args:
        attribute: another name, if the component had one.

    Raises:
        ValueError: another library has registered extension attributes of this name.
    """
    check_extra("spacy")
    for kind, getter in ((Doc, _salience_of_doc), (Span, _scores_of_span)):
        if kind.has_extension(attribute):
            known = getattr(kind.get_extension(attribute)[2], "func", None)
            # Compared by name, as a notebook may have imported the module again.
            if getattr(known, "__qualname__", None) != getter.__qualname__:
                raise ValueError(
                    f"{kind.__name__.lower()}._.{attribute} is an extension attribute already;"
                    ' choose another name, for example config={"attribute": "narrative_salience"}'
                )
        kind.set_extension(attribute, getter=partial(getter, attribute), force=True)


# Annotations are not postponed: spaCy checks the settings of a pipeline by those of the factory.
@Language.factory(NAME, assigns=["doc._.salience", "span._.salience"], requires=["doc.sents"])
def make_component(
    nlp: Language,
    name: str,
    model: Optional[str] = None,
    operations: Optional[list[str]] = None,
    windows: Union[int, list[int], str] = "auto",
    approximate: Optional[str] = None,
    max_shifts: Optional[int] = None,
    on_truncation: str = "warn",
    device: Optional[str] = None,
    dtype: str = "auto",
    context_tokens: Optional[int] = None,
    attribute: str = ATTRIBUTE,
) -> "SalienceComponent":
    """Make a component from the settings of a pipeline; see `SalienceComponent`."""
    settings = {key: value for key, value in locals().items() if key not in ("nlp", "name")}
    return SalienceComponent(**settings)


class SalienceComponent(Pipe):
    """Scores the sentences of documents, each of which is a story.

    `doc._.salience` is then the `StorySalience` of the document (None if it has no sentence), and
    `sent._.salience` the scores of a sentence by operation. Any other span has the scores of the
    sentence that it lies in, and None if it lies in none or in several.

    A saved pipeline has these settings in its configuration, in which the encoder is named; the
    weights of the encoder are not included.

    Args:
        model, device, dtype, context_tokens: the encoder, see `StoryEncoder.from_pretrained`. It is
            loaded for the first document.
        operations, windows, approximate, max_shifts, on_truncation: see `score_stories`.
        attribute: the name of the extension attributes.

    Raises:
        ImportError: spaCy is too old.
        ValueError: a setting is invalid, or the name of the attributes is taken.
    """

    def __init__(self, *, attribute: str = ATTRIBUTE, **settings: Any) -> None:
        from narrative_twins.salience.options import checked_options

        self.settings: dict[str, Any] = {"attribute": attribute, **settings}
        self._encoder: Optional[StoryEncoder] = None
        self._options = {
            name: value for name, value in settings.items() if name not in _ENCODER_SETTINGS
        }
        checked_options(self._options)
        register_extensions(attribute)

    @property
    def encoder(self) -> "StoryEncoder":
        """The encoder, which is loaded when it is first asked for. Raises OSError if it can't be
        loaded."""
        if self._encoder is None:
            from narrative_twins.encoder.story_encoder import StoryEncoder

            options = {key: self.settings[key] for key in _ENCODER_SETTINGS if key in self.settings}
            self._encoder = StoryEncoder.from_pretrained(options.pop("model", None), **options)
        return self._encoder

    def __call__(self, doc: Doc) -> Doc:
        """Score a document; raises a StoryError if it has no sentence boundaries, or can't be
        scored."""
        for error in self._score([doc]).values():
            raise error
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 32) -> Iterator[Doc]:
        """Score documents, those of a batch together. A document that can't be scored goes to the
        error handler of the pipeline, which raises its error by default; else the document is left
        out."""
        docs = iter(stream)
        while batch := list(islice(docs, batch_size)):
            errors = self._score(batch)
            for index, error in errors.items():
                self.get_error_handler()(NAME, self, [batch[index]], error)
            yield from (doc for index, doc in enumerate(batch) if index not in errors)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process loads the encoder by its name, and sets its own error handler.
        return partial(SalienceComponent, **self.settings), ()

    def _score(self, docs: list[Doc]) -> dict[int, Exception]:
        """Score documents together, and store the results; returns the errors of those that can't
        be, by their indices."""
        from narrative_twins.salience.engine import score_stories
        from narrative_twins.stories.story import StoryError

        errors: dict[int, Exception] = {}
        indices = [index for index, doc in enumerate(docs) if doc.text.strip()]
        if not indices:
            return errors

        def failed(error: StoryError) -> None:
            index, error.index = indices[error.index or 0], None  # it means nothing to users
            errors[index] = error

        results = score_stories(
            [_story_of(docs[index]) for index in indices],
            self.encoder,
            batch_size=len(indices),
            on_error=failed,
            **self._options,
        )
        for result in results:
            data = result.to_dict() | {"characters": len(result.story.text)}
            # Sentences are in the document already.
            del data["sentences"], data["truncated"]
            docs[indices[result.index]].user_data[_key(self.settings["attribute"])] = data
        return errors


def _story_of(doc: Doc) -> Any:
    """The story of a document, or its error."""
    from narrative_twins.stories.story import StoryError

    if not doc.has_annotation("SENT_START"):
        return StoryError(
            "the document has no sentence boundaries; add a component that finds them before this"
            ' one, for example nlp.add_pipe("sentencizer", before="narrative_salience"), or a'
            " parser"
        )
    # Line breaks at the end of a sentence are tokens of it.
    sentences = [text for sentence in doc.sents if (text := sentence.text.strip())]
    return {"text": doc.text, "sentences": sentences}


def _key(attribute: str) -> str:
    """The key in `doc.user_data`, whose plain data pickles, `DocBin` and other processes keep."""
    return f"narrative_twins.{attribute}"


def _stored(attribute: str, doc: Doc) -> Optional[dict[str, Any]]:
    """What is stored; None if there is nothing, or it is of another text, as in a part of a
    document (`as_doc`)."""
    stored: Optional[dict[str, Any]] = doc.user_data.get(_key(attribute))
    characters = doc[-1].idx + len(doc[-1].text_with_ws) if len(doc) else 0
    return stored if stored is not None and stored["characters"] == characters else None


def _salience_of_doc(attribute: str, doc: Doc) -> "Optional[StorySalience]":
    """The getter of `doc._.salience`."""
    from narrative_twins.salience.result import StorySalience
    from narrative_twins.stories.story import Story

    stored = _stored(attribute, doc)
    if stored is None:
        return None
    # `DocBin` makes tuples of lists.
    spans, windows = (tuple(map(tuple, stored[key])) for key in ("spans", "windows"))
    story = Story(tuple(doc.text[start:end] for start, end in spans), doc.text, spans, windows)
    scores = {name: list(values) for name, values in stored["scores"].items()}
    context = (stored[key] for key in ("context_tokens", "cut_tokens", "approximate"))
    return StorySalience(story, scores, *context)


def _scores_of_span(attribute: str, span: Span) -> Optional[dict[str, float]]:
    """The getter of `span._.salience`."""
    stored = _stored(attribute, span.doc)
    if stored is None or not span.text.strip():
        return None
    # White space around the words of a span is in no sentence.
    start = span.start_char + len(span.text) - len(span.text.lstrip())
    end = start + len(span.text.strip())
    index = bisect_right(stored["spans"], start, key=lambda found: found[0]) - 1
    if index < 0 or end > stored["spans"][index][1]:
        return None
    return {name: values[index] for name, values in stored["scores"].items()}
