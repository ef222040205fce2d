"""To the Hub: encoders, data sets and the metric, each with its card, each in one commit that is there whole or not at
all. What is on this machine is only read."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from datasets import Dataset, DatasetDict
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled
from huggingface_hub.utils._validators import validate_repo_id

from narrative_twins.encoder.checkpoint import read_checkpoint_settings
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.hub.cards import (
    card_of_rows,
    encoder_card,
    metric_card,
    splits_by_configuration,
    template,
    with_id,
)
from narrative_twins.hub.facts import DatasetFacts, EncoderFacts
from narrative_twins.hub.self_contained import self_contained_files

logger = logging.getLogger(__name__)

Files: TypeAlias = dict[str, Path | bytes]
"""What is pushed: by its name in the repository, a file or what is in it."""

WITH_CODE = "with-code"
"""The branch that has the self-contained form of an encoder."""

HTTP_ERRORS: tuple[type[Exception], ...] = tuple(
    kind for kind in HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError" and issubclass(kind, Exception)
)
"""What a broken connection raises, in the HTTP client of the Hub's library, which differs from release to release."""

_ENCODER_FILES = (
    "config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
    "LICENSE*",
    "[0-9]*_*/*.json",
    "[0-9]*_*/*.safetensors",
)
_EMPTY = {".gitattributes"}


