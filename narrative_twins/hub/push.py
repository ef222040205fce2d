"""Upload of encoders, data sets and the metric to the Hub: what is pushed is first written into a
temporary folder, with its card, and then uploaded in a single commit."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, TypedDict, Unpack

from datasets import Dataset, DatasetDict
from huggingface_hub import HfApi, RepoCard
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

from narrative_twins.data.sources import (
    CARD,
    CORPORA,
    HUB_ID,
    configurations,
    corpus_files,
    corpus_rows,
    source_files,
)
from narrative_twins.encoder.adapters import adapter_kind
from narrative_twins.encoder.loading import DEFAULT_ENCODER, one_line
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.hub.cards import (
    PLACEHOLDER_ID,
    card_of_rows,
    encoder_card,
    splits_by_configuration,
    template,
)
from narrative_twins.hub.facts import UNKNOWN, DatasetFacts, EncoderFacts, read_facts

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
"""An error of the HTTP client of huggingface_hub, also of the connection."""
_FIXES = {
    401: "the Hub token is missing or invalid; set one by `hf auth login` or HF_TOKEN",
    403: "the token has no write access there; create one at huggingface.co/settings/tokens",
    409: "the repository was changed by someone else meanwhile; check it, and run it again",
}
"""The reason for an error response of the Hub, and the fix, by its status."""


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
    **options: Unpack[PushOptions],
) -> str:
    """Push an encoder in the plain layout of sentence-transformers, with its model card.

    Only files of the encoder are pushed, by their names: no checkpoints, optimizer states, logs or
    pickled weights.

    Args:
        encoder: a folder, a `StoryEncoder` or a `SentenceTransformer`. A PEFT adapter, even
            if the folder has nothing else, is merged into a copy of the weights.
        repo_id: the Hub id, `user/name`.
        facts: facts for the card; None for the card in the folder, or else a card without facts.
        options: see `PushOptions`.

    Returns:
        The URL of the repository.

    Raises:
        HubError: the push failed.
        OSError, ValueError: the encoder is missing or unsuitable for salience, or its adapter can't
            be merged; nothing was pushed.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_encoder(encoder, folder, repo_id, facts)
        return _push(folder, repo_id, "model", **options)


def write_encoder(
    encoder: Any, folder: str | Path, repo_id: str, facts: EncoderFacts | None = None
) -> None:
    """Write what `push_encoder` pushes into an empty folder: the files of an encoder, which is
    checked by loading it, and its card. Arguments and errors are as in `push_encoder`."""
    source: Path | None = None
    if isinstance(encoder, (str, Path)):
        source = Path(encoder)
        if not source.is_dir():
            raise FileNotFoundError(f"{encoder} is not the folder of a saved encoder")
        loaded = StoryEncoder.from_pretrained(source, device="cpu")
    elif isinstance(encoder, StoryEncoder):
        loaded = encoder
    else:
        loaded = StoryEncoder.from_sentence_transformer(encoder)
    has_adapter = adapter_kind(loaded.model) is not None
    if source is not None and (source / "modules.json").is_file() and not has_adapter:
        paths = [path for pattern in _ENCODER_FILES for path in source.glob(pattern)]
        _write(folder, {path.relative_to(source).as_posix(): path for path in paths})
    else:
        loaded.save_pretrained(folder)
    if has_adapter and (facts is None or facts.base_model == UNKNOWN):
        base, base_id = base_model(loaded.model)
        facts = facts or EncoderFacts()
        facts = replace(facts, base_model=base, base_model_id=facts.base_model_id or base_id)
    if facts is None and source is not None and (source / CARD).is_file():
        card = (source / CARD).read_text(encoding="utf-8")
    else:
        if facts is None:
            logger.warning("the card has no facts; give facts on how the encoder was trained")
        card = str(encoder_card(facts or EncoderFacts()))
    _write(folder, {CARD: card.replace(PLACEHOLDER_ID, repo_id)})


