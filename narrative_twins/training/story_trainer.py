"""What trainers of story encoders have in common once they are done: the encoder saved with its card, and pushed to the
Hub."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from narrative_twins.hub.cards import encoder_card
from narrative_twins.hub.facts import EncoderFacts
from narrative_twins.hub.push import full_id, push_encoder
from narrative_twins.training.card import training_facts


class SharesEncoder:
    """A trainer whose encoder is saved with its card, and pushed to the Hub. Goes before the trainer's class.

    Attributes:
        facts: what the card says that training itself does not know, as far as it is known: attributes of
            `EncoderFacts`, such as `{"training_data": "20,000 twins (CC BY 4.0)", "license": "apache-2.0"}`, and
            `evaluation_set`, the name of what the evaluators measure on.
    """

    args: Any
    state: Any
    hub_model_id: Any

    @property
    def facts(self) -> dict[str, Any]:
        """What the card says besides what training itself knows."""
        return self.__dict__.setdefault("_facts", {})  # type: ignore[no-any-return]

    @facts.setter
    def facts(self, facts: Mapping[str, Any]) -> None:
        self.__dict__["_facts"] = dict(facts)

    def encoder_facts(self) -> EncoderFacts:
        """What the card says of the encoder as it is now."""
        known = dict(self.facts)
        evaluation_set = known.pop("evaluation_set", "validation rows of the training data")
        return replace(training_facts(self, evaluation_set), **known)

    def save_encoder(self, folder: str | Path) -> None:
        """Save the encoder as a plain sentence-transformers checkpoint, with its model card."""
        self._save_encoder(folder)
        if self.args.should_save:
            (Path(folder) / "README.md").write_text(str(encoder_card(self.encoder_facts())), encoding="utf-8")

    def _save_encoder(self, folder: str | Path) -> None:
        raise NotImplementedError

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        private: bool | None = None,
        **options: Any,
    ) -> str | None:
        """Push the encoder to `hub_model_id` of the arguments, or a repository of the name of the output folder: the
        encoder with its card, in the plain layout, and nothing else of the output folder. An earlier push is replaced.

        Args:
            commit_message: of the commit.
            blocking: taken for the sake of other trainers; the encoder is there when this returns.
            token: of the Hub; default `hub_token` of the arguments, or the one of `hf auth login`.
            revision: the branch; default `hub_revision` of the arguments, or `main`.
            private: who else may see the repository, where it is made anew; default `hub_private_repo`.
            options: attributes of `EncoderFacts` for the card, which stay in `facts`.

        Returns:
            The address of the repository; None in processes other than the first.

        Raises:
            HubError: it could not be pushed.
        """
        self.facts.update(options)
        args: Any = self.args
        token = token or args.hub_token
        with tempfile.TemporaryDirectory() as folder:
            self.save_encoder(folder)
            if not self.is_world_process_zero():  # type: ignore[attr-defined]
                return None
            name = self.hub_model_id or args.hub_model_id or Path(args.output_dir).absolute().name
            return push_encoder(
                folder,
                full_id(name, token),
                private=bool(private if private is not None else args.hub_private_repo),
                update=True,
                revision=revision or args.hub_revision,
                token=token,
                message=commit_message,
            )
