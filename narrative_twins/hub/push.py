"""Upload of encoders and data sets to the Hub. Files and card are first written into a temporary
folder, and then uploaded in a single commit."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from datasets import Dataset, DatasetDict
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

from narrative_twins.data.sources import CARD, HUB_ID
from narrative_twins.encoder.adapters import ADAPTER_FILES, adapter_kind
from narrative_twins.encoder.loading import (
    DEFAULT_ENCODER,
    CheckpointSettings,
    adapter_at,
    check_weights,
    find_file,
    read_checkpoint_settings,
    same_weights,
)
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.hub.cards import card_of_rows, encoder_card, with_id, without_figures
from narrative_twins.hub.facts import UNKNOWN, DatasetFacts, EncoderFacts, Facts
from narrative_twins.text import LONGEST_MESSAGE, shortened

logger = logging.getLogger(__name__)

_ENCODER_FILES = """
config.json modules.json config_sentence_transformers.json sentence_*bert*_config.json
sentence_xlnet_config.json [0-9]_[A-Z]*/config.json [0-9]_[A-Z]*/model.safetensors model.safetensors
model.safetensors.index.json model-?????-of-?????.safetensors tokenizer.json tokenizer_config.json
special_tokens_map.json added_tokens.json vocab.txt vocab.json merges.txt sentencepiece.bpe.model
spiece.model tokenizer.model LICENSE LICENSE.txt LICENSE.md
""".split()
"""Patterns of the files of an encoder in the layout of sentence-transformers. None matches
checkpoints, optimizer states, logs, data or pickled weights, which training leaves next to them."""
_HTTP_ERROR: Any = HfHubHTTPError.__bases__[0]
"""The class of all errors of huggingface_hub's HTTP client, also of the connection."""


class HubError(OSError):
    """A push failed; the message has the reason and the fix."""


class PushOptions(TypedDict, total=False):
    """Options of a push.

    Attributes:
        private: make the repository private if it is created.
        update: allow a repository that already has files; otherwise a HubError is raised.
        revision: the branch, created if missing; default `main`.
        token: the Hub token; default by `hf auth login` or HF_TOKEN.
        commit_message: the message of the commit.
    """

    private: bool
    update: bool
    revision: str | None
    token: str | bool | None
    commit_message: str | None


