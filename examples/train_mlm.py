"""Train the baseline that learns from the texts of narrative twins by masked tokens.

    accelerate launch examples/train_mlm.py --smoke
    accelerate launch examples/train_mlm.py --config examples/configs/roc_mlm.yaml --seed 1

Stories, twins and distractors are all read, each as a text of its own, and 15 in 100 tokens are to be guessed; `--rows
synopses` for the longer stories. Validation and what is written are those of train_roc.py and train_wiki.py, so the
encoders can be compared.
"""

from dataclasses import dataclass, field
from typing import Literal

from narrative_twins.data import load_story_salience, load_story_twins, load_turning_points, load_window_twins
from narrative_twins.training.arguments import MaskedLanguageModelTrainingArguments
from narrative_twins.training.flags import DEFAULTS, SMOKE, ScriptArguments, parse_arguments
from narrative_twins.training.mlm import MaskedLanguageModelTrainer, masked_language_model
from narrative_twins.training.script import judged_stories, run_training, train_and_validation, validation_evaluator

DEFAULTS = DEFAULTS | {
    "output_dir": "runs/mlm",
    "encoder": "google-bert/bert-base-uncased",
    "per_device_train_batch_size": 128,
}
SMOKE = SMOKE | {"output_dir": "runs/mlm-smoke"}
LOADERS = {"stories": (load_story_twins, load_story_salience), "synopses": (load_window_twins, load_turning_points)}


@dataclass
class Recipe(ScriptArguments):
    rows: Literal["stories", "synopses"] = field(default="stories", metadata={"help": "What kind of rows to read."})


def main() -> None:
    arguments, script = parse_arguments(
        MaskedLanguageModelTrainingArguments, DEFAULTS, SMOKE, script=Recipe, description=__doc__
    )
    load_twins, load_judged = LOADERS[script.rows]
    train, validation = train_and_validation(load_twins, script)
    judged = judged_stories(load_judged, script, validation)
    trainer = MaskedLanguageModelTrainer(
        masked_language_model(script.encoder, **script.encoder_options()),
        arguments,
        train,
        validation,
        pooling=script.pooling,
        evaluator=validation_evaluator(script, validation, judged, arguments),
    )
    run_training(trainer, script, train[0]["story"])


if __name__ == "__main__":
    main()
