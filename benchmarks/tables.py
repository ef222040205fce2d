"""Print the Markdown tables of the README and docs/speed.md from the results in
`benchmarks/results`:

python benchmarks/tables.py
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

LARGE = {"BERT-large": "bert-large", "1B ModernBERT": "modernbert-1b"}
SUMMARY = (
    "naive loop",
    "reference loop",
    "sentence-transformers",
    "exact, float32",
    "exact, auto",
    "one pass, auto",
)
"""The rows in the README, as far as they were measured. Results before the reference loop have a
naive loop instead."""
RESULTS = Path(__file__).parent / "results"


def read(name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return report


def speed(report: dict[str, Any], ways: Collection[str] = ()) -> Iterator[str]:
    """Seconds, and speed relative to the first row, of scoring stories and a synopsis; of some ways
    or all."""
    stories, synopses = (
        {row["way"]: row for row in report[work]["rows"]} for work in ("stories", "synopses")
    )
    yield (
        "| | 30 five-sentence stories | times as fast | a synopsis of 34 sentences | times as"
        " fast |"
    )
    yield "|---|---|---|---|---|"
    for way, row in ((way, row) for way, row in stories.items() if not ways or way in ways):
        other = synopses[way]
        yield (
            f"| {way} | {row['seconds']:.3g} s | {row['times as fast']:,.1f} "
            f"| {other['seconds']:.3g} s | {other['times as fast']:,.1f} |"
        )


def sizes(reports: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Seconds, and speed relative to the first row, of scoring stories with different encoders."""
    found = {name: report["stories"] for name, report in reports.items()}
    yield (
        "| | "
        + " | ".join(
            f"{name}, {work['stories']} stories | times as fast" for name, work in found.items()
        )
        + " |"
    )
    yield "|---" * (1 + 2 * len(found)) + "|"
    rows = {name: {row["way"]: row for row in work["rows"]} for name, work in found.items()}
    for way in next(iter(rows.values())):
        cells = (
            f"{ways[way]['seconds']:.3g} s | {ways[way]['times as fast']:,.1f}"
            for ways in rows.values()
        )
        yield f"| {way} | " + " | ".join(cells) + " |"


def ranks(report: dict[str, Any]) -> Iterator[str]:
    """Correlation with exact scores, and agreement with human labels."""
    columns = "with exact | with labels | exact |"
    yield f"| setting | operation | stories: {columns} synopses: {columns}"
    yield "|---|---|---|---|---|---|---|---|"
    files = [report[name] for name in ("roc_val.json", "tripod_train.json")]
    for setting in dict.fromkeys(name for file in files for name in file if name != "exact"):
        for operation in files[0]["exact"]["agreement"]:
            cells = []
            for file in files:
                found = file.get(setting, {})
                known = operation in found.get("rank", {})
                cells += (
                    [f"{found['rank'][operation]:.3f}", f"{found['agreement'][operation]:.3f}"]
                    if known
                    else ["", ""]
                )
                cells.append(f"{file['exact']['agreement'][operation]:.3f}" if known else "")
            if any(cells):
                yield f"| `{setting}` | {operation} | " + " | ".join(cells) + " |"


def tradeoff(report: dict[str, Any]) -> Iterator[str]:
    """Seconds per text and agreement with readers of each way, the slowest first."""
    first, second, book = (report[kind]["rows"] for kind in ("stories", "synopses", "book"))
    yield (
        "| | five-sentence story, s | Spearman | synopsis, s | AUC |"
        f" document of {report['book']['sentences']:,} sentences, s |"
    )
    yield "|---|---|---|---|---|---|"
    for name in sorted(first, key=lambda name: -second[name]["seconds"]):
        cells = [
            cell
            for rows in (first, second)
            for cell in (f"{rows[name]['seconds']:.2g}", f"{rows[name]['agreement']:.3f}")
        ]
        cells.append(f"{book[name]['seconds']:.3g}" if name in book else "")
        yield f"| {name} | " + " | ".join(cells) + " |"


def all_tables() -> dict[str, list[Iterator[str]]]:
    """The tables, by file."""
    default, large = (
        read("speed-minilm-cpu.json"),
        {name: read(f"speed-{file}-cpu.json") for name, file in LARGE.items()},
    )
    return {
        "README.md": [speed(default, SUMMARY)],
        "docs/speed.md": [
            speed(default),
            sizes(large),
            tradeoff(read("tradeoff.json")),
            ranks(read("ranks.json")),
        ],
    }


if __name__ == "__main__":
    for file, tables in all_tables().items():
        print(f"{file}\n\n" + "\n\n".join("\n".join(table) for table in tables) + "\n")
