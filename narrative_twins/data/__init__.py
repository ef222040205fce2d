"""Data sets of narrative twins for training and of human labels for evaluation, as `datasets`.

```python
from narrative_twins.data import load_story_twins

twins = load_story_twins(split="train")
```
"""

from narrative_twins.extras import check_extra as _check_extra

_check_extra("train")

from narrative_twins.data.loading import load_story_salience as load_story_salience
from narrative_twins.data.loading import load_story_twins as load_story_twins
from narrative_twins.data.loading import load_triples as load_triples
from narrative_twins.data.loading import load_turning_points as load_turning_points
from narrative_twins.data.loading import load_window_twins as load_window_twins
from narrative_twins.data.loading import select_split as select_split
from narrative_twins.data.rows import RowError as RowError
from narrative_twins.data.rows import check_twins_row as check_twins_row
