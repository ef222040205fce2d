"""Train an encoder on synopses with narrative twins, window by window.

    accelerate launch examples/train_wiki.py --smoke
    accelerate launch examples/train_wiki.py --config examples/configs/wiki_ettin.yaml --seed 43

`--smoke` is a test run of a minute on a few rows of the package's own synopses; flags override the
file. Every 50 steps the AUC of turning points in their windows is measured for each operation:
those of TRIPOD with `--salience_source TRIPOD_synopses_train.csv`, or else those in the validation
rows. The paper's settings are in wiki_ettin.yaml, its ablations in research/paper/configs.
"""

from pathlib import Path

from narrative_twins import (
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    SalienceEvaluator,
    TwinsEvaluator,
    trainable_encoder,
)
from narrative_twins.data import load_turning_points, load_window_twins, select_split
from narrative_twins.training import (
    EstimateCallback,
    estimate_training,
    parse_arguments,
    run_summary,
    triples_and_loss,
)

DEFAULTS = {
    "output_dir": "runs/wiki",
    "encoder": "jhu-clsp/ettin-encoder-1b",
    "per_device_train_batch_size": 16,
    "logging_steps": 10,
    "eval_strategy": "steps",
    "eval_steps": 50,
    "save_steps": 50,
    "save_total_limit": 2,
}
SMOKE = {
    "output_dir": "runs/wiki-smoke",
    "per_device_train_batch_size": 2,
    "max_steps": 2,
    "max_eval_rows": 1,
}


def main() -> None:
    # 1. The settings: flags, over the file of --config, over the defaults above.
    arguments, script = parse_arguments(
        NarrativeTwinsTrainingArguments, DEFAULTS, SMOKE, description=__doc__
    )

    # 2. The encoder to train.
    model = trainable_encoder(
        script.encoder,
        pooling=script.pooling,
        prompt=script.prompt,
        attn_implementation=script.attn_implementation,
        dtype=script.dtype,
        adapter=script.adapter,
    )

    # 3. Synopses in windows, with their twins and distractors, for training and validation.
    data = load_window_twins(script.train_source)
    train = select_split(data, "train", script.max_train_rows)
    validation = None
    if script.eval_source is not None:
        data = load_window_twins(script.eval_source)
    if script.eval_source is not None or "validation" in data:
        validation = select_split(data, "validation", script.max_eval_rows)

    # Triples of stories of `--triples_source`, another data set, with their own loss.
    losses = None
    if script.triples_source is not None:
        triples, loss = triples_and_loss(
            model, arguments, script.triples_source, script.max_train_rows
        )
        train, losses = {"synopses": train, "triples": triples}, {"triples": loss}

    # 4. What is measured besides the loss: agreement with turning points, and how often a
    # window is nearer to the twin than to the distractor.
    evaluators = []
    labelled = [row for row in validation or () if row["turning_points"] is not None]
    if script.salience_source is not None:
        points = load_turning_points(script.salience_source)
        labelled = select_split(points, "validation", script.max_eval_rows)
    if labelled:
        evaluators.append(
            SalienceEvaluator(
                labelled,
                name="salience" if script.approximate is None else "one_pass",
                operations=script.operations,
                approximate=script.approximate,
                context_tokens=arguments.context_tokens,
            )
        )
    pairs = [row for row in validation or () if row["twin"] and row["negative"]]
    if pairs:
        evaluators.append(
            TwinsEvaluator(pairs, name="twins", context_tokens=arguments.context_tokens)
        )

    # 5. The trainer. Its loss is `NarrativeTwinsLoss`, with the temperature, the negatives and the
    # kind of twins that the arguments name.
    trainer = NarrativeTwinsTrainer(
        model,
        arguments,
        train,
        validation if losses is None or validation is None else {"synopses": validation},
        loss=losses,
        evaluator=evaluators or None,
    )
    trainer.facts = script.card_facts()

    # 6. What training will take; with `--estimate`, that is all.
    estimate = estimate_training(trainer)
    if trainer.is_world_process_zero():
        print(estimate)
    if script.estimate:
        return
    trainer.add_callback(EstimateCallback(estimate))

    # 7. Train, and save the encoder with its card; with `lora`, the adapter alone.
    merged = script.lora is None
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    trainer.save_encoder(Path(arguments.output_dir) / "final", merged=merged)
    if arguments.push_to_hub:
        trainer.push_to_hub(merged=merged)
    if trainer.is_world_process_zero():
        print(run_summary(trainer))


if __name__ == "__main__":
    main()
