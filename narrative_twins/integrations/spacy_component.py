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
    """Register `doc._.salience`, `doc._.salience_data` and `span._.salience`, to read documents
    that were scored elsewhere. Adding the component to a pipeline does so too.

    Args:
        attribute: another name, if the component had one.

    Raises:
        ValueError: another library has registered extension attributes of this name.
    """
    check_extra("spacy")
    extensions = (
        (Doc, attribute, _salience_of_doc, None),
        (Doc, f"{attribute}_data", _data_of_doc, partial(_store, attribute)),
        (Span, attribute, _scores_of_span, None),
    )
    for kind, name, getter, setter in extensions:
        if kind.has_extension(name):
            known = getattr(kind.get_extension(name)[2], "func", None)
            # Compared by name, as a notebook may have imported the module again.
            if getattr(known, "__qualname__", None) != getter.__qualname__:
                raise ValueError(
                    f"{kind.__name__.lower()}._.{name} is an extension attribute already;"
                    ' choose another name, for example config={"attribute": "narrative_salience"}'
                )
        kind.set_extension(name, getter=partial(getter, attribute), setter=setter, force=True)


# Annotations are not postponed: spaCy checks the settings of a pipeline by those of the factory.
@Language.factory(
    NAME,
    assigns=["doc._.salience", "doc._.salience_data", "span._.salience"],
    requires=["doc.sents"],
)
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

    `doc._.salience` is then the `StorySalience` of the document (None if it has no sentence),
    `doc._.salience_data` the same as plain data, and `sent._.salience` the scores of a sentence by
    operation. Any other span has the scores of the sentence that it lies in, and None if it lies in
    none or in several.

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
        from narrative_twins.salience.options import ScoringOptions

        self.settings: dict[str, Any] = {"attribute": attribute, **settings}
        self._encoder: Optional[StoryEncoder] = None
        self._options = {
            name: value for name, value in settings.items() if name not in _ENCODER_SETTINGS
        }
        ScoringOptions(**self._options)  # an invalid one is refused now
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
            _store(self.settings["attribute"], docs[indices[result.index]], result.json())
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


def _place(attribute: str, start: int, end: int) -> tuple[str, str, int, int]:
    """The key in `doc.user_data` of the scores of a text, whose plain data pickles, `DocBin` and
    other processes keep. It is that of an attribute of a span, so `Doc.from_docs` moves it along
    with the text."""
    return "._.", f"narrative_twins.{attribute}", start, end


def _store(attribute: str, doc: Doc, result: Optional[dict[str, Any]]) -> None:
    """Store a result, as from `StorySalience.json`, in place of others; the setter of
    `doc._.salience_data`, which `Doc.from_json` calls."""
    user_data: dict[Any, Any] = doc.user_data
    for start, end, _ in _stored(attribute, doc):
        del user_data[_place(attribute, start, end)]
    if result is not None:
        user_data[_place(attribute, 0, _end(doc))] = result


def _end(doc: Doc) -> int:
    """Where the last token ends."""
    return doc[-1].idx + len(doc[-1]) if len(doc) else 0


def _stored(attribute: str, doc: Doc) -> list[tuple[int, int, dict[str, Any]]]:
    """The start, the end and the scores of each scored text of a document, in order. A text of
    which the document has a part only (`as_doc`) is left out: its scores are those of the whole."""
    prefix, end = _place(attribute, 0, 0)[:2], _end(doc)
    user_data: dict[Any, Any] = doc.user_data
    found = [
        (*key[2:], data)
        for key, data in user_data.items()
        if isinstance(key, tuple) and key[:2] == prefix
    ]
    inside = [place for place in found if place[0] >= 0 and place[1] <= end]
    return sorted(inside, key=lambda place: place[0])


def _salience_of_doc(attribute: str, doc: Doc) -> "Optional[StorySalience]":
    """The getter of `doc._.salience`."""
    from narrative_twins.salience.result import StorySalience
    from narrative_twins.stories.story import Story

    sentences: list[str] = []
    spans: list[tuple[int, int]] = []
    windows: list[tuple[int, int]] = []
    scores: dict[str, list[float]] = {}
    common: dict[str, Any] = {}
    cut_tokens, scored_to, text = 0, 0, doc.text
    for start, end, data in _stored(attribute, doc):
        settings = {key: data[key] for key in ("context_tokens", "approximate", "dtype")}
        alike = scores.keys() == data["scores"].keys() and settings == common
        if text[scored_to:start].strip() or not (alike or not scores):
            return None
        common, scored_to = settings, end
        cut_tokens = max(cut_tokens, data["cut_tokens"])
        sentences += data["sentences"]
        windows += [(lo + len(spans), hi + len(spans)) for lo, hi in data["windows"]]
        spans += [(lo + start, hi + start) for lo, hi in data["spans"]]
        for name, values in data["scores"].items():
            scores.setdefault(name, []).extend(values)
    found = [text[start:end] for start, end in spans]
    if not scores or text[scored_to:].strip() or found != sentences:
        return None
    story = Story(tuple(sentences), text, tuple(spans), tuple(windows))
    return StorySalience(story, scores, cut_tokens=cut_tokens, **common)


def _data_of_doc(attribute: str, doc: Doc) -> Optional[dict[str, Any]]:
    """The getter of `doc._.salience_data`."""
    result = _salience_of_doc(attribute, doc)
    return None if result is None else result.json()


def _scores_of_span(attribute: str, span: Span) -> Optional[dict[str, float]]:
    """The getter of `span._.salience`."""
    # White space around the words of a span is in no sentence.
    text = span.text.strip()
    start = span.start_char + span.text.find(text)
    for first, last, data in _stored(attribute, span.doc):
        index = bisect_right(data["spans"], start - first, key=lambda found: found[0]) - 1
        if not first <= start < last or index < 0 or not text:
            continue
        at = start - first - data["spans"][index][0]
        # The text is compared, as parts of documents can be put together, too.
        if data["sentences"][index][at : at + len(text)] == text:
            return {name: values[index] for name, values in data["scores"].items()}
    return None
