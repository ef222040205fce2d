"""Print the Markdown tables of docs/speed.md from the results in
`benchmarks/results`:

    python benchmarks/tables.py
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
LARGE = {"BERT-large": "bert-large", "1B ModernBERT": "modernbert-1b"}


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def speed(works: Sequence[dict[str, Any]], titles: Sequence[str]) -> Iterator[str]:
    """Seconds of each way, and how many times as fast it is as the first row, in several kinds of
    work."""
    yield "| | " + " | ".join(f"{title} | times as fast" for title in titles) + " |"
    yield "|---" * (1 + 2 * len(titles)) + "|"
    rows = [{row["way"]: row for row in work["rows"]} for work in works]
    for way in rows[0]:
        cells = (f"{row[way]['seconds']:.3g} s | {row[way]['times as fast']:,.1f}" for row in rows)
        yield f"| {way} | " + " | ".join(cells) + " |"


def tradeoff(report: dict[str, Any]) -> Iterator[str]:
    """Seconds per text and agreement with readers of each way, the slowest first."""
    first, second, book = (report[kind]["rows"] for kind in ("stories", "synopses", "book"))
    yield (
        "| | five-sentence story, s | Spearman | synopsis, s | AUC |"
        f" document of {report['book']['sentences']:,} sentences, s |"
    )
    yield "|---|---|---|---|---|---|"
    for name in sorted(first, key=lambda name: -second[name]["seconds"]):
        both = (rows[name] for rows in (first, second))
        cells = [f"{row['seconds']:.2g} | {row['agreement']:.3f}" for row in both]
        cells.append(f"{book[name]['seconds']:.3g}" if name in book else "")
        yield f"| {name} | " + " | ".join(cells) + " |"


def all_tables() -> list[Iterator[str]]:
    """The tables, in the order of the document."""
    report = read("speed-minilm-cpu.json")
    works = [report["stories"], report["synopses"]]
    titles = ["30 five-sentence stories", "a synopsis of 34 sentences"]
    large = [read(f"speed-{file}-cpu.json")["stories"] for file in LARGE.values()]
    names = [f"{name}, {work['stories']} stories" for name, work in zip(LARGE, large, strict=True)]
    return [speed(works, titles), speed(large, names), tradeoff(read("tradeoff.json"))]


if __name__ == "__main__":
    print("\n\n".join("\n".join(table) for table in all_tables()))
