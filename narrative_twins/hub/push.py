"""Upload of encoders, data sets and the metric to the Hub, each with its card and in a single
commit. Local files are only read."""

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

from narrative_twins.encoder.loading import read_checkpoint_settings
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.hub.cards import (
    card_of_rows,
    encoder_card,
    fill_in_id,
    metric_card,
    splits_by_configuration,
    template,
)
from narrative_twins.hub.checked import checked_encoder
from narrative_twins.hub.dataset_folder import dataset_files
from narrative_twins.hub.facts import DatasetFacts, EncoderFacts
from narrative_twins.hub.layout import encoder_layout
from narrative_twins.hub.self_contained import self_contained_files

logger = logging.getLogger(__name__)

Files: TypeAlias = dict[str, Path | bytes]
"""Files to push by their names in the repository, each as a local path or as content."""

WITH_CODE = "with-code"
"""The branch for the self-contained form of an encoder."""

HTTP_ERRORS: tuple[type[Exception], ...] = tuple(
    kind
    for kind in HfHubHTTPError.__mro__
    if kind.__name__ == "HTTPError" and issubclass(kind, Exception)
)
"""Connection errors of the HTTP client of huggingface_hub; the client depends on the release."""

_SERVER_ERRORS: tuple[type[Exception], ...] = (HfHubHTTPError, *HTTP_ERRORS)
_INITIAL_FILES = {".gitattributes"}


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
    message: str | None = None,
) -> str:
    """Push an encoder in the plain layout of sentence-transformers, with its model card.

    Only files of the encoder are pushed, by their exact names: no checkpoints, optimizer states,
    logs, pickled weights, nor links out of the folder.

    Args:
        encoder: a folder, a `StoryEncoder` or a `SentenceTransformer`. A PEFT adapter, also one
            that is alone in the folder, is merged into a copy of the weights.
        repo_id: the Hub id, `user/name`.
        facts: facts for the card; None for the card in the folder, or else a card without facts.
        private: make the repository private if it is created.
        update: allow a repository that already has files; otherwise a HubError is raised.
        with_code: also push the self-contained form, to the branch `with-code`, for users without
            this package: `pipeline("narrative-salience", model=..., revision="with-code",
            trust_remote_code=True)`.
        revision: the branch, created if missing; default `main`.
        token: the Hub token; default that of `hf auth login` or HF_TOKEN.
        message: the commit message.

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
        with _pushing(repo_id, "model", token, private, update) as hub:
            hub.commit(content, message or "Story encoder", revision)
            if with_code:
                complete = self_contained_files(content, read_checkpoint_settings(folder), repo_id)
                try:
                    hub.commit(complete, "Self-contained form", WITH_CODE)
                except _SERVER_ERRORS as error:
                    raise HubError(
                        f"{hub.address} has the encoder, but the branch {WITH_CODE!r} could not be"
                        f" pushed: {' '.join(str(error).split())}; run it again with update=True"
                        " (--update)"
                    ) from error
            return hub.address


def encoder_files(folder: str | Path, repo_id: str, facts: EncoderFacts | None = None) -> Files:
    """The files of a folder that `push_encoder` pushes, see `encoder_layout`, with the card."""
    folder = Path(folder)
    content: Files = {path.relative_to(folder).as_posix(): path for path in encoder_layout(folder)}
    readme = folder / "README.md"
    if facts is None and readme.is_file() and not readme.is_symlink():
        card = readme.read_text(encoding="utf-8")
    else:
        if facts is None:
            logger.warning(
                "%s has no card; give facts, so that users know how the encoder was trained", folder
            )
        card = str(encoder_card(facts or EncoderFacts()))
    return content | {"README.md": fill_in_id(card, repo_id).encode()}


def push_dataset(
    data: Dataset | DatasetDict | Mapping[str, Dataset | DatasetDict] | str | Path,
    repo_id: str,
    *,
    facts: DatasetFacts | None = None,
    private: bool = False,
    update: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
    message: str | None = None,
) -> str:
    """Push a data set as Parquet, with its card; `datasets.load_dataset(repo_id, configuration)`
    loads it.

    Args:
        data: a data set, its splits, or several configurations by name; or a folder with a card
            whose configurations name the data files, such as that of `narrative-twins data export`,
            which is pushed as it is.
        facts: facts for the card, besides columns and counts; not for a folder, which has a card.
        repo_id, private, update, revision, token, message: as in `push_encoder`.

    Returns:
        The URL of the repository.

    Raises:
        HubError, ValueError: the push failed, or a configuration or split has no rows.
        FileNotFoundError: the folder, its card or its data files are missing.
    """
    if isinstance(data, (str, Path)):
        if facts is not None:
            raise ValueError(
                f"facts are for the card of rows; {data} has a card, so edit its README.md"
            )
        files = dataset_files(Path(data), repo_id)
        with _pushing(repo_id, "dataset", token, private, update) as hub:
            hub.commit(files, message or "Data set", revision)
            return hub.address
    configurations = splits_by_configuration(data)
    if facts is None:
        logger.warning(
            "the card has no facts about the data set; give facts, so that users know what it is"
        )
    card = card_of_rows(data, facts or DatasetFacts(), repo_id)
    with (
        tempfile.TemporaryDirectory() as scratch,
        _pushing(repo_id, "dataset", token, private, update) as hub,
    ):
        content: Files = {"README.md": str(card).encode()}
        for name, splits in configurations.items():
            for split, rows in splits.items():
                file = Path(scratch) / f"{name}-{split}.parquet"
                rows.to_parquet(file)
                content[f"{name}/{split}-00000-of-00001.parquet"] = file
        hub.commit(content, message or "Data set", revision)
        return hub.address


def push_metric(
    repo_id: str, *, private: bool = False, update: bool = False, token: str | bool | None = None
) -> str:
    """Push the agreement of salience with human labels as a metric, a Space that
    `evaluate.load(repo_id)` loads.

    Arguments, return value and errors are as in `push_encoder`.
    """
    card = metric_card(repo_id)
    content: Files = {
        "README.md": str(card).encode(),
        # The file name that `evaluate` requires.
        f"{repo_id.rpartition('/')[2]}.py": template("narrative_salience.py").encode(),
        "requirements.txt": template("metric_requirements.txt").encode(),
    }
    with _pushing(repo_id, "space", token, private, update) as hub:
        hub.commit(content, "Metric", None)
        return hub.address


def full_id(name: str, token: str | bool | None = None) -> str:
    """The Hub id of a repository name: without a user, that of the token; raises HubError if the
    token is invalid."""
    with _clear_errors(name):
        return name if "/" in name else f"{HfApi(token=token).whoami()['name']}/{name}"


def create_repository(name: str, *, private: bool = False, token: str | bool | None = None) -> str:
    """Create the repository of an encoder, if it does not exist, ahead of a push.

    Args:
        name: the Hub id, or its part after the user of the token.
        private, token: as in `push_encoder`.

    Returns:
        The Hub id. A HubError if pushes would fail.
    """
    repo_id = full_id(name, token)
    with _pushing(repo_id, "model", token, private, update=True):
        return repo_id


class _Repository:
    """A repository on the Hub."""

    def __init__(self, repo_id: str, kind: str, token: str | bool | None) -> None:
        self.api = HfApi(token=token, library_name="narrative_twins")
        self.repo_id, self.kind, self.token = repo_id, kind, token
        self.address = ""

    def make(self, private: bool, update: bool) -> None:
        """Create the repository if it does not exist; unless `update`, raise HubError if it has
        files."""
        sdk = "static" if self.kind == "space" else None
        url = self.api.create_repo(
            self.repo_id, repo_type=self.kind, private=private, exist_ok=True, space_sdk=sdk
        )
        self.address = str(url)
        existing = set(self.api.list_repo_files(self.repo_id, repo_type=self.kind)) - _INITIAL_FILES
        # An interrupted push leaves a repository without files, into which the next attempt pushes.
        if existing and not update:
            raise HubError(
                f"{self.repo_id} is already on the Hub, with {len(existing)} files; choose another"
                " name, or update it with update=True (--update)"
            )

    def commit(self, content: Files, message: str, revision: str | None) -> None:
        """Push files in one commit."""
        if revision is not None:
            self.api.create_branch(
                self.repo_id, repo_type=self.kind, branch=revision, exist_ok=True
            )
        operations = [CommitOperationAdd(name, source) for name, source in content.items()]
        self.api.create_commit(
            self.repo_id, operations, commit_message=message, repo_type=self.kind, revision=revision
        )


@contextmanager
def _pushing(
    repo_id: str, kind: str, token: str | bool | None, private: bool, update: bool
) -> Iterator[_Repository]:
    """Create a repository and push to it, with errors of the Hub as `HubError`."""
    with _clear_errors(repo_id):
        validate_repo_id(repo_id)
        hub = _Repository(repo_id, kind, token)
        hub.make(private, update)
        yield hub


@contextmanager
def _clear_errors(repo_id: str) -> Iterator[None]:
    """Turn errors of the Hub into `HubError` with the fix."""
    try:
        yield
    except HFValidationError as error:
        raise ValueError(f"{repo_id!r} is not a Hub id like user/name: {error}") from error
    except OfflineModeIsEnabled as error:
        raise HubError(f"{repo_id} can't be pushed offline; unset HF_HUB_OFFLINE") from error
    except HfHubHTTPError as error:
        raise HubError(f"{repo_id} can't be pushed: {_reason(error)}") from error
    except HTTP_ERRORS as error:
        raise HubError(
            f"{repo_id} can't be pushed: the connection to the Hub failed ({type(error).__name__}:"
            f" {error}); no file was changed on the Hub or locally, so run it again"
        ) from error


def _reason(error: HfHubHTTPError) -> str:
    """The reason for an error response of the Hub, and the fix."""
    code = error.response.status_code
    reasons = {
        401: (
            "the Hub token is missing or invalid; set one with write access by `hf auth login` or"
            " HF_TOKEN"
        ),
        403: (
            "the token has no write access there; create one at huggingface.co/settings/tokens, or"
            " choose a name of your own"
        ),
        404: "the repository does not exist, or the token has no access to it",
        409: (
            "the repository was created or changed by someone else meanwhile; check it, and run it"
            " again"
        ),
        413: "it is too large for the Hub",
        429: "too many requests; wait, and run it again",
    }
    message = getattr(error, "server_message", None) or str(error).splitlines()[0]
    return (
        f"{reasons.get(code, 'the Hub had a problem; run it again later')} (HTTP {code}: {message})"
    )