class HubError(OSError):
    """Something could not be pushed; says what, and the cure."""


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
    message: str | None = None,
) -> str:
    """Push an encoder, in the plain layout of sentence-transformers, with its model card.

    What was not made to be shared stays here: checkpoints, states of optimizers, logs, pickled weights.

    Args:
        encoder: a folder, a `StoryEncoder` or a `SentenceTransformer`.
        repo_id: where to, `user/name`.
        facts: what the card says; None for the card in the folder, or one that says how little is known.
        private: who else may see the repository, where it is made anew.
        update: go on where the repository has files already; otherwise that is an error.
        with_code: push the self-contained form too, to the branch `with-code`, for people without this package:
            `pipeline("narrative-salience", model=..., revision="with-code", trust_remote_code=True)`.
        revision: the branch to push to, made if need be; default `main`.
        token: of the Hub; default the one of `hf auth login` or HF_TOKEN.
        message: of the commit.

    Returns:
        The address of the repository.

    Raises:
        HubError: it could not be pushed.
        OSError, ValueError: there is no encoder, or none that salience can be computed with; said before anything is
            pushed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = _checked(encoder, Path(scratch))
        content = encoder_files(folder, repo_id, facts)
        with _pushing(repo_id, "model", token, private, update) as hub:
            hub.commit(content, message or "Story encoder", revision)
            if with_code:
                hub.commit(
                    self_contained_files(content, read_checkpoint_settings(folder)), "Self-contained form", WITH_CODE
                )
            return hub.address


def encoder_files(folder: str | Path, repo_id: str, facts: EncoderFacts | None = None) -> Files:
    """What `push_encoder` pushes of a folder, card included."""
    folder = Path(folder)
    found = sorted({path for pattern in _ENCODER_FILES for path in folder.glob(pattern) if path.is_file()})
    content: Files = {path.relative_to(folder).as_posix(): path for path in found}
    if not any(name.endswith(".safetensors") for name in content):
        raise ValueError(f"{folder} has no weights in safetensors; load the model and save it with save_pretrained")
    readme = folder / "README.md"
    if facts is None and readme.is_file():
        card = readme.read_text(encoding="utf-8")
    else:
        if facts is None:
            logger.warning("%s has no card; give facts, so that people know what the encoder was made of", folder)
        card = str(encoder_card(facts or EncoderFacts()))
    return content | {"README.md": with_id(card, repo_id).encode()}


def push_dataset(
    data: Dataset | DatasetDict | Mapping[str, Dataset | DatasetDict],
    repo_id: str,
    *,
    facts: DatasetFacts | None = None,
    private: bool = False,
    update: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
    message: str | None = None,
) -> str:
    """Push a data set as Parquet, with its card; `datasets.load_dataset(repo_id, configuration)` loads it.

    Args:
        data: rows, splits of them, or configurations of these by name.
        repo_id, private, update, revision, token, message: as in `push_encoder`.
        facts: what the card says besides columns and counts.

    Returns:
        The address of the repository.

    Raises:
        HubError: it could not be pushed.
        ValueError: there are no rows.
    """
    configurations = splits_by_configuration(data)
    if facts is None:
        logger.warning("nothing is said of the data set; give facts, so that people know what it is made of")
    card = card_of_rows(data, facts or DatasetFacts(), repo_id)
    with tempfile.TemporaryDirectory() as scratch, _pushing(repo_id, "dataset", token, private, update) as hub:
        content: Files = {"README.md": str(card).encode()}
        for name, splits in configurations.items():
            for split, one in splits.items():
                file = Path(scratch) / f"{name}-{split}.parquet"
                one.to_parquet(file)
                content[f"{name}/{split}-00000-of-00001.parquet"] = file
        hub.commit(content, message or "Data set", revision)
        return hub.address


def push_metric(repo_id: str, *, private: bool = False, update: bool = False, token: str | bool | None = None) -> str:
    """Push the agreement of salience with people's choices as a metric, which `evaluate.load(repo_id)` loads.

    Args:
        repo_id, private, update, token: as in `push_encoder`. Metrics are Spaces on the Hub.

    Returns:
        The address of the repository.

    Raises:
        HubError: it could not be pushed.
    """
    card = metric_card(repo_id)
    content: Files = {
        "README.md": str(card).encode(),
        # What `evaluate` looks for.
        f"{repo_id.rpartition('/')[2]}.py": template("narrative_salience.py").encode(),
        "requirements.txt": template("metric_requirements.txt").encode(),
    }
    with _pushing(repo_id, "space", token, private, update) as hub:
        hub.commit(content, "Metric", None)
        return hub.address


def full_id(name: str, token: str | bool | None = None) -> str:
    """The Hub id of a repository that is named without its user: the one whose token it is.

    Raises:
        HubError: the Hub knows no such token.
    """
    with _told(name):
        return name if "/" in name else f"{HfApi(token=token).whoami()['name']}/{name}"


class _Repository:
    """A repository that is pushed to."""

    def __init__(self, repo_id: str, kind: str, token: str | bool | None) -> None:
        self.api = HfApi(token=token, library_name="narrative_twins")
        self.repo_id, self.kind, self.token = repo_id, kind, token
        self.address = ""

    def make(self, private: bool, update: bool) -> None:
        """Make the repository, if it is not there; one that has files is an error unless it is to be updated."""
        sdk = "static" if self.kind == "space" else None
        made = self.api.create_repo(self.repo_id, repo_type=self.kind, private=private, exist_ok=True, space_sdk=sdk)
        self.address = str(made)
        there = set(self.api.list_repo_files(self.repo_id, repo_type=self.kind)) - _EMPTY
        # A repository without files is what a push leaves that broke off, and where the next one goes on.
        if there and not update:
            raise HubError(
                f"{self.repo_id} is on the Hub already, with {len(there)} files; choose another name, or push into it "
                "with update=True (--update)"
            )

    def commit(self, content: Files, message: str, revision: str | None) -> None:
        """Put files into the repository in one commit."""
        if revision is not None:
            self.api.create_branch(self.repo_id, repo_type=self.kind, branch=revision, exist_ok=True)
        operations = [CommitOperationAdd(name, source) for name, source in content.items()]
        self.api.create_commit(self.repo_id, operations, commit_message=message, repo_type=self.kind, revision=revision)


@contextmanager
def _pushing(repo_id: str, kind: str, token: str | bool | None, private: bool, update: bool) -> Iterator[_Repository]:
    """A repository to push to."""
    with _told(repo_id):
        validate_repo_id(repo_id)
        hub = _Repository(repo_id, kind, token)
        hub.make(private, update)
        yield hub


@contextmanager
def _told(repo_id: str) -> Iterator[None]:
    """What the Hub refuses comes out as a `HubError` that says what to do."""
    try:
        yield
    except HFValidationError as error:
        raise ValueError(f"{repo_id!r} is no Hub id, which looks like user/name: {error}") from error
    except OfflineModeIsEnabled as error:
        raise HubError(f"{repo_id} can't be pushed offline; unset HF_HUB_OFFLINE") from error
    except HfHubHTTPError as error:
        raise HubError(f"{repo_id} can't be pushed: {_reason(error)}") from error
    except HTTP_ERRORS as error:
        raise HubError(
            f"{repo_id} can't be pushed: the connection to the Hub broke ({type(error).__name__}: {error}); no file "
            "was changed there or here, so run it again"
        ) from error


def _reason(error: HfHubHTTPError) -> str:
    """What the Hub refused, and the cure."""
    code = error.response.status_code
    cures = {
        401: "the Hub knows no such token; `hf auth login` or HF_TOKEN gives one, which has to be allowed to write",
        403: "the token may not write there; make one that may at huggingface.co/settings/tokens, or choose a name of "
        "your own",
        404: "there is no such repository, or the token may not see it",
        409: "the repository was made or changed by somebody else meanwhile; look at it, and run it again",
        413: "it is too large for the Hub",
        429: "too many requests; wait, and run it again",
    }
    said = getattr(error, "server_message", None) or str(error).splitlines()[0]
    return f"{cures.get(code, 'the Hub had a problem; run it again later')} (HTTP {code}: {said})"


def _checked(encoder: Any, scratch: Path) -> Path:
    """The folder of an encoder; one that is no such folder yet is saved first. Loading it is the check."""
    if isinstance(encoder, (str, Path)):
        if not Path(encoder).is_dir():
            raise FileNotFoundError(f"{encoder} is no folder here; name the folder that an encoder was saved in")
        loaded = StoryEncoder.from_pretrained(encoder, device="cpu")
        if (Path(encoder) / "modules.json").is_file():
            return Path(encoder)
    elif isinstance(encoder, StoryEncoder):
        loaded = encoder
    else:
        loaded = StoryEncoder.from_sentence_transformer(encoder)
    loaded.save_pretrained(scratch)
    return scratch
