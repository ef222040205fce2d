"""Upload of encoders, data sets and the metric to the Hub, each with its card and in a single
commit. Local files are only read."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, TypeAlias

from datasets import Dataset, DatasetDict
from huggingface_hub import CommitOperationAdd, HfApi, RepoCard
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
from narrative_twins.encoder.loading import DEFAULT_ENCODER, one_line, read_checkpoint_settings
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.hub.cards import (
    PLACEHOLDER_ID,
    card_of_rows,
    encoder_card,
    splits_by_configuration,
    template,
)
from narrative_twins.hub.facts import UNKNOWN, DatasetFacts, EncoderFacts, read_facts
from narrative_twins.hub.self_contained import self_contained_files

logger = logging.getLogger(__name__)

Files: TypeAlias = dict[str, Path | bytes]
"""Files to push by their names in the repository, each as a local path or as content."""

_ENCODER_FILES = """
config.json modules.json config_sentence_transformers.json sentence_*bert*_config.json
sentence_xlnet_config.json [0-9]_[A-Z]*/config.json [0-9]_[A-Z]*/model.safetensors model.safetensors
tokenizer.json tokenizer_config.json special_tokens_map.json added_tokens.json vocab.txt vocab.json
merges.txt sentencepiece.bpe.model spiece.model tokenizer.model LICENSE LICENSE.txt LICENSE.md
""".split()
"""Patterns of the files of an encoder in the layout of sentence-transformers. None matches
checkpoints, optimizer states, logs, data or pickled weights, which training leaves next to them."""
_INDEX = "model.safetensors.index.json"
_SHARDS = "model-?????-of-?????.safetensors"
"""Weights in several files, which an index lists."""
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


def push_encoder(
    encoder: str | Path | StoryEncoder | Any,
    repo_id: str,
    *,
    facts: EncoderFacts | None = None,
    private: bool = False,
    update: bool = False,
    with_code: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
    commit_message: str | None = None,
) -> str:
    """Push an encoder in the plain layout of sentence-transformers, with its model card.

    Only files of the encoder are pushed, by their names: no checkpoints, optimizer states, logs,
    pickled weights, nor links out of the folder.

    Args:
        encoder: a folder, a `StoryEncoder` or a `SentenceTransformer`. A PEFT adapter, even
            if the folder has nothing else, is merged into a copy of the weights.
        repo_id: the Hub id, `user/name`.
        facts: facts for the card; None for the card in the folder, or else a card without facts.
        private: make the repository private if it is created.
        update: allow a repository that already has files; otherwise a HubError is raised.
        with_code: also push the self-contained form, to the branch `with-code`, for users without
            this package: `pipeline("narrative-salience", model=..., revision="with-code",
            trust_remote_code=True)`.
        revision: the branch, created if missing; default `main`.
        token: the Hub token; default that of `hf auth login` or HF_TOKEN.
        commit_message: the message of the commit.

    Returns:
        The URL of the repository.

    Raises:
        HubError: the push failed.
        OSError, ValueError: the encoder is missing or unsuitable for salience, or its adapter can't
            be merged; nothing was pushed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder, facts = checked_encoder(encoder, Path(scratch), facts)
        content = encoder_files(folder, repo_id, facts)
        commits = [(content, commit_message or "Story encoder", revision)]
        if with_code:
            complete = self_contained_files(content, read_checkpoint_settings(folder), repo_id)
            commits.append((complete, "Self-contained form", "with-code"))
        return _push(repo_id, "model", commits, private, update, token)


