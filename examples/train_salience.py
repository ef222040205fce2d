"""Train an encoder to agree with readers on which sentences carry a story, next to narrative twins.

    accelerate launch examples/train_salience.py --smoke
    accelerate launch examples/train_salience.py --train_source votes.jsonl --encoder runs/roc/final

`--smoke` is a test run of a minute on a few rows of the package's own stories; flags override it.
The rows of `--train_source` are those of `load_story_salience`: stories with votes, such as
`narrative-twins make judgments` makes for your own kind of text. Without it they are the stories
and distractors of the package, whose votes were judged by a language model. Every third batch or so
has narrative twins of the package, so that the encoder keeps telling plots apart.

All four operations are trained, since those that are not lose; shifting to the two nearest positions
only. `--operations summarization deletion` trains and validates these two, and `--approximate
one-pass` the one-pass forms, for scoring with `approximate="one-pass"`.
"""

from pathlib import Path

from narrative_twins import (
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    SalienceEvaluator,
    SalienceLoss,
    TwinsEvaluator,
    trainable_encoder,
)
from narrative_twins.data import load_story_salience, load_story_twins, select_split
from narrative_twins.salience.operations import resolve_operations
from narrative_twins.training import (
    EstimateCallback,
    estimate_training,
    parse_arguments,
    run_summary,
    triples_and_loss,
)

DEFAULTS = {
    "output_dir": "runs/salience",
    "learning_rate": 3e-5,
    "warmup_steps": 0.1,
    "num_train_epochs": 1,
    "per_device_train_batch_size": 16,
    "logging_steps": 10,
    "eval_strategy": "steps",
    "eval_steps": 50,
    "save_steps": 50,
    "save_total_limit": 2,
}
SMOKE = {"output_dir": "runs/salience-smoke", "operations": ["summarization", "deletion"]}
WEIGHTS = {"summarization": 1.0, "deletion": 0.5, "shifting": 0.5, "disruption": 0.25}


def main() -> None:
    # 1. The settings: flags, over the file of --config, over the defaults above.
    arguments, script = parse_arguments(
        NarrativeTwinsTrainingArguments, DEFAULTS, SMOKE, description=__doc__
    )
    one_pass = script.approximate is not None

    # 2. The encoder to train.
    model = trainable_encoder(
        script.encoder,
        pooling=script.pooling,
        prompt=script.prompt,
        attn_implementation=script.attn_implementation,
        dtype=script.dtype,
        adapter=script.adapter,
    )

    # 3. Stories with votes, for training and validation, and at most as many with twins.
    data = load_story_salience(script.train_source, distractors=True)
    train = {"judged": select_split(data, "train", script.max_train_rows)}
    twins = load_story_twins()
    train["twins"] = select_split(twins, "train", len(train["judged"]))
    validation = None
    if script.eval_source is not None:
        data = load_story_salience(script.eval_source, distractors=True)
    if script.eval_source is not None or "validation" in data:
        validation = {"judged": select_split(data, "validation", script.max_eval_rows)}
        validation["twins"] = select_split(twins, "validation", len(validation["judged"]))

    # 4. The loss of stories with votes, by operation; the loss of twins is the trainer's default.
    operations = resolve_operations(script.operations, one_pass=one_pass)
    loss = SalienceLoss(
        model,
        {operation.name: WEIGHTS.get(operation.name, 1.0) for operation in operations},
        approximate=script.approximate,
        max_shifts=None if one_pass else 2,
        mini_batch_size=arguments.mini_batch_size,
    )

    losses = {"judged": loss}
    if script.triples_source is not None:
        train["triples"], losses["triples"] = triples_and_loss(
            model, arguments, script.triples_source, script.max_train_rows
        )

    # 5. What is measured besides the loss: agreement with labels, and how often a twin is nearer to
    # its story than the distractor is.
    evaluators, limit = [], arguments.context_tokens
    labelled = validation and validation["judged"]
    if script.salience_source is not None:
        labelled = load_story_salience(script.salience_source)
        labelled = select_split(labelled, "validation", script.max_eval_rows)
    if labelled is not None:
        evaluators.append(
            SalienceEvaluator(
                labelled,
                name="one_pass" if one_pass else "salience",
                operations=script.operations,
                approximate=script.approximate,
                context_tokens=limit,
            )
        )
    if validation is not None:
        evaluators.append(TwinsEvaluator(validation["twins"], name="twins", context_tokens=limit))

    # 6. The trainer: each batch has rows of one of the two data sets.
    trainer = NarrativeTwinsTrainer(
        model, arguments, train, validation, loss=losses, evaluator=evaluators or None
    )
    trainer.facts = script.card_facts()

    # 7. What training will take; with `--estimate`, that is all.
    estimate = estimate_training(trainer)
    if trainer.is_world_process_zero():
        print(estimate)
    if script.estimate:
        return
    trainer.add_callback(EstimateCallback(estimate))

    # 8. Train, and save the encoder with its card; with `lora`, the adapter alone.
    merged = script.lora is None
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    trainer.save_encoder(Path(arguments.output_dir) / "final", merged=merged)
    if arguments.push_to_hub:
        trainer.push_to_hub(merged=merged)
    if trainer.is_world_process_zero():
        print(run_summary(trainer))


if __name__ == "__main__":
    main()
