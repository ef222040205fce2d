"""What test_platforms.py runs in a process that stands in for Windows, see `support.windows`:

python -m support.on_windows NAME FOLDER ENCODER
"""

from __future__ import annotations

import json
import pkgutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from support.command import Done, run

TEXT = "Nadia found a map. “It led to a mill — naïve!” The mill was gone. 東京は雨でした。"
CHAPTERS = "".join(f"Chapter {n}\n\n{TEXT} It rained.\n\n" for n in (1, 2, 3))


def import_all() -> list[str]:
    """Import every module of the package; the names of those that lack an optional library."""
    import narrative_twins

    missing = []
    for module in pkgutil.walk_packages(narrative_twins.__path__, "narrative_twins."):
        try:
            if not module.name.endswith("__main__"):
                import_module(module.name)
        except ImportError as error:
            missing.append(f"{module.name}: {error}")
    return missing


def command(folder: Path, *arguments: object, encoding: str = "cp1252") -> Done:
    """A command that succeeds, with a console of cp1252."""
    done = run(*arguments, cwd=folder, encoding=encoding)
    assert done.code == 0, (arguments, done)
    return done


def score(folder: Path, encoder: str) -> None:
    """Import all, score by the pipeline and the command, write and show every format."""
    missing = import_all()
    assert all("install" in reason for reason in missing), missing
    from transformers import pipeline

    from narrative_twins.show.formats import FORMATS

    result = pipeline("narrative-salience", model=encoder, device="cpu", dtype="float32")(TEXT)
    options = ["--model", encoder, "--device", "cpu", "--dtype", "float32", "--quiet"]
    (folder / "tale: 1?.txt").write_bytes(TEXT.encode())
    (folder / "book.txt").write_bytes(CHAPTERS.encode())
    table = command(folder, "score", "tale: 1?.txt", *options).out
    assert "Nadia found a map." in table and "\N{BOX DRAWINGS LIGHT HORIZONTAL}" not in table
    for form in FORMATS:
        command(folder, "score", "tale: 1?.txt", *options, "-f", form, "-o", f"scores.{form}")
    saved = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    saved = saved[0] if isinstance(saved, list) else saved
    assert saved["sentences"] == list(result.sentences)
    command(folder, "show", "scores.jsonl", "-f", "csv", "-o", "shown.csv")
    assert (folder / "shown.csv").read_bytes() == (folder / "scores.csv").read_bytes()
    for form in ("text", "json", "html", "jsonl"):
        command(folder, "book", "book.txt", *options, "-f", form, "-o", f"book.{form}")
    extract = command(folder, "extract", "book.json", "--sentences", "3", "--quiet").out
    assert "Chapter 1" in extract


def evaluate_and_train(folder: Path, encoder: str) -> None:
    """Evaluate, write a plot of data with an illegal name, and take a step of training."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer

    from narrative_twins.training.losses import NarrativeTwinsLoss
    from narrative_twins.training.trainer import (
        NarrativeTwinsTrainer,
        NarrativeTwinsTrainingArguments,
    )

    story = ["Nadia found a map.", "It led to a mill.", "It was gone.", "She left.", "It rained."]
    rows = [{"story": story[n:] + story[:n], "labels": [1, 0, 0, 1, 0]} for n in range(3)]
    (folder / "judged.jsonl").write_bytes("\r\n".join(map(json.dumps, rows)).encode())
    options = ["--device", "cpu", "--dtype", "float32", "--quiet"]
    command(folder, "evaluate", "judged.jsonl", f"--model=CON={encoder}", *options, "-o", "figures")
    twins: Any = [{"story": story[n:], "twin": story[:n]} for n in range(1, 5)]
    model = SentenceTransformer(encoder, device="cpu")
    trainer = NarrativeTwinsTrainer(
        model,
        NarrativeTwinsTrainingArguments(
            str(folder / "run"), max_steps=1, use_cpu=True, report_to="none", save_steps=1
        ),
        Dataset.from_list(twins),
        loss=NarrativeTwinsLoss(model),
    )
    trainer.train()
    trainer.save_model(str(folder / "run" / "final"))


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