def checked_encoder(
    encoder: Any, scratch: Path, facts: EncoderFacts | None
) -> tuple[Path, EncoderFacts | None]:
    """The folder and facts of an encoder to push, which is checked by loading it.

    It is saved to `scratch` unless it is a folder in the layout of sentence-transformers. A PEFT
    adapter is merged into the saved weights, and the facts then name its base, unless they name
    one. Raises OSError, ValueError or ImportError as `push_encoder`.
    """
    if isinstance(encoder, (str, Path)):
        if not Path(encoder).is_dir():
            raise FileNotFoundError(
                f"{encoder} is not a local folder; give the folder of a saved encoder"
            )
        loaded = StoryEncoder.from_pretrained(encoder, device="cpu")
        if (Path(encoder) / "modules.json").is_file() and adapter_kind(loaded.model) is None:
            return Path(encoder), facts
    elif isinstance(encoder, StoryEncoder):
        loaded = encoder
    elif type(encoder).__name__ == StoryEncoder.__name__:
        raise ValueError(
            "this encoder was loaded by the code of a repository; to push it, import"
            " narrative_twins and load it from the branch main without trust_remote_code"
        )
    else:
        loaded = StoryEncoder.from_sentence_transformer(encoder)
    loaded.save_pretrained(scratch)
    if adapter_kind(loaded.model) is not None and (facts is None or facts.base_model == UNKNOWN):
        base, base_id = base_model(loaded.model)
        known = facts or EncoderFacts()
        facts = replace(known, base_model=base, base_model_id=known.base_model_id or base_id)
    return scratch, facts


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


def encoder_files(folder: str | Path, repo_id: str, facts: EncoderFacts | None = None) -> Files:
    """The files of a folder that `push_encoder` pushes, with the card.

    Raises:
        ValueError: there are no weights in safetensors, or a file is a link out of the folder.
    """
    folder = Path(folder)
    patterns = list(_ENCODER_FILES)
    if (folder / _INDEX).is_file():
        patterns += [_INDEX, _SHARDS]
    found = sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    if not any(path.suffix == ".safetensors" for path in found):
        raise ValueError(
            f"{folder} has no safetensors weights; load the model and save it with save_pretrained"
        )
    readme = folder / CARD
    if facts is None and readme.is_file() and not readme.is_symlink():
        card = readme.read_text(encoding="utf-8")
    else:
        if facts is None:
            logger.warning("%s has no card; give facts on how the encoder was trained", folder)
        card = str(encoder_card(facts or EncoderFacts()))
    return _inside(folder, found) | {CARD: card.replace(PLACEHOLDER_ID, repo_id).encode()}


def _inside(folder: Path, paths: Iterable[Path]) -> Files:
    """Files of a folder by name. Raises a ValueError if one is a link out of the folder, which may
    point to a secret."""
    root, found = folder.resolve(), Files()
    for path in paths:
        if not path.resolve().is_relative_to(root):
            raise ValueError(
                f"{path} is a link to {path.resolve()}, outside of the folder; copy the file there"
            )
        found[path.relative_to(folder).as_posix()] = path
    return found


def push_dataset(
    data: Dataset | DatasetDict | Mapping[str, Dataset | DatasetDict] | str | Path,
    repo_id: str,
    *,
    facts: DatasetFacts | None = None,
    private: bool = False,
    update: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
    commit_message: str | None = None,
) -> str:
    """Push a data set as Parquet, with its card; `datasets.load_dataset(repo_id, configuration)`
    loads it.

    Args:
        data: a data set, its splits, or several configurations by name; or a folder with a card
            whose configurations name the data files, such as that of `narrative-twins data export`,
            which is pushed as it is.
        facts: facts for the card, apart from columns and counts; not for a folder, which has a
            card.
        repo_id, private, update, revision, token, commit_message: as in `push_encoder`.

    Returns:
        The URL of the repository.

    Raises:
        HubError, ValueError: the push failed, or a configuration or split has no rows.
        FileNotFoundError: the folder, its card or its data files are missing.
    """
    with tempfile.TemporaryDirectory() as scratch:
        if isinstance(data, (str, Path)):
            if facts is not None:
                raise ValueError(f"{data} has a card; edit its {CARD} in place of giving facts")
            content = _dataset_files(Path(data), repo_id)
        else:
            if facts is None:
                logger.warning("the card has no facts about the data set; give facts")
            card = card_of_rows(data, facts or DatasetFacts(), repo_id)
            content = {CARD: str(card).encode()}
            for name, splits in splits_by_configuration(data).items():
                for split, rows in splits.items():
                    file = Path(scratch) / f"{name}-{split}.parquet"
                    rows.to_parquet(file)
                    content[f"{name}/{split}-00000-of-00001.parquet"] = file
        commits = [(content, commit_message or "Data set", revision)]
        return _push(repo_id, "dataset", commits, private, update, token)


