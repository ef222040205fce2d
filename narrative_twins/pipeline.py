"""The engine as a `transformers` pipeline: `pipeline("narrative-salience")`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from operator import itemgetter
from typing import Any, TypeAlias

from transformers import Pipeline
from transformers.pipelines import PIPELINE_REGISTRY

from narrative_twins.encoder.loading import (
    AutoStoryModel,
    default_encoder,
    hide_default_model_warning,
)
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.engine import handled, outcomes, score_stories
from narrative_twins.salience.options import SCORING_OPTIONS, ScoringOptions
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.story import Story, check_stories, is_table, plain_row

TASK = "narrative-salience"

Result: TypeAlias = StorySalience | None

_ENCODER_OPTIONS = [
    name
    for name, parameter in inspect.signature(StoryEncoder).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
]
_INSTEAD = {
    "truncation": "on_truncation= says what to do with stories that exceed the context",
    "max_length": "pipeline(..., context_tokens=N) sets how many tokens are read at once",
    "padding": "texts are padded as needed, or never with pipeline(..., attention='packed')",
    "top_k": "the result has the method top(k)",
}
"""What to use instead of options of other pipelines, by their names."""


class CountedResults(Iterator[Result]):
    """Iterator over the results of an input of known length, such as a data set. `len()` returns
    `count`, the length of the input. Each `for` loop begins again at the first story, with a new
    iterator that `start` returns."""

    def __init__(self, start: Callable[[], Iterator[Result]], count: int) -> None:
        self._start, self._count, self._results = start, count, start()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> CountedResults:
        self._results = self._start()
        return self

    def __next__(self) -> Result:
        return next(self._results)


class SaliencePipeline(Pipeline):
    """Scores the sentences of stories: `pipeline("narrative-salience")(story)`.

    The default `model` is the encoder that comes with the package, see `default_encoder`. A loaded
    `SentenceTransformer` is taken with its tokenizer: `pipeline("narrative-salience", model=model,
    tokenizer=model.tokenizer)`, or as `SaliencePipeline(model)`, which shares its weights. In
    addition to the options of all pipelines (`model`, `device`, `dtype`, `revision`, `token`,
    `local_files_only`, `model_kwargs` for `from_pretrained`, ...) it takes:

    - options of scoring, such as `operations`, also in a call: see `ScoringOptions`;
    - `pooling`, `context_tokens`, `batch_tokens`, `attention` (not in a call): see `StoryEncoder`.

    The result of one story (text, a mapping with `"sentences"` or `"text"`, a `Story`) is a
    `StorySalience`: a mapping with methods that show it. A list of stories gives a list of results.
    Any other iterable (generator, dataset, column) gives an iterator that reads at most a batch
    ahead, with a length if the iterable has one. With `on_error="skip"` a skipped story gives None.

    Example:
        ```python
        from narrative_twins import SaliencePipeline
        from transformers import pipeline

        salience = pipeline("narrative-salience", device="cpu")
        assert isinstance(salience, SaliencePipeline)
        print(salience("Nadia ran. The mill burned down.").extract(1))
        ```
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False
    # Early releases of transformers 5 read it in `save_pretrained` without setting it first.
    modelcard = None
    model: Any
    tokenizer: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._encoder_options = {key: kwargs.pop(key) for key in _ENCODER_OPTIONS if key in kwargs}
        self._encoder: StoryEncoder | None = None
        kwargs.pop("local_files_only", None)  # transformers has used it, but passes it on
        model = args[0] if args else kwargs.get("model")
        if hasattr(model, "encode") and hasattr(model, "tokenizer"):  # a SentenceTransformer
            encoder = StoryEncoder.from_sentence_transformer(model)
            kwargs |= {"model": encoder.model, "tokenizer": encoder.tokenizer.tokenizer}
            args = ()
        super().__init__(*args, **kwargs)
        _ = self.encoder  # a model that is no encoder is refused now

    @property
    def encoder(self) -> StoryEncoder:
        """The story encoder made of `model` and `tokenizer`. If another model or tokenizer has been
        assigned, a new encoder is made, which may raise the errors of `StoryEncoder`."""
        if not hasattr(self.model, "config"):  # torch.nn.DataParallel of the model
            self.model = getattr(self.model, "module", self.model)
        made = self._encoder
        if made and made.model is self.model and made.tokenizer.tokenizer is self.tokenizer:
            return made
        self._encoder = StoryEncoder(self.model, self.tokenizer, **self._encoder_options)
        return self._encoder

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Score `inputs`: a story, a list of stories or another iterable of stories. The docstring
        of the class says what is returned. `options` are fields of `ScoringOptions`."""
        _ = self.encoder  # the base class reads the model, which may have been assigned
        if not isinstance(inputs, (str, Mapping, Story)):
            inputs = plain_row(inputs)
        if isinstance(inputs, (str, Mapping, Story)):
            return super().__call__(inputs, **options)
        is_map_style = hasattr(inputs, "__getitem__") and not isinstance(inputs, Iterable)
        if not is_map_style or is_table(inputs):
            check_stories(inputs)
        _, scoring, _ = self._sanitize_parameters(**options)

        def start() -> Iterator[Result]:
            """Return a new iterator over the results of all stories."""
            items = map(inputs.__getitem__, range(len(inputs))) if is_map_style else inputs
            checked = scoring["options"]
            return handled(outcomes(items, self.encoder, checked), self.encoder, checked)

        if not isinstance(inputs, (list, tuple)):
            return CountedResults(start, len(inputs)) if isinstance(inputs, Sized) else start()
        return list(start())

    def __getstate__(self) -> dict[str, Any]:
        # The number of calls so far would give a used pipeline another fingerprint, and
        # `datasets.map` no cache.
        return {**self.__dict__, "call_count": 0}

    def save_pretrained(self, save_directory: str, **kwargs: Any) -> None:
        """Save the encoder to a folder. `kwargs` are options of `StoryEncoder.save_pretrained`."""
        self.encoder.save_pretrained(save_directory, **kwargs)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Push the encoder to the Hub with the card of the checkpoint that it was loaded from, and
        return the URL of the repository. `options` are further arguments of `push_encoder`."""
        from narrative_twins.hub.push import push_encoder

        return push_encoder(self.encoder, repo_id, **options)

    def _sanitize_parameters(
        self, **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Check the options of the pipeline, or of a call, which has the pipeline's but for those
        that it sets. Return the options of `preprocess` (none), of `_forward` (`options`) and of
        `postprocess` (none). Raises a `TypeError` for an unknown option."""
        options.pop("num_workers", None)
        for name in options:
            if name not in SCORING_OPTIONS:
                hint = _INSTEAD.get(
                    name,
                    f"a call takes {', '.join(SCORING_OPTIONS)}; options of from_pretrained are"
                    f" given to pipeline() as model_kwargs={{{name!r}: ...}}",
                )
                raise TypeError(f"unknown option {name!r}; {hint}")
        if self._batch_size is not None:  # which transformers keeps for all calls
            options = {"batch_size": self._batch_size} | options
        fields = getattr(self, "_fields", {}) | options
        checked = ScoringOptions(**fields)
        if not hasattr(self, "_fields"):  # an iterator over operations can be read once
            self._fields = {name: getattr(checked, name) for name in fields}
        return {}, {"options": checked}, {}

    def preprocess(self, inputs: Any) -> dict[str, Any]:
        """Return `{"story": inputs}`. The story is unchanged: the engine parses it."""
        return {"story": inputs}

    def _forward(self, model_inputs: dict[str, Any], options: ScoringOptions) -> dict[str, Any]:
        """Score one story, and return `{"salience": result}`, where a skipped story has None."""
        results = score_stories([model_inputs["story"]], self.encoder, options)
        return {"salience": next(results, None)}

    postprocess: Any = itemgetter("salience")


def register_pipeline() -> None:
    """Register the task `narrative-salience` with `transformers`, if it is not registered yet."""
    if TASK not in PIPELINE_REGISTRY.supported_tasks:
        PIPELINE_REGISTRY.register_pipeline(
            TASK,
            SaliencePipeline,
            pt_model=AutoStoryModel,
            default={"model": (default_encoder(), "main")},
            type="text",
        )
        hide_default_model_warning(default_encoder())
        # Otherwise `save_pretrained` would copy code into a checkpoint, which would then need
        # `trust_remote_code`.
        del SaliencePipeline._registered_impl
