"""The rows of the runs of reproduce.yaml that are not trained on the stories of the package."""

import subprocess
import sys
from pathlib import Path

from narrative_twins.data import load_story_twins

ROWS = Path("rows")
ENCODERS = Path(__file__).resolve().parents[1] / "encoders"


def make_rows(data: Path, pipeline: str) -> None:
    """Make what is not there yet and can be made, in the folder `rows`.

    Args:
        data: a folder, perhaps with roc_with_negatives.jsonl, for distractors by people: as many
            rows as the package has stories.
        pipeline: the spaCy pipeline that recognizes names, for stories with other names.
    """
    ROWS.mkdir(exist_ok=True)
    stories, people, entities = (
        ROWS / f"{name}.jsonl" for name in ("stories", "human_distractors", "entities")
    )
    if not stories.exists():
        load_story_twins(split="train").to_json(stories, force_ascii=False)
    if not people.exists() and (data / "roc_with_negatives.jsonl").exists():
        sys.path.insert(0, str(ENCODERS))
        from train_twins import human_distractors

        rows = human_distractors(data / "roc_with_negatives.jsonl").shuffle(seed=0)
        rows = rows.select(range(len(load_story_twins(split="train"))))
        # Files of twins need one; a dropout twin of the story or of its twin is then the same.
        rows.map(lambda row: {"twin": row["story"]}).to_json(people, force_ascii=False)
    if not entities.exists():
        words = ["-m", "narrative_twins", "make", "entities", str(stories), "-o", str(entities)]
        subprocess.run([sys.executable, *words, "--pipeline", pipeline, "--resume", "--quiet"])
