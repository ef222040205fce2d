"""Options of the encoder that a command loads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from narrative_twins.commands.signatures import Choices, Count
from narrative_twins.salience.options import ScoringOptions

if TYPE_CHECKING:
    from narrative_twins.encoder.story_encoder import StoryEncoder


@dataclass(frozen=True)
class EncoderOptions:
    """Options of the encoder to load, as for `StoryEncoder.from_pretrained`.

    Attributes:
        model (ENCODER): default, base, multilingual, or folder or Hub id (default: default).
        base_folder (DIR): Folder with the public encoder that an adapter, such as multilingual,
            is for (default: from the Hub, or its cache).
        revision (NAME): Branch, tag or commit of an encoder on the Hub.
        device (NAME): Device, such as cpu or cuda:0 (default: an accelerator, if any).
        dtype (NAME): Precision, such as float32 (default: the fastest that keeps ranks).
        pooling (NAME): mean, first, lasttoken or weightedmean (default: as in the checkpoint).
        prompt (TEXT): A text to read before every text (default: as in the checkpoint).
        prompt_name (NAME): A prompt of the checkpoint to read in place of its default.
        context_tokens (N): Tokens that are read at once (default: the encoder's maximum).
        batch_tokens (N): Tokens in a forward pass (default: by the device).
        attention (NAME): auto, packed or padded (default: auto).
    """

    heading: ClassVar = "Encoder"
    model: str | None = None
    base_folder: str | None = None
    revision: str | None = None
    device: str | None = None
    dtype: str = "auto"
    pooling: Annotated[str, Choices("encoder.loading", "POOLINGS")] | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    context_tokens: Count | None = None
    batch_tokens: Count | None = None
    attention: Annotated[str, Choices("encoder.loading", "ATTENTIONS")] = "auto"

    @property
    def loading(self) -> dict[str, Any]:
        """The keyword arguments for `StoryEncoder.from_pretrained`."""
        values = {name: value for name, value in asdict(self).items() if name != "model"}
        return {name: value for name, value in values.items() if value is not None}

    def load(self) -> StoryEncoder:
        """Load and return the encoder."""
        from narrative_twins.encoder.loading import no_progress_bars
        from narrative_twins.encoder.story_encoder import StoryEncoder

        with no_progress_bars():
            return StoryEncoder.from_pretrained(self.model, **self.loading)

    def settings(self, encoder: StoryEncoder, options: ScoringOptions) -> dict[str, Any]:
        """Return all that scores depend on, as JSON data. Only a run with equal data is resumed."""
        from narrative_twins.encoder.loading import encoder_settings

        return encoder_settings(self.model, encoder) | options.settings()