def base_model(model: Any) -> tuple[str, str | None]:
    """A description of the base of a `transformers` model without any local path, and its Hub id if
    it has one."""
    name = str(getattr(model.config, "_name_or_path", "") or "")
    kind = adapter_kind(model)
    adapter = f", with an adapter ({kind}) merged into it" if kind is not None else ""
    if name == str(DEFAULT_ENCODER):
        return f"the default encoder of narrative_twins{adapter}", None
    # A relative path may look like an id.
    if HUB_ID.fullmatch(name) and not Path(name).exists():
        return f"[{name}](https://huggingface.co/{name}){adapter}", name
    return f"a local {model.config.model_type} model{adapter}", None


def push_dataset(
    data: Dataset | DatasetDict | Mapping[str, Dataset | DatasetDict] | str | Path,
    repo_id: str,
    *,
    facts: DatasetFacts | None = None,
    **options: Unpack[PushOptions],
) -> str:
    """Push a data set as Parquet, with its card; `datasets.load_dataset(repo_id, configuration)`
    loads it.

    Args:
        data: a data set, its splits, or several configurations by name; or a folder with a card
            whose configurations name the data files, as `narrative-twins data export` writes:
            the card and these files are pushed, nothing else.
        repo_id: the Hub id, `user/name`.
        facts: facts for the card, apart from columns and counts; not for a folder, which has a
            card.
        options: see `PushOptions`.

    Returns:
        The URL of the repository.

    Raises:
        HubError, ValueError: the push failed, or a configuration or split has no rows.
        FileNotFoundError: the folder, its card or its data files are missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(data, (str, Path)):
            if facts is not None:
                raise ValueError(f"{data} has a card; edit its {CARD} in place of giving facts")
            _write(folder, _dataset_files(Path(data), repo_id))
        else:
            if facts is None:
                logger.warning("the card has no facts about the data set; give facts")
            _write(folder, {CARD: str(card_of_rows(data, facts or DatasetFacts(), repo_id))})
            for name, splits in splits_by_configuration(data).items():
                Path(folder, name).mkdir()
                for split, rows in splits.items():
                    rows.to_parquet(Path(folder, name, _parquet(split)))
        return _push(folder, repo_id, "dataset", **options)


def _dataset_files(folder: Path, repo_id: str) -> dict[str, Path | str]:
    """The files of a data set by name: its card, the data files that the configurations of the card
    name, and cards next to these. `user/name` in cards becomes the Hub id."""
    if not (folder / CARD).is_file():
        raise FileNotFoundError(f"{folder} is not a folder with a {CARD}, as `data export` writes")
    names = configurations(folder)
    if not names:
        raise ValueError(f"{folder / CARD} has no `configs` that name the data files; add them")
    splits = [source_files(folder, name=name) for name in names]
    data = {Path(file) for each in splits for files in each.values() for file in files}
    cards = {path for file in (folder / CARD, *data) if (path := file.parent / CARD).is_file()}
    content: dict[str, Path | str] = {path.relative_to(folder).as_posix(): path for path in data}
    for path in cards:
        text = path.read_text(encoding="utf-8").replace(PLACEHOLDER_ID, repo_id)
        content[path.relative_to(folder).as_posix()] = text
    return content


def export_corpora(folder: str | os.PathLike[str]) -> list[str]:
    """Write the corpora of the package into a folder: `datasets.load_dataset(folder, "stories")`,
    or `"synopses"`, `"everyday"` and `"prose"`. The folder appears when it is complete;
    `push_dataset` pushes it.

    Args:
        folder: a new or empty folder.

    Returns:
        The names of its files, relative to the folder.

    Raises:
        FileExistsError: the folder is not empty.
        OSError: the folder can't be written, or the one that it would be in does not exist.
    """
    target = Path(folder).resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{folder} is a file or a folder with files; name a new folder")
    with as_file(files("narrative_twins.hub_cards").joinpath("corpora.yaml")) as path:
        facts = read_facts(DatasetFacts, path)
    rows = {name: corpus_rows(name) for name in CORPORA}
    content: dict[str, Path | str] = {CARD: str(card_of_rows(rows, facts))}
    for name in CORPORA:
        card = RepoCard(template(f"dataset_card_{name}.md"), ignore_metadata_errors=True)
        load = f'load_dataset("{PLACEHOLDER_ID}"'
        content[f"{name}/{CARD}"] = card.text.lstrip().replace(f"{load})", f'{load}, "{name}")')
        for split, (file,) in corpus_files(name).items():
            content[f"{name}/{_parquet(split)}"] = Path(file)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
        _write(Path(scratch, "complete"), content)
        if target.exists():
            target.rmdir()
        os.replace(Path(scratch, "complete"), target)
    return sorted(content)


def push_metric(repo_id: str, **options: Unpack[PushOptions]) -> str:
    """Push the agreement of salience with human labels as a metric, a Space that
    `evaluate.load(repo_id)` loads. The rest is as in `push_encoder`."""
    content = {
        CARD: template("metric_card.md").replace(PLACEHOLDER_ID, repo_id),
        # The file name that `evaluate` requires.
        f"{repo_id.rpartition('/')[2]}.py": template("narrative_salience.py"),
        "requirements.txt": template("metric_requirements.txt"),
    }
    with tempfile.TemporaryDirectory() as folder:
        _write(folder, content)
        return _push(folder, repo_id, "space", **options)


def full_id(name: str, token: str | bool | None = None) -> str:
    """The Hub id of a repository name: without a user, the token's; raises HubError if the
    token is invalid."""
    with _hub_errors(name):
        return name if "/" in name else f"{HfApi(token=token).whoami()['name']}/{name}"


def _write(folder: str | Path, content: Mapping[str, Path | str]) -> None:
    """Write files by their names, each a copy of another file or a text."""
    for name, source in content.items():
        target = Path(folder, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, Path):
            shutil.copyfile(source, target)
        else:
            target.write_text(source, encoding="utf-8", newline="\n")


def _parquet(split: str) -> str:
    """The name of the file of a split, as the Hub names them."""
    return f"{split}-00000-of-00001.parquet"


def _push(
    folder: str,
    repo_id: str,
    kind: str,
    *,
    private: bool = False,
    update: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
    commit_message: str | None = None,
) -> str:
    """Push a folder to a repository, which is created if it does not exist; returns its URL. Raises
    HubError if that fails, or if the repository has files and `update` is not set."""
    with _hub_errors(repo_id):
        api = HfApi(token=token, library_name="narrative_twins")
        sdk = "static" if kind == "space" else None
        url = api.create_repo(
            repo_id, repo_type=kind, private=private, exist_ok=True, space_sdk=sdk
        )
        existing = set(api.list_repo_files(repo_id, repo_type=kind)) - {".gitattributes"}
        # An interrupted push leaves a repository without files, into which the next attempt pushes.
        if existing and not update:
            raise HubError(
                f"{repo_id} is already on the Hub, with {len(existing)} files; choose another name,"
                " or update it with update=True (--update)"
            )
        if revision is not None:
            api.create_branch(repo_id, branch=revision, repo_type=kind, exist_ok=True)
        api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            repo_type=kind,
            revision=revision,
            commit_message=commit_message or f"The {kind}",
        )
        return str(url)


@contextmanager
def _hub_errors(repo_id: str) -> Iterator[None]:
    """Turn errors of the Hub into `HubError` with the fix."""
    try:
        yield
    except HFValidationError as error:
        raise ValueError(f"{repo_id!r} is not a Hub id like user/name: {error}") from error
    except OfflineModeIsEnabled as error:
        raise HubError(f"{repo_id} can't be pushed offline; unset HF_HUB_OFFLINE") from error
    except _HTTP_ERROR as error:
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
        fix = _FIXES.get(status, "the connection failed, or the Hub had a problem; run it again")
        reason = one_line(f"{type(error).__name__}: {error}")
        raise HubError(f"{repo_id} can't be pushed: {fix} ({reason})") from error
