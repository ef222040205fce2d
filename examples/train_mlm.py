"""Train the baseline: masked language modeling on the texts of narrative twins.

    accelerate launch examples/train_mlm.py --smoke
    accelerate launch examples/train_mlm.py --config examples/configs/roc_mlm.yaml --seed 1

Stories, twins and distractors are separate texts, in which 15 % of the tokens are predicted;
`--rows synopses` uses the longer stories. A batch is counted in rows, with all texts of each.
Validation, the number of steps and output files are those of train_roc.py and train_wiki.py, for
comparison.
"""

from dataclasses import dataclass, field
from typing import Literal

from narrative_twins.data import (
    load_story_salience,
    load_story_twins,
    load_turning_points,
    load_window_twins,
)
from narrative_twins.training.mlm import MaskedLanguageModelTrainer, masked_language_model
from narrative_twins.training.script import (
    DEFAULTS,
    SMOKE,
    ScriptArguments,
    labelled_stories,
    parse_arguments,
    run_training,
    train_and_validation,
    validation_evaluator,
)
from narrative_twins.training.trainer import MaskedLanguageModelTrainingArguments

DEFAULTS = DEFAULTS | {
    "output_dir": "runs/mlm",
    "encoder": "google-bert/bert-base-uncased",
    "per_device_train_batch_size": 128,
}
SMOKE = SMOKE | {"output_dir": "runs/mlm-smoke"}
LOADERS = {
    "stories": (load_story_twins, load_story_salience),
    "synopses": (load_window_twins, load_turning_points),
}


@dataclass
class Recipe(ScriptArguments):
    rows: Literal["stories", "synopses"] = field(
        default="stories", metadata={"help": "The kind of rows to train on."}
    )


def main() -> None:
    arguments, script = parse_arguments(
        MaskedLanguageModelTrainingArguments, DEFAULTS, SMOKE, script=Recipe, description=__doc__
    )
    load_twins, load_labelled = LOADERS[script.rows]
    train, validation = train_and_validation(load_twins, script)
    labelled = labelled_stories(load_labelled, script, validation)
    trainer = MaskedLanguageModelTrainer(
        masked_language_model(script.encoder, attn_implementation=script.attn_implementation),
        arguments,
        train,
        validation,
        pooling=script.pooling,
        evaluator=validation_evaluator(script, validation, labelled, arguments),
    )
    run_training(trainer, script, train[0]["story"])


if __name__ == "__main__":
    main()
