"""The encoder of a push: checked, in one plain folder, and the base model for its card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id

from narrative_twins.encoder.adapters import adapter_kind
from narrative_twins.encoder.backends import BACKENDS
from narrative_twins.encoder.export import check_export
from narrative_twins.encoder.loading import DEFAULT_ENCODER
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.hub.facts import UNKNOWN, EncoderFacts


def checked_encoder(
    encoder: Any, scratch: Path, facts: EncoderFacts | None
) -> tuple[Path, EncoderFacts | None]:
    """The folder and facts of an encoder to push.

    It is checked by loading it, and saved to `scratch` unless it is a folder in the layout of
    sentence-transformers. A PEFT adapter is merged into the saved weights, and the facts then name
    its base, unless they name one.

    Args:
        encoder: a folder, a `StoryEncoder` or a `SentenceTransformer`.
        scratch: an empty folder.
        facts: the facts for the card, if any.

    Raises:
        ImportError: the library of an exported model in the folder is missing.
        OSError, ValueError: the encoder is missing or unsuitable for salience, its adapter can't be
            merged, or an exported model in its folder differs from it.
    """
    if isinstance(encoder, (str, Path)):
        if not Path(encoder).is_dir():
            raise FileNotFoundError(
                f"{encoder} is not a local folder; give the folder of a saved encoder"
            )
        loaded = StoryEncoder.from_pretrained(encoder, device="cpu")
        if (Path(encoder) / "modules.json").is_file() and adapter_kind(loaded.model) is None:
            _check_exports(Path(encoder))
            return Path(encoder), facts
    elif isinstance(encoder, StoryEncoder):
        loaded = encoder
    else:
        loaded = StoryEncoder.from_sentence_transformer(encoder)
    loaded.save_pretrained(scratch)
    if adapter_kind(loaded.model) is not None and (facts is None or facts.base_model == UNKNOWN):
        base, base_id = base_model(loaded.model)
        known = facts or EncoderFacts()
        facts = replace(known, base_model=base, base_model_id=known.base_model_id or base_id)
    return scratch, facts


def _check_exports(folder: Path) -> None:
    """Raise a ValueError if an exported model in a folder has other vectors than its encoder, as
    after training."""
    found = [name for name, backend in BACKENDS.items() if (folder / backend.files()[0]).is_file()]
    if found:
        encoder = StoryEncoder.from_pretrained(folder, device="cpu", dtype="float32")
    for backend in found:
        try:
            check_export(encoder, folder, backend)
        except ImportError:
            raise
        except Exception as error:  # of any kind, since the file may contain anything
            export = f"narrative-twins export {folder} --backend {backend} --to {folder}"
            raise ValueError(
                f"{error}; export it again (`{export}`), or remove {folder / backend}"
            ) from error


def base_model(model: Any) -> tuple[str, str | None]:
    """A description of the base of a `transformers` model without any local path, and its Hub id if
    it has one."""
    name = str(getattr(model.config, "_name_or_path", "") or "")
    kind = adapter_kind(model)
    adapter = f", with an adapter ({kind}) merged into it" if kind is not None else ""
    if name == str(DEFAULT_ENCODER):
        return f"the default encoder of narrative_twins{adapter}", None
    if Path(name).exists() or not is_hub_id(name):
        return f"a local {model.config.model_type} model{adapter}", None
    return f"[{name}](https://huggingface.co/{name}){adapter}", name


def is_hub_id(name: str) -> bool:
    """Whether `name` has the form of an id on the Hub."""
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True