def push_encoder(
    encoder: str | Path | StoryEncoder | Any,
    repo_id: str,
    *,
    facts: EncoderFacts | None = None,
    merged: bool = True,
    **options: Unpack[PushOptions],
) -> str:
    """Push an encoder in the plain layout of sentence-transformers, with its model card. Returns
    the URL of the repository. Only files of the encoder are pushed: no checkpoints, optimizer
    states, logs, pickled weights.

    Args:
        encoder: a folder, a `StoryEncoder` or a `SentenceTransformer`. A PEFT adapter, even if the
            folder has nothing else, is merged into a copy of the weights.
        repo_id: the Hub id, `user/name`.
        facts: facts for the card; None for the card in the folder, or for an encoder in memory, the
            card of the checkpoint that it was loaded from, if its weights have not changed since
            (without its figures, if it has another pooling or prompt); otherwise a card without
            facts.
        merged: if False, the adapter in a folder is pushed alone, for a base that is on the Hub.
        options: see `PushOptions`.

    Raises:
        HubError: the push failed.
        OSError, ValueError: the encoder is missing or unsuitable for salience, its adapter can't be
            merged, or the base of an adapter to push alone is not on the Hub; nothing was pushed.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_encoder(encoder, folder, repo_id, facts, merged)
        return _push(folder, repo_id, "model", options)


def write_encoder(
    encoder: Any,
    folder: str | Path,
    repo_id: str,
    facts: EncoderFacts | None = None,
    merged: bool = True,
) -> None:
    """Write an encoder and its card into an empty folder, as `push_encoder` uploads them. The
    encoder is checked by loading it. Arguments and errors are as in `push_encoder`."""
    source = Path(encoder) if isinstance(encoder, (str, Path)) else None
    encoder = _loaded(encoder)
    has_adapter = adapter_kind(encoder.model) is not None
    if not merged and has_adapter:
        _check_adapter(source)
    # A folder in this layout, or of an adapter, is copied, not saved again, so that all its
    # settings are kept.
    is_alone = has_adapter and not merged
    is_copied = source is not None and (is_alone or (source / "modules.json").is_file())
    if source is not None and is_copied and not (has_adapter and merged):
        patterns = (*_ENCODER_FILES, *ADAPTER_FILES)
        paths = [path for pattern in patterns for path in source.glob(pattern)]
        write_files(folder, {path.relative_to(source).as_posix(): path for path in paths})
    else:
        encoder.save_pretrained(folder)
    card = _card_of_encoder(encoder, source, folder, facts, merged)
    write_files(folder, {CARD: with_id(card, repo_id)})


def _loaded(encoder: str | Path | StoryEncoder | Any) -> StoryEncoder:
    """Return the `StoryEncoder` of a folder or of a `SentenceTransformer`."""
    if isinstance(encoder, StoryEncoder):
        return encoder
    if isinstance(encoder, (str, Path)):
        return StoryEncoder.from_pretrained(encoder, device="cpu")
    return StoryEncoder.from_sentence_transformer(encoder)


def _check_adapter(source: Path | None) -> None:
    """Raise a ValueError unless `source` is the folder of an adapter that users can load: with a
    base on the Hub."""
    adapter = None if source is None else adapter_at(source)
    if adapter is None:
        raise ValueError(
            "merged=False is for the folder of an adapter, as trainer.save_encoder(folder,"
            " merged=False) or save_pretrained of peft writes it"
        )
    if not HUB_ID.fullmatch(adapter[0]) or Path(adapter[0]).exists():
        raise ValueError(
            f"the base of the adapter, {adapter[0]!r}, is not on the Hub, so that others can't load"
            " it; push the base and name it in adapter_config.json, or push the adapter merged"
            " (--merged)"
        )


def _card_of_encoder(
    encoder: StoryEncoder,
    source: Path | None,
    folder: str | Path,
    facts: EncoderFacts | None,
    merged: bool,
) -> str:
    """Return the card of an encoder that is written to `folder`: of its facts, which name the base
    of an adapter; without facts, the card in its folder `source`, or in the `_unchanged_source` of
    an encoder in memory, if there is one. If an adapter is merged, it is used only if it is a card
    of this package, which names the adapter."""
    kind = adapter_kind(encoder.model)
    has_adapter = kind is not None
    if facts is None and has_adapter and merged and source and (source / CARD).is_file():
        card = (source / CARD).read_text(encoding="utf-8")
        named = f", with an adapter ({kind})"
        if named in card:
            return card.replace(named, f"{named} merged into it", 1)
    if facts is None and not (has_adapter and merged):
        origin = source or _unchanged_source(encoder, folder)
        if origin is not None and (origin / CARD).is_file():
            card = (origin / CARD).read_text(encoding="utf-8")
            changes = _changed_settings(encoder, origin) if source is None else ""
            return without_figures(card, changes) if changes else card
    if has_adapter and (facts is None or facts.base_model == UNKNOWN):
        base, base_id = base_model(encoder.model, merged)
        facts = facts or EncoderFacts()
        facts = replace(facts, base_model=base, base_model_id=facts.base_model_id or base_id)
    return str(encoder_card(_facts(facts, EncoderFacts())))


def _unchanged_source(encoder: StoryEncoder, folder: str | Path) -> Path | None:
    """Return the folder, in the cache for an encoder of the Hub, that an encoder in memory was
    loaded from; None if there is none, or if its weights differ from those that are saved in
    `folder`, since the card of the source then describes another encoder."""
    name = str(getattr(encoder.model, "name_or_path", "") or "")
    revision = getattr(encoder.model.config, "_commit_hash", None)
    hub = {"revision": revision}
    try:
        card = find_file(name, CARD, hub) if name else None
        if card and same_weights(check_weights(name, hub), check_weights(folder, {})):
            return Path(card).parent
    except (OSError, ValueError):  # the source is gone, or has no such weights
        pass
    return None


def _changed_settings(encoder: StoryEncoder, origin: Path) -> str:
    """Return in words what an encoder was loaded with in place of the settings of its checkpoint,
    the folder `origin`: its pooling, its prompt; empty if they are the same."""
    saved = CheckpointSettings()
    with suppress(OSError):  # its settings are invalid, but others were given
        saved = read_checkpoint_settings(origin)
    pooling = saved.pooling or getattr(encoder.model, "default_pooling", "mean")
    settings = {"pooling": (encoder.pooling, pooling), "prompt": (encoder.prompt, saved.prompt)}
    return ", ".join(
        f"{name} `{json.dumps(now, ensure_ascii=False)}` in place of"
        f" `{json.dumps(before, ensure_ascii=False)}`"
        for name, (now, before) in settings.items()
        if now != before
    )


def _facts(facts: Facts | None, default: Facts) -> Facts:
    """Return the facts; if they are None, warn and return `default`."""
    if facts is None:
        logger.warning("the card has no facts; give facts=, such as the licence and the source")
    return facts or default


def base_model(model: Any, merged: bool = True) -> tuple[str, str | None]:
    """Return the name, for a card, and the Hub id of the checkpoint that a `transformers` model was
    loaded from. A checkpoint without an id is named like `a local bert model`, with the id None.
    `merged` says whether an adapter is merged into the weights that the card describes."""
    name = str(getattr(model.config, "_name_or_path", "") or "")
    kind = adapter_kind(model)
    adapter = f", with an adapter ({kind})" if kind is not None else ""
    adapter += " merged into it" if adapter and merged else ""
    if name == str(DEFAULT_ENCODER):
        return f"the default encoder of narrative_twins{adapter}", None
    # A relative path may look like an id.
    if HUB_ID.fullmatch(name) and not Path(name).exists():
        return f"[{name}](https://huggingface.co/{name}){adapter}", name
    return f"a local {model.config.model_type} model{adapter}", None


def push_dataset(
    data: Dataset | DatasetDict | Mapping[str, Dataset | DatasetDict],
    repo_id: str,
    *,
    facts: DatasetFacts | None = None,
    **options: Unpack[PushOptions],
) -> str:
    """Push a data set as Parquet, with its card; `datasets.load_dataset(repo_id, configuration)`
    loads it. `data` is a data set, its splits, or several configurations by name. `facts` are for
    the card, which also has columns and counts. Other arguments, the result and errors are as in
    `push_encoder`. Raises ValueError if a configuration or split has no rows."""
    data = {"default": data} if isinstance(data, (Dataset, DatasetDict)) else data
    parts = {
        name: {"train": part} if isinstance(part, Dataset) else dict(part)
        for name, part in data.items()
    }
    if not parts or not all(splits and all(splits.values()) for splits in parts.values()):
        raise ValueError("a configuration or split has no rows to push; leave it out")
    with tempfile.TemporaryDirectory() as folder:
        card = card_of_rows(parts, _facts(facts, DatasetFacts()), repo_id)
        write_files(folder, {CARD: str(card)})
        for name, splits in parts.items():
            Path(folder, name).mkdir()
            for split, rows in splits.items():
                rows.to_parquet(Path(folder, name, parquet_name(split)))
        return _push(folder, repo_id, "dataset", options)


def full_id(name: str, token: str | bool | None = None) -> str:
    """Return the Hub id of a repository: `"name"` → `"user/name"`, with the user of the token; a
    name with a user is returned unchanged. Raises HubError if the token is invalid."""
    with _hub_errors(name):
        return name if "/" in name else f"{HfApi(token=token).whoami()['name']}/{name}"


def write_files(folder: str | Path, content: Mapping[str, Path | str]) -> None:
    """Write files into a folder. `content` has for the name of each file its text, or the `Path` of
    a file to copy."""
    for name, source in content.items():
        target = Path(folder, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, Path):
            shutil.copyfile(source, target)
        else:
            target.write_text(source, encoding="utf-8", newline="\n")


def parquet_name(split: str) -> str:
    """Return the Hub's name for the file of a split, such as `train-00000-of-00001.parquet`."""
    return f"{split}-00000-of-00001.parquet"