def _dataset_files(folder: Path, repo_id: str) -> Files:
    """The files of a data set by name: its card, the data files that the configurations of the card
    name, and cards next to these. `user/name` in cards becomes the Hub id."""
    if not (folder / CARD).is_file():
        raise FileNotFoundError(
            f"{folder} is not a folder with a {CARD}; give one, such as that of `data export`"
        )
    names = configurations(folder)
    if not names:
        raise ValueError(f"{folder / CARD} has no `configs` that name the data files; add them")
    splits = [source_files(folder, name=name) for name in names]
    data = {Path(file) for found in splits for files in found.values() for file in files}
    cards = {folder / CARD, *(path.parent / CARD for path in data)}
    content = _inside(folder, sorted(data | set(filter(Path.is_file, cards))))
    for name, path in content.items():
        if isinstance(path, Path) and path in cards:
            content[name] = path.read_text("utf-8").replace(PLACEHOLDER_ID, repo_id).encode()
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
    card = card_of_rows({name: corpus_rows(name) for name in CORPORA}, facts)
    content = {CARD: str(card).encode()}
    for name in CORPORA:
        own = RepoCard(template(f"dataset_card_{name}.md"), ignore_metadata_errors=True)
        load = f'load_dataset("{PLACEHOLDER_ID}"'
        text = own.text.lstrip().replace(f"{load})", f'{load}, "{name}")')
        content[f"{name}/{CARD}"] = text.encode()
        for split, (file,) in corpus_files(name).items():
            content[f"{name}/{split}-00000-of-00001.parquet"] = Path(file).read_bytes()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
        made = Path(scratch) / "made"
        for name, data in content.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(data)
        os.replace(made, target)
    return sorted(content)


def push_metric(
    repo_id: str, *, private: bool = False, update: bool = False, token: str | bool | None = None
) -> str:
    """Push the agreement of salience with human labels as a metric, a Space that
    `evaluate.load(repo_id)` loads.

    Arguments, return value and errors are as in `push_encoder`.
    """
    content: Files = {
        CARD: template("metric_card.md").replace(PLACEHOLDER_ID, repo_id).encode(),
        # The file name that `evaluate` requires.
        f"{repo_id.rpartition('/')[2]}.py": template("narrative_salience.py").encode(),
        "requirements.txt": template("metric_requirements.txt").encode(),
    }
    return _push(repo_id, "space", [(content, "Metric", None)], private, update, token)


def full_id(name: str, token: str | bool | None = None) -> str:
    """The Hub id of a repository name: without a user, that of the token; raises HubError if the
    token is invalid."""
    with _hub_errors(name):
        return name if "/" in name else f"{HfApi(token=token).whoami()['name']}/{name}"


def _push(
    repo_id: str,
    kind: str,
    commits: Iterable[tuple[Files, str, str | None]],
    private: bool,
    update: bool,
    token: str | bool | None,
) -> str:
    """Push commits, each of files with a message and the branch, which is created if it is missing
    (None for `main`), to a repository, which is created if it does not exist; returns its URL.
    Raises HubError if a push fails, or if the repository has files and `update` is not given."""
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
        for content, message, branch in commits:
            if branch is not None:
                api.create_branch(repo_id, branch=branch, repo_type=kind, exist_ok=True)
            operations = [CommitOperationAdd(path, source) for path, source in content.items()]
            api.create_commit(
                repo_id, operations, commit_message=message, repo_type=kind, revision=branch
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
