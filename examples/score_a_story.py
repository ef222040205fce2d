"""Print the most salient sentences of a story.

python examples/score_a_story.py [story.txt]
"""

import sys
from pathlib import Path

from narrative_twins import score_stories

path = (
    Path(sys.argv[1])
    if len(sys.argv) > 1
    else Path(__file__).parent / "stories" / "haunted_stable.txt"
)

(result,) = score_stories([path.read_text(encoding="utf-8")])

print(
    f"{len(result.sentences)} sentences in {len(result.windows)} windows; the four most salient by"
    f" {result.primary_operation}:"
)
for sentence in sorted(result.top(4), key=lambda sentence: sentence.index):
    print(f"{sentence.index + 1:4}  {sentence.score:.3f}  {sentence.sentence}")