def _push(folder: str, repo_id: str, kind: str, options: PushOptions) -> str:
    """Upload a folder to a repository, which is created if it does not exist, and return its URL.
    `kind` is `"model"` or `"dataset"`. Raises HubError if the upload fails, or if the repository
    has files and the option `update` is not set."""
    revision = options.get("revision")
    with _hub_errors(repo_id):
        api = HfApi(token=options.get("token"), library_name="narrative_twins")
        where: dict[str, Any] = {"repo_id": repo_id, "repo_type": kind}
        url = api.create_repo(**where, private=options.get("private", False), exist_ok=True)
        existing = set(api.list_repo_files(**where)) - {".gitattributes"}
        # An interrupted push leaves a repository without files, into which the next attempt pushes.
        if existing and not options.get("update"):
            raise HubError(
                f"{repo_id} is already on the Hub, with {len(existing)} files; choose another name,"
                " or update it with update=True (--update)"
            )
        if revision is not None:
            api.create_branch(**where, branch=revision, exist_ok=True)
        message = options.get("commit_message") or f"The {kind}"
        # With whole weights and an adapter in one repository, it would be unclear which to load.
        is_adapter = Path(folder, ADAPTER_FILES[0]).is_file()
        stale = ["model*.safetensors*"] if is_adapter else list(ADAPTER_FILES)
        api.upload_folder(
            **where,
            folder_path=folder,
            revision=revision,
            commit_message=message,
            delete_patterns=stale if kind == "model" else None,
        )
        return str(url)


@contextmanager
def _hub_errors(repo_id: str) -> Iterator[None]:
    """Turn errors of the Hub within the `with` block into a `HubError` with the cure."""
    try:
        yield
    except (OfflineModeIsEnabled, _HTTP_ERROR) as error:
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
        fix = "the connection failed, or the Hub had a problem; run it again"
        if status in (401, 403):
            fix = "it needs a token with write access; set one by `hf auth login` or HF_TOKEN"
        reason = shortened(f"{type(error).__name__}: {error}", LONGEST_MESSAGE)
        raise HubError(f"{repo_id} can't be pushed: {fix} ({reason})") from error
