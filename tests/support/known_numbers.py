"""Known numbers of the real data, which can't be redistributed: counted again, and compared.

    python -m support.known_numbers DATA

DATA has `roc_val.json` (250 five-sentence stories with the choices of five annotators) and
`tripod_train.json` (84 film synopses with turning points). Exits with 1 if a number differs, 0
otherwise; a file that is missing is skipped.
"""

from __future__ import annotations

import sys
from pathlib import Path

from narrative_twins.evaluation import Comparison, evaluate

EXPECTED = {
    "roc_val.json": {
        "stories": 250,
        "entropy of the labels (bits)": 1.02,
        "perplexity": 2.03,
        "Spearman of later is more salient": 0.34,
        "AUC of later is more salient": 0.70,
    },
    "tripod_train.json": {
        "stories": 84,
        "share of turning points left out": 0.298,
        "AUC of later is more salient": 0.555,
    },
}
"""Rounded to the digits given. The paper reports entropy and perplexity of its annotation, 0.56 for
later is more salient on all 99 films, and 29 % left out."""


def numbers_of(comparison: Comparison) -> dict[str, float | None]:
    """The numbers of one set of labelled stories."""
    (summary,) = comparison.summaries
    trail = comparison.line(summary.name, "trail")["mean"]
    points = summary.stories * (summary.points_per_story or 0)
    return {
        "stories": summary.stories,
        "entropy of the labels (bits)": summary.entropy,
        "perplexity": summary.perplexity,
        "share of turning points left out": summary.left_out / points if points else None,
        "Spearman of later is more salient": trail.get("spearman"),
        "AUC of later is more salient": trail["auc"],
    }


def main() -> int:
    differences = 0
    for name, expected in EXPECTED.items():
        path = Path(sys.argv[1]) / name
        if not path.exists():
            print(f"skipped: no {path} (the data can't be redistributed; set DATA=)")
            continue
        numbers = numbers_of(evaluate({}, str(path), baselines="trail"))
        for what, number in expected.items():
            digits = len(str(number).partition(".")[2])
            same = round(numbers[what], digits) == number
            differences += not same
            print(
                f"{name:<18} {what:<36} {numbers[what]:>9.4f} {number}{'' if same else ' DIFFERS'}"
            )
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
