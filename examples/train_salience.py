"""Train an encoder to agree with readers on which sentences carry a story, next to narrative twins.

    accelerate launch examples/train_salience.py --smoke
    accelerate launch examples/train_salience.py --train_source votes.jsonl --encoder runs/roc/final

`--smoke` is a test run of a minute on a few rows of the package's own stories; flags override it.
The rows of `--train_source` are those of `load_story_salience`: stories with votes, such as
`narrative-twins make judgments` makes for your own kind of text. Without it they are the stories
and distractors of the package, whose votes were judged by a language model. Every third batch or so
has narrative twins of the package, so that the encoder keeps telling plots apart.

All four operations are trained, since those that are not lose: shifting to the two nearest
positions only, which is most of what it costs. `--operations summarization deletion` trains and
validates these two, and `--approximate one-pass` the one-pass forms, for scoring with
`approximate="one-pass"`.
"""

from functools import partial

from narrative_twins.data import load_story_salience, load_story_twins
from narrative_twins.salience.operations import resolve_operations
from narrative_twins.training.salience_loss import SalienceLoss
from narrative_twins.training.script import (
    DEFAULTS,
    SMOKE,
    labelled_stories,
    parse_arguments,
    run_training,
    select_split,
    train_and_validation,
    validation_evaluator,
)
from narrative_twins.training.trainer import NarrativeTwinsTrainer, NarrativeTwinsTrainingArguments

DEFAULTS = DEFAULTS | {
    "output_dir": "runs/salience",
    "learning_rate": 3e-5,
    "warmup_steps": 0.1,
    "num_train_epochs": 1,
    "per_device_train_batch_size": 16,
}
WEIGHTS = {"summarization": 1.0, "deletion": 0.5, "shifting": 0.5, "disruption": 0.25}
"""The weight of each operation in the loss."""
MAX_SHIFTS = 2
SMOKE = SMOKE | {"output_dir": "runs/salience-smoke", "operations": ["summarization", "deletion"]}


def main() -> None:
    arguments, script = parse_arguments(
        NarrativeTwinsTrainingArguments, DEFAULTS, SMOKE, description=__doc__
    )
    judged, validation = train_and_validation(
        partial(load_story_salience, distractors=True), script
    )
    twins = load_story_twins()
    # At most as many twins as judged stories.
    twin_rows = {
        name: select_split(twins, name, len(rows or ()))
        for name, rows in (("train", judged), ("validation", validation))
    }
    labelled = labelled_stories(load_story_salience, script, None) or list(validation or [])
    model = script.load_encoder()
    one_pass = script.approximate is not None
    operations = resolve_operations(script.operations, one_pass=one_pass)
    salience = SalienceLoss(
        model,
        {operation.name: WEIGHTS.get(operation.name, 1.0) for operation in operations},
        approximate=script.approximate,
        max_shifts=None if one_pass else MAX_SHIFTS,
        mini_batch_size=arguments.mini_batch_size,
    )
    trainer = NarrativeTwinsTrainer(
        model,
        arguments,
        {"judged": judged, "twins": twin_rows["train"]},
        None if validation is None else {"judged": validation, "twins": twin_rows["validation"]},
        loss={"judged": salience},
        evaluator=validation_evaluator(
            script, twin_rows["validation"], labelled, arguments.context_tokens
        ),
    )
    run_training(trainer, script)


if __name__ == "__main__":
    main()
