"""The spaCy component `narrative_salience`, to add after a component that finds sentences.

spaCy imports this module, which is an entry point of the package, whenever it makes a pipeline. So
it imports nothing large before the component is made.
"""

import sys
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Optional, Union

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.util import minibatch

from narrative_twins.extras import check_extra

if TYPE_CHECKING:
    from narrative_twins.encoder.story_encoder import StoryEncoder
    from narrative_twins.salience.result import StorySalience

NAME = "narrative_salience"
_LOADING = ("device", "dtype", "context_tokens")


def register_extensions(attribute: str = "salience") -> None:
    """Register the spaCy attributes `doc._.salience`, `doc._.salience_data` and
    `sentence._.salience`, to read documents that were scored elsewhere. `attribute` replaces
    `salience` in these names. Raises ValueError if another library has registered a name."""
    check_extra("spacy")
    if not Doc.has_extension(f"{attribute}_data"):
        Doc.set_extension(attribute, getter=partial(_salience_of, f"{attribute}_data"))
        Doc.set_extension(f"{attribute}_data", default=None)
        Span.set_extension(attribute, default=None)


def _salience_of(name: str, doc: Doc) -> Any:
    """Return the `StorySalience` of a document, made of the plain data in its attribute `name`;
    None if the attribute is not set."""
    from narrative_twins.salience.result import StorySalience

    data = doc._.get(name)
    return None if data is None else StorySalience.from_dict(data)


# Annotations are not postponed: spaCy checks the settings of a pipeline by this signature.
@Language.factory(NAME, requires=["doc.sents"], assigns=["doc._.salience", "doc._.salience_data"])
def make_component(
    nlp: Language,
    name: str,
    model: Optional[str] = None,
    operations: Optional[list[str]] = None,
    windows: Union[int, list[int], str] = "auto",
    approximate: Optional[str] = None,
    similarity: str = "cosine",
    on_truncation: str = "warn",
    device: Optional[str] = None,
    dtype: str = "auto",
    context_tokens: Optional[int] = None,
    attribute: str = "salience",
) -> "SalienceComponent":
    """Make a component from the settings of a pipeline; see `SalienceComponent`."""
    settings = {key: value for key, value in locals().items() if key not in ("nlp", "name")}
    return SalienceComponent(**settings)


class SalienceComponent(Pipe):
    """Scores the sentences of documents, each of which is a story.

    It sets three attributes: `sentence._.salience`, the scores of a sentence by operation;
    `doc._.salience`, the `StorySalience` of the document (None if it has no sentence); and
    `doc._.salience_data`, the same as plain data, which pickles, `DocBin` and JSON keep. A saved
    pipeline has the settings with the name of the encoder, but not the weights of the encoder.

    Args:
        model, device, dtype, context_tokens: see `StoryEncoder.from_pretrained`. The encoder is
            loaded for the first document; raises OSError if it can't be loaded.
        operations, windows, approximate, similarity, on_truncation: see `ScoringOptions`; raises
            ValueError if one is invalid.
        attribute: the name of the extension attributes.
    """

    def __init__(self, attribute: str, model: Optional[str], **settings: Any) -> None:
        from narrative_twins.salience.options import ScoringOptions

        self._attribute, self._model = attribute, model
        self._loading = {key: settings.pop(key) for key in _LOADING}
        self._settings = settings
        # The documents of a batch are in memory anyway, so all of them are scored together.
        self._options = ScoringOptions(**settings, on_error="skip", batch_size=sys.maxsize)
        register_extensions(attribute)

    @cached_property
    def encoder(self) -> "StoryEncoder":
        """The encoder, which is loaded on the first access."""
        from narrative_twins.encoder.story_encoder import StoryEncoder

        return StoryEncoder.from_pretrained(self._model, **self._loading)

    def __call__(self, doc: Doc) -> Doc:
        """Score a document and return it. Raises StoryError if the document can't be scored."""
        return next(self.pipe([doc]), doc)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 32) -> Iterator[Doc]:
        """Score and yield documents, each batch at once. A document that can't be scored goes to
        the pipeline's error handler; by default this raises the error, otherwise the document is
        left out."""
        for batch in minibatch(stream, batch_size):  # type: ignore[no-untyped-call]
            errors = self._score(batch)
            for index, error in errors.items():
                self.get_error_handler()(NAME, self, [batch[index]], error)
            yield from (doc for index, doc in enumerate(batch) if index not in errors)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process loads the encoder by its name.
        settings = self._loading | self._settings
        return partial(SalienceComponent, self._attribute, self._model, **settings), ()

    def _score(self, docs: list[Doc]) -> dict[int, Exception]:
        """Score documents, and set their attributes. Returns the error of each document that can't
        be scored, by the index of the document."""
        from narrative_twins.salience.engine import outcomes
        from narrative_twins.stories.story import StoryError

        stories, errors = dict[int, Any](), dict[int, Exception]()
        for index, doc in enumerate(docs):
            try:
                # Line breaks at the end of a sentence are tokens of it.
                sentences = [sentence.text.strip() for sentence in _sentences(doc)]
            except ValueError as error:  # of spaCy, on how to find sentences
                errors[index] = error
                continue
            if sentences:
                stories[index] = {"text": doc.text, "sentences": sentences}
        scored = outcomes([*stories.values()], self.encoder, self._options) if stories else ()
        for index, outcome in zip(stories, scored, strict=True):
            if isinstance(outcome, StoryError):
                outcome.index = None  # users do not know this index
                errors[index] = outcome
            else:
                self._set_attributes(docs[index], outcome)
        return errors

    def _set_attributes(self, doc: Doc, result: "StorySalience") -> None:
        """Set the attributes of a document and of its sentences."""
        doc._.set(f"{self._attribute}_data", result.json())
        for index, sentence in enumerate(_sentences(doc)):
            scores = {name: values[index] for name, values in result.scores.items()}
            sentence._.set(self._attribute, scores)


def _sentences(doc: Doc) -> list[Span]:
    """Return the sentences of a document that are not white space. Raises a ValueError of spaCy if
    no component has found sentences."""
    return [sentence for sentence in doc.sents if sentence.text.strip()]
