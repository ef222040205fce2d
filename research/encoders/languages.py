"""How well encoders rank sentences in each language: the corpus `translations` of the package, whose
votes were judged on the English originals.

    python research/encoders/languages.py --model default --model multilingual --out runs/languages
    python research/encoders/languages.py --model multilingual=FOLDER --out runs/languages \\
        --earlier benchmarks/results/languages.json

The second command measures one encoder, and takes the other figures from a file.

For each language: Spearman of summarization with the votes, given position and length too, exactly
and in one pass, and for baselines; and how often a story is nearer to its English original than to
the distractor in its own language. Settings may be chosen by the languages of `CHOSEN`; the others
are only reported. `--base-folder NAME=DIR` is the folder of the base of an adapter, which is scored
in bfloat16. The table is printed as Markdown, and all figures are in `languages.json`.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from datasets import Dataset
from which import BORDER, FORMS, named, shown

from narrative_twins import StoryEncoder, evaluate
from narrative_twins.data import load_story_salience, load_story_twins
from narrative_twins.evaluation import load_labelled
from narrative_twins.evaluation.comparison import PEOPLE
from narrative_twins.training.evaluators import TwinsEvaluator
from narrative_twins.writing import atomic_write

LANGUAGES = ("ar", "de", "es", "fr", "hi", "it", "ja", "ko", "pt", "ru", "tr", "zh")
CHOSEN = LANGUAGES[::2]
"""The languages by which settings may be chosen: every second one."""
BASELINES = ("trail", "length", "textrank")
BORDER_OF_LANGUAGES = BORDER.replace("encoders", "languages")
Figures = dict[str, dict[str, float]]


def of_language(rows: Dataset, language: str) -> Dataset:
    """The rows of a language, or of the English originals of all of them."""
    return rows.filter(lambda id_: id_.split("-")[2] == language, input_columns="id")


def sets_by_language() -> dict[str, tuple[Dataset, Dataset | None]]:
    """By language, stories and distractors with votes, and triples of a story, its English original
    and its distractor; English has the originals, without triples."""
    options: dict[str, Any] = {"split": "validation", "name": "translations"}
    judged = load_story_salience(distractors=True, **options)
    twins = load_story_twins(**options).select_columns(["id", "story", "twin", "negative"])
    found: dict[str, tuple[Dataset, Dataset | None]] = {}
    for language in LANGUAGES:
        found[language] = of_language(judged, language), of_language(twins, language)
    ids = {row.rpartition("-")[0] for row in found["de"][1]["id"]}
    english = load_story_salience(split="validation", distractors=True)
    found["en"] = (
        english.filter(lambda id_: id_.removesuffix("-negative") in ids, input_columns="id"),
        None,
    )
    return found


def figures(
    models: dict[str, str],
    bases: dict[str, str],
    forms: Sequence[str],
    out: Path,
    baselines: Sequence[str],
) -> dict[str, Figures]:
    """By language and row of the table, the figures."""
    found: dict[str, Figures] = {}
    sets = sets_by_language()
    triples = {language: TwinsEvaluator(twins) for language, (_, twins) in sets.items() if twins}
    labelled = [load_labelled(rows, "all", name=language) for language, (rows, _) in sets.items()]
    for name, model in models.items():
        loading = {"device": "cpu", "dtype": "float32"}
        if name in bases:  # the agreement differs by 0.002 at most
            loading = {"device": "cpu", "dtype": "bfloat16", "base_folder": bases[name]}
        encoder = StoryEncoder.from_pretrained(model, **loading)
        for form in forms:
            comparison = evaluate(
                {name: encoder},
                labelled,
                out / form.replace(" ", "-"),
                baselines=baselines if (name, form) == (next(iter(models)), forms[0]) else (),
                approximate=FORMS[form],
                operations="summarization",
                progress=True,
            )
            for line in comparison.means.itertuples():
                if line.scorer not in PEOPLE:
                    row = f"{name}, {form}" if line.scorer == name else line.scorer
                    found.setdefault(line.data, {}).setdefault(row, {})[line.metric] = line.mean
        for language, evaluator in triples.items():
            found[language][f"{name}, {forms[0]}"]["twins"] = evaluator(encoder)["accuracy"]
    return found


def table(found: dict[str, Figures]) -> Iterator[str]:
    """The lines of a Markdown table: Spearman, and in brackets given position and length."""
    names = sorted(found["en"], key=lambda name: name in BASELINES)
    # Twins of the first encoder only: a line has 120 columns.
    twins = [name for name in names if "twins" in found["de"][name]][:1]
    # Of an encoder in two forms, the second column has the name of the form only.
    encoders = [name.rpartition(", ")[0] for name in names]
    headings = [
        name.rpartition(", ")[2] if encoder and encoder == before else name
        for name, encoder, before in zip(names, encoders, ["", *encoders], strict=False)
    ]
    headings += [f"{name.rpartition(', ')[0]}: twins" for name in twins]
    yield f"| | {' | '.join(headings)} |"
    yield "|---" * (len(headings) + 1) + "|"
    for language, rows in found.items():
        cells = [
            f"{shown(rows[name].get('spearman'))} ({shown(rows[name].get('partial'), 2)})".replace(
                " ()", ""
            )
            for name in names
        ]
        cells += [shown(rows[name].get("twins")) for name in twins]
        star = "" if language in CHOSEN or language == "en" else " *"
        yield f"| {language}{star} | {' | '.join(cells)} |"
    reported = [rows for language, rows in found.items() if language in set(LANGUAGES) - {*CHOSEN}]
    means = [shown(mean(rows[name]["spearman"] for rows in reported)) for name in names]
    means += [shown(mean(rows[name]["twins"] for rows in reported)) for name in twins]
    yield f"| mean of * | {' | '.join(means)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", action="append", required=True, type=named, help="NAME=FOLDER, or NAME"
    )
    parser.add_argument("--base-folder", action="append", type=named, default=[])
    parser.add_argument(
        "--form", action="append", choices=FORMS, help="measure only these forms (default: both)"
    )
    parser.add_argument("--earlier", type=Path, help="a languages.json with figures of others")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--docs", type=Path, help="folder of encoders.md, which gets the table")
    options = parser.parse_args()
    models = {name: folder or name for name, folder in options.model}
    earlier = json.loads(options.earlier.read_text(encoding="utf-8")) if options.earlier else {}
    latest = figures(
        models,
        dict(options.base_folder),
        options.form or list(FORMS),
        options.out,
        () if earlier else BASELINES,
    )
    found = {language: earlier.get(language, {}) | rows for language, rows in latest.items()}
    with atomic_write(options.out / "languages.json") as file:
        file.write(json.dumps(found, indent=1) + "\n")
    lines = "\n".join(table(found))
    print(lines)
    if options.docs:
        page = options.docs / "encoders.md"
        before, _, after = page.read_text(encoding="utf-8").split(BORDER_OF_LANGUAGES)
        text = f"{before}{BORDER_OF_LANGUAGES}\n{lines}\n{BORDER_OF_LANGUAGES}{after}"
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
