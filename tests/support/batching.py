"""Scores of stories alone, among others, in another order, resumed and by the oracle, with the
kernels that this process has: `python -m support.batching FOLDER DTYPE...` prints the largest
differences by dtype as JSON. `test_batching` runs it with several sets of instructions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from narrative_twins import StoryEncoder, StorySalience, score_stories
from narrative_twins.data.sources import corpus_rows

from support.command import run
from support.models import encoder_of
from support.oracle import Oracle

STORIES = 3


def differences(dtype: str, folder: Path) -> dict[str, float]:
    """The largest difference of scores from those of each story alone, by what was changed."""
    folder.mkdir()
    model, tokenizer = encoder_of("bert")
    model.to(getattr(torch, dtype)).save_pretrained(folder / "encoder")
    tokenizer.save_pretrained(folder / "encoder")
    encoder = StoryEncoder.from_pretrained(folder / "encoder", device="cpu", dtype=dtype)
    stories = [row["story"] for row in corpus_rows("stories")["validation"]][:STORIES]
    alone = [next(score_stories([story], encoder)) for story in stories]
    together = list(score_stories(stories, encoder))
    turned = list(score_stories(stories[::-1], encoder, batch_size=4))[::-1]
    oracle = Oracle(encoder.model, encoder.tokenizer.tokenizer)
    return {
        "among others": _largest(alone, [result.scores for result in together]),
        "in another order": _largest(alone, [result.scores for result in turned]),
        "resumed": _largest(alone, _resumed(stories, dtype, folder)),
        "by the oracle": _largest(
            alone, [oracle.score(result.sentences, result.windows) for result in alone]
        ),
    }


def _resumed(stories: list[list[str]], dtype: str, folder: Path) -> list[dict[str, list[float]]]:
    """The scores of a run of the command that was stopped after two stories, and resumed."""
    source, out = folder / "stories.jsonl", folder / "scores.jsonl"
    source.write_text("".join(json.dumps({"sentences": story}) + "\n" for story in stories))
    command = ["score", source, "--model", folder / "encoder", "--device", "cpu"]
    command += ["--dtype", dtype, "-o", out, "--quiet"]
    assert run(*command).code == 0
    # The space shows below that these lines are kept, not written again.
    kept = "".join(f"{line} \n" for line in out.read_text().splitlines()[:2])
    out.write_text(kept)
    done = run(*command, "--resume")
    assert done.code == 0 and out.read_text().startswith(kept), done.err
    return [json.loads(line)["scores"] for line in out.read_text().splitlines()]


def _largest(alone: list[StorySalience], others: list[dict[str, list[float]]]) -> float:
    assert len(others) == len(alone)
    return max(
        float(np.abs(np.array(result.scores[name]) - scores[name]).max())
        for result, scores in zip(alone, others, strict=True)
        for name in result.scores
    )


if __name__ == "__main__":
    found = {dtype: differences(dtype, Path(sys.argv[1]) / dtype) for dtype in sys.argv[2:]}
    print(json.dumps([torch.backends.cpu.get_cpu_capability(), found]))
