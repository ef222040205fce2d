"""Train an encoder on synopses with narrative twins, window by window.

    accelerate launch examples/train_wiki.py --smoke
    accelerate launch examples/train_wiki.py --config examples/configs/wiki_ettin.yaml --seed 43

`--smoke` is a test run of a minute on a few rows of the package's own synopses; flags override the
file. Every 50 steps the AUC of turning points in their windows is measured for each operation:
those of TRIPOD with `--salience_source TRIPOD_synopses_train.csv`, or else those in the validation
rows. The paper's settings are in wiki_ettin.yaml, its ablations in research/paper/configs.
"""

from narrative_twins.data import load_turning_points, load_window_twins
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
    "output_dir": "runs/wiki",
    "encoder": "jhu-clsp/ettin-encoder-1b",
    "per_device_train_batch_size": 16,
}
SMOKE = SMOKE | {
    "output_dir": "runs/wiki-smoke",
    "per_device_train_batch_size": 2,
    "max_steps": 2,
    "max_eval_rows": 1,
}


def main() -> None:
    arguments, script = parse_arguments(
        NarrativeTwinsTrainingArguments, DEFAULTS, SMOKE, description=__doc__
    )
    train, validation = train_and_validation(load_window_twins, script)
    labelled = labelled_stories(load_turning_points, script, validation)
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
