r"""Time the scoring of stories (`make speed`), compared with a reference loop, bare forward passes
and alternatives:

    python benchmarks/speed.py [--model minilm|bert-large|modernbert-1b|FOLDER] [--device cpu] \
        [--work stories synopses] [--rounds 5] [--out benchmarks/results/speed-minilm-cpu.json]

The texts are from the package's own corpora. Each round runs all ways in turn; times are medians
over rounds, ratios are medians of the ratios within a round, so that other load on the machine
affects all ways alike. `bert-large` and `modernbert-1b` have random weights, which does not affect
the time. Alternatives that are not installed are skipped.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import contenders
import numpy as np
import torch
import transformers
from contenders import Run
from tqdm.auto import tqdm

from narrative_twins import Story, StoryEncoder, default_encoder
from narrative_twins.data import load_story_twins, load_window_twins
from narrative_twins.salience.plans import one_pass_plans
from narrative_twins.writing import atomic_write

Ways = Mapping[str, Callable[[], Run]]
"""Functions that set up each way, by name; an ImportError if a library is not installed."""
WORK = {
    "stories": "stories of five sentences",
    "corpus": "stories of five sentences in one pass",
    "synopses": "a synopsis of 34 sentences in five windows",
    "chapter": "150 sentences of a book",
    "book": "3,000 sentences of a book, in one pass only",
    "book-exact": "3,000 sentences of a book, exactly too",
}
LONG = ("book-exact",)
"""Work that only runs if named by `--work`: ten minutes per round on two cores."""
SIZES = {
    "bert-large": ("Bert", (1024, 24, 16, 4096)),
    "modernbert-150m": ("ModernBert", (768, 22, 12, 1152)),
    "modernbert-1b": ("ModernBert", (1792, 28, 28, 3840)),
}
"""Encoders with random weights: kind, width, layers, heads and inner width."""
_FOLDERS: dict[str, TemporaryDirectory[str]] = {}


def load_stories(work: str, count: int | None) -> list[Story]:
    """The texts of a kind of work; of five-sentence stories at most `count`."""
    if work in ("stories", "corpus"):
        count = count or (30 if work == "stories" else 500)
        rows = load_story_twins(split="train")["story"][:count]
        return [Story.parse({"sentences": row}, 1) for row in rows]
    rows = load_window_twins(split="train")["story"]
    sentences = [sentence for windows in rows for window in windows for sentence in window]
    if work == "synopses":
        return [Story.parse({"sentences": sentences[:34]}, 5)]
    return [Story.parse({"sentences": sentences[: 150 if work == "chapter" else 3_000]})]


def model_folder(model: str) -> str:
    """The folder of a model; one of `SIZES` is created with random weights."""
    if model not in SIZES:
        return default_encoder() if model == "minilm" else model
    if model not in _FOLDERS:
        kind, (width, layers, heads, inner) = SIZES[model]
        tokenizer = transformers.AutoTokenizer.from_pretrained(default_encoder())
        torch.manual_seed(0)
        config = getattr(transformers, f"{kind}Config")(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=inner,
            max_position_embeddings=512,
            pad_token_id=tokenizer.pad_token_id,
        )
        _FOLDERS[model] = TemporaryDirectory(prefix=model)
        for part in (getattr(transformers, f"{kind}Model")(config), tokenizer):
            part.save_pretrained(_FOLDERS[model].name)
    return _FOLDERS[model].name


class Bench:
    """The timed ways for a kind of work, with models that are loaded on first use."""

    def __init__(self, folder: str, device: str, work: str, count: int | None) -> None:
        self.folder, self.device, self.work = folder, device, work
        self.stories = load_stories(work, count)
        # On a GPU the precision is set, as users would do; on a CPU it is chosen automatically.
        self.low = "auto" if device == "cpu" else "bfloat16"

    def encoder(self, dtype: str, attention: Any = "auto") -> StoryEncoder:
        return StoryEncoder.from_pretrained(
            self.folder, device=self.device, context_tokens=512, dtype=dtype, attention=attention
        )

    @cached_property
    def full(self) -> StoryEncoder:
        return self.encoder("float32")

    @cached_property
    def fast(self) -> StoryEncoder:
        return self.encoder(self.low)

    @cached_property
    def rows(self) -> list[np.ndarray]:
        return contenders.unique_rows(self.fast, self.stories)

    def facts(self) -> dict[str, float]:
        """Counts of what is scored."""
        if self.work.startswith("book"):
            (story,) = self.stories
            tokens = self.full.tokenize(story.sentences)
            special = self.full.context_tokens - self.full.tokenizer.max_text_tokens
            plans = one_pass_plans([], tokens, story.windows)
            chunks = (chunk for plan in plans for variant in plan.variants for chunk in variant)
            read = {chunk.ids.tobytes(): len(chunk.ids) - special for chunk in chunks}
            return {
                "sentences": len(story),
                "tokens": sum(map(len, tokens.later)),
                "tokens read in one pass": sum(read.values()),
            }
        if self.work == "corpus":
            return {"stories": len(self.stories)}
        return {
            "stories": len(self.stories),
            "texts": len(self.rows),
            "tokens": sum(map(len, self.rows)),
        }

    def ways(self) -> Ways:
        """The ways to do this work."""
        stories, low = self.stories, self.low
        engine = contenders.engine
        ways: dict[str, Callable[[], Run]] = {
            "one pass, float32": lambda: engine(self.full, stories, approximate="one-pass"),
            f"one pass, {low}": lambda: engine(self.fast, stories, approximate="one-pass"),
        }
        if self.work == "corpus":
            return ways | self._corpus()
        if self.work.startswith("book"):
            ways["floor, float32"] = lambda: contenders.floor(self.full, self._text(), True)
        if self.work != "book":
            ways[f"exact, {low}"] = lambda: engine(self.fast, stories)
        if self.work == "chapter":
            three = ["deletion", "disruption", "summarization"]
            name = f"exact but for shifting, {low}"
            ways[name] = lambda: engine(self.fast, stories, operations=three)
        return ways | self._alternatives() if self.work in ("stories", "synopses") else ways

    def _corpus(self) -> dict[str, Callable[[], Run]]:
        stories, corpus, options = self.stories, contenders.corpus, {"approximate": "one-pass"}
        options["operations"] = "summarization"
        return {
            "forward passes": lambda: contenders.padded(self.fast, stories),
            "one pass, summarization": lambda: contenders.engine(self.fast, stories, **options),
            "corpus": lambda: corpus(self.fast, stories, 1),
            "corpus, two processes": lambda: corpus(self.fast, stories, 2),
        }

    def _text(self) -> list[np.ndarray]:
        """The token ids of the first story, as texts that fill the context."""
        sentences = self.stories[0].sentences
        chunks = self.full.tokenize(sentences).chunks(tuple(range(len(sentences))), None)
        return [chunk.ids for chunk in chunks]

    def _alternatives(self) -> dict[str, Callable[[], Run]]:
        stories, low = self.stories, self.low
        engine, floor = contenders.engine, contenders.floor

        def plain() -> StoryEncoder:
            # On a GPU the reference loop and the bare model use the same precision as the package.
            return self.full if self.device == "cpu" else self.fast

        def sentence_transformer() -> Run:
            tokenizer = plain().tokenizer.tokenizer
            texts = [tokenizer.decode(row, skip_special_tokens=True) for row in self.rows]
            return contenders.sentence_transformer(self.folder, self.device, texts)

        return {
            "reference loop": lambda: contenders.reference(plain(), stories),
            "exact, float32": lambda: engine(self.full, stories),
            "exact, float32, padded": lambda: engine(self.encoder("float32", "padded"), stories),
            f"exact, {low}, padded": lambda: engine(self.encoder(low, "padded"), stories),
            "floor, plain torch": lambda: floor(plain(), self.rows, products=False),
            "floor, float32": lambda: floor(self.full, self.rows, products=True),
            f"floor, {low}": lambda: floor(self.fast, self.rows, products=True),
            "sentence-transformers": sentence_transformer,
            "TextRank (sumy)": lambda: contenders.textrank(stories),
        }


def set_up(ways: Ways, only: Sequence[str] | None = None) -> dict[str, Run]:
    """Set up the ways named in `only` (default: all); report and skip those that are not
    installed."""
    runs = {}
    for name in (name for name in ways if only is None or name in only):
        try:
            runs[name] = ways[name]()
        except ImportError as error:
            print(f"skipped: {name} ({error})")
    return runs


CLOCKS = {"wall": time.perf_counter, "processor": lambda: sum(os.times()[:4])}
"""`processor` has the seconds of this process and of ended ones that it started."""


def measure(runs: Mapping[str, Run], rounds: int, clock: str = "wall") -> dict[str, list[float]]:
    """The seconds of each way in each round, by one of `CLOCKS`."""
    now = CLOCKS[clock]
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in tqdm(range(rounds), desc="rounds"):
        for name, run in runs.items():
            start = now()
            run()
            seconds[name].append(now() - start)
    return seconds


def table(seconds: dict[str, list[float]], facts: dict[str, float]) -> Iterator[dict[str, Any]]:
    """A row for each way, the slowest first; ratios are to the reference loop or, in a corpus, bare
    forward passes, or to the slowest if these were not run."""
    references = ("reference loop", "forward passes")
    slowest = max(seconds, key=lambda name: (name in references, median(seconds[name])))
    for name, times in sorted(seconds.items(), key=lambda item: -median(item[1])):
        ratios = (a / b for a, b in zip(seconds[slowest], times, strict=True))
        row = {"way": name, "seconds": round(median(times), 4)}
        row["times as fast"] = round(median(ratios), 2)
        if name.startswith(("exact, ", "floor")) and "tokens" in facts:
            row["tokens a second"] = round(facts["tokens"] / median(times))
        yield row


def machine(device: str) -> dict[str, Any]:
    """The device, and the versions of libraries."""
    cpu = getattr(torch.cpu, "get_capabilities", dict)()
    name = cpu.get("cpu_name", platform.processor())
    libraries = ("narrative_twins", "torch", "transformers", "sentence-transformers")
    return {
        "device": name if device == "cpu" else torch.cuda.get_device_name(),
        "threads": torch.get_num_threads(),
        "bfloat16": bool(cpu.get("avx512_bf16") or cpu.get("amx_bf16")),
    } | {library: version(library) for library in libraries}


def write_report(path: str | Path, report: dict[str, Any]) -> None:
    """Write results as JSON."""
    with atomic_write(path) as out:
        out.write(json.dumps(report, indent=1) + "\n")


def run_work(bench: Bench, only: Sequence[str] | None, rounds: int, clock: str) -> dict[str, Any]:
    """Measure and print one kind of work."""
    facts = bench.facts()
    what = WORK[bench.work]
    print(f"{what}:", ", ".join(f"{value:,.0f} {name}" for name, value in facts.items()))
    rows = list(table(measure(set_up(bench.ways(), only), rounds, clock), facts))
    for row in rows:
        cells = (f"{key} {value:,}" for key, value in row.items() if key != "way")
        print(f"  {row['way']:<32}   {'   '.join(cells)}")
    return {"what": what, **facts, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    add = parser.add_argument
    add("--model", default="minilm", help=f"minilm, {', '.join(SIZES)}, or a folder")
    add("--device", default="cpu")
    add("--work", nargs="+", choices=WORK, default=[work for work in WORK if work not in LONG])
    add("--rounds", type=int, default=5)
    add("--stories", type=int, help="five-sentence stories (default: 30, in a corpus 500)")
    add("--clock", choices=CLOCKS, default="wall", help="processor: on a machine with other load")
    add("--ways", nargs="+", metavar="WAY", help="run only these, by name (default: all)")
    add("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    report: dict[str, Any] = {"machine": machine(options.device), "model": options.model}
    for work in options.work:
        bench = Bench(model_folder(options.model), options.device, work, options.stories)
        report[work] = run_work(bench, options.ways, options.rounds, options.clock)
        if options.out is not None:
            write_report(options.out, report)


if __name__ == "__main__":
    main()
