"""Train an encoder on five-sentence stories with narrative twins.

    accelerate launch examples/train_roc.py --smoke
    accelerate launch examples/train_roc.py --config examples/configs/roc_bert_large.yaml --seed 43

`--smoke` is a test run of a minute on a few rows of the package's own stories; flags override the
file. On two CPU processes: `torchrun --nproc_per_node 2 examples/train_roc.py --smoke --use_cpu`.
With human labels, for example `--salience_source igorsterner/rocstory-salience`, the agreement of
each operation is measured every 50 steps. The paper's settings are in roc_bert_large.yaml, its
ablations in the folder research/paper/configs.
"""

from narrative_twins.data import load_story_salience, load_story_twins
from narrative_twins.training.script import (
    DEFAULTS,
    SMOKE,
    labelled_stories,
    parse_arguments,
    run_training,
    train_and_validation,
    validation_evaluator,
)
from narrative_twins.training.trainer import NarrativeTwinsTrainer, NarrativeTwinsTrainingArguments

DEFAULTS = DEFAULTS | {
    "output_dir": "runs/roc",
    "encoder": "google-bert/bert-base-uncased",
    "per_device_train_batch_size": 128,
}
SMOKE = SMOKE | {"output_dir": "runs/roc-smoke"}


def main() -> None:
    arguments, script = parse_arguments(
        NarrativeTwinsTrainingArguments, DEFAULTS, SMOKE, description=__doc__
    )
    train, validation = train_and_validation(load_story_twins, script)
    labelled = labelled_stories(load_story_salience, script, validation)
    trainer = NarrativeTwinsTrainer(
        script.load_encoder(),
        arguments,
        train,
        validation,
        evaluator=validation_evaluator(script, validation, labelled, arguments.context_tokens),
    )
    run_training(trainer, script)


if __name__ == "__main__":
    main()
