"""A search over trials that are given, in place of Optuna."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from transformers import integrations, trainer_utils
from transformers import trainer as transformers_trainer

from support.twins_batches import logged


@contextmanager
def backend(*trials):
    """A backend of `hyperparameter_search`, in place of Optuna, that runs these trials."""
    optuna = trainer_utils.HPSearchBackend.OPTUNA

    class Backend:
        def ensure_available(self):
            pass

        def run(self, trainer, n_trials, direction):
            runs = []
            for number, params in enumerate(trials):
                trial = SimpleNamespace(number=number, params=params)
                # Each backend of transformers sets this attribute.
                trainer.objective = None
                trainer.train(resume_from_checkpoint=None, trial=trial)
                runs.append(trainer_utils.BestRun(str(number), logged(trainer)[0], params))
            return runs

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(transformers_trainer.ALL_HYPERPARAMETER_SEARCH_BACKENDS, optuna, Backend)
        patch.setattr(integrations, "hp_params", lambda trial: trial.params)
        yield


def search(trainer):
    return trainer.hyperparameter_search(
        hp_space=lambda trial: trial.params, backend="optuna", n_trials=3
    )
