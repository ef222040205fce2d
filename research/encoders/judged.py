"""Texts that a language model judged as readers would: passages of prose, with how many of nine
readers would mark each sentence as carrying the story; stories of ROCStories, with the votes of ten
readers for the most important sentence; and plots of films, with their turning points. Texts that
can't be redistributed are in a folder of research data.

    python research/encoders/judged.py

prints how many there are, and how far judgements of the same passage agree.
"""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from statistics import mean

from narrative_twins.evaluation.metrics import spearman

HERE = Path(__file__).parent
PROSE = ("prose_marks.jsonl", "prose_texts.jsonl")
"""Passages, and texts with their marks, written for training by a language model, in the public
domain (CC0)."""
STORIES = "story_votes.jsonl"
FILMS = "film_turning_points.jsonl"
READERS = 9
"""Of the marks of passages; votes are those of ten."""
PHRASE = 12
"""Words that two texts share only if they are of the same work, such as one tale in two books."""


def is_held_out(name: str) -> bool:
    """Whether a story or work is in the half that is held out, by a hash of its id."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def read_rows(*files: str) -> list[dict]:
    """The rows of files of this folder, with a number for each sentence as `marks`, and where the
    text is: the `story` itself, or sentences of a row of a `file`, all of them unless `start` says
    where a passage begins. Some passages have the marks of a second judgement as `again`."""
    lines = [line for file in files for line in (HERE / file).read_text("utf-8").splitlines()]
    return list(map(json.loads, lines))


def judged_stories(data: Path) -> list[dict[str, list]]:
    """Stories as `story`, with their votes as `counts`. Ends the program if a text is not the one
    that was judged, as do the next two functions."""
    works: dict[Path, dict] = {}
    return [{"story": text(row, data, works), "counts": row["marks"]} for row in read_rows(STORIES)]


def judged_films(data: Path) -> list[dict[str, list]]:
    """Film plots as `story`, with `labels` of 2 for turning points, and of 1 for sentences that
    are nearly as good."""
    works: dict[Path, dict] = {}
    return [{"story": text(row, data, works), "labels": row["marks"]} for row in read_rows(FILMS)]


def judged_passages(data: Path, held_out: bool) -> list[dict[str, list]]:
    """Passages as `story`, with the share of readers for each sentence as `labels`, the mean of all
    judgements. Passages of every second work of `fairytaleqa.jsonl` are held out, to choose
    settings by, with the first judgement; other works that share text with them are left out.
    """
    works: dict[Path, dict] = {}
    kept, held = [], []
    for marked in read_rows(*PROSE):
        story = text(marked, data, works)
        tale = marked.get("file") == "fairytaleqa.jsonl"
        is_held = tale and is_held_out(marked["id"])
        judgements = [marked["marks"]] if is_held else [marked["marks"], *marked.get("again", [])]
        labels = [mean(marks) / READERS for marks in zip(*judgements, strict=True)]
        passage = {"story": story, "labels": labels}
        if is_held:
            held.append(passage)
        else:
            kept.append((marked.get("id", ""), passage))
    if held_out:
        return held
    phrases = set().union(*(_phrases(passage["story"]) for passage in held))
    known = {name for name, passage in kept if _phrases(passage["story"]) & phrases}
    return [passage for name, passage in kept if name not in known]


def other_tales(data: Path) -> list[list[str]]:
    """The sentences of fairy tales that are not held out, and share no text with a passage that is."""
    held = judged_passages(data, held_out=True)
    phrases = set().union(*(_phrases(passage["story"]) for passage in held))
    lines = (data / "fairytaleqa.jsonl").read_text(encoding="utf-8").splitlines()
    tales = [tale for tale in map(json.loads, lines) if not is_held_out(tale["id"])]
    sentences = [[" ".join(each.split()) for each in tale["sentences"]] for tale in tales]
    return [tale for tale in sentences if not _phrases(tale) & phrases]


def _phrases(story: list[str]) -> set[tuple[str, ...]]:
    """All sequences of `PHRASE` words."""
    words = re.findall(r"\w+", " ".join(story).lower())
    return {tuple(words[i : i + PHRASE]) for i in range(len(words) - PHRASE + 1)}


def text(row: dict, data: Path, works: dict[Path, dict]) -> list[str]:
    """The sentences that were judged; files that were read are kept in `works`."""
    if "story" in row:
        return row["story"]
    file, start = data / row["file"], row.get("start", 0)
    if file not in works:
        rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        works[file] = {found["id"]: found for found in rows}
    sentences = works[file][row["id"]][row.get("column", "sentences")]
    if "telling" in row:  # one of several people's
        sentences = sentences[row["telling"]]["sentences"]
    story = [
        " ".join(sentence.split()) for sentence in sentences[start : start + len(row["marks"])]
    ]
    if digest(story) != row["text"]:
        raise SystemExit(f"{file}, {row['id']}: not the text that was judged")
    return story


def digest(story: list[str]) -> str:
    return hashlib.sha256("\n".join(story).encode()).hexdigest()[:12]


def with_others(marks: list[int], judgements: list[list[int]]) -> float:
    """The Spearman correlation of a judgement with the mean of the others."""
    others = [each for each in judgements if each is not marks]
    return spearman(marks, [mean(column) for column in zip(*others, strict=True)])


def main() -> None:
    rows = read_rows(*PROSE)
    sentences = sum(len(row["marks"]) for row in rows)
    print(f"{len(rows):,} passages, {sentences:,} sentences")
    for file, count in Counter(row.get("file", "prose_texts.jsonl") for row in rows).most_common():
        print(f"{count:7,} of {file}")
    for number in sorted({len(row["again"]) + 1 for row in rows if "again" in row}):
        several = [
            [row["marks"], *row["again"]] for row in rows if len(row.get("again", ())) + 1 == number
        ]
        agreement = [mean(map(with_others, each, [each] * number)) for each in several]
        print(
            f"{len(several)} passages were judged {number} times: Spearman {mean(agreement):.3f} of"
            " a judgement with the mean of the others, mean over passages"
        )
    print(f"{len(read_rows(STORIES)):,} stories with votes")
    print(f"{len(read_rows(FILMS)):,} film plots with turning points")


if __name__ == "__main__":
    main()
