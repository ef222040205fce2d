"""How fast stories are scored, by `make speed`; beside the obvious loop, the least a model can take, and rivals:

    python benchmarks/speed.py [--model minilm|bert-large|modernbert-1b|FOLDER] [--device cpu] [--work stories synopses]
        [--rounds 5] [--out benchmarks/results/speed-minilm-cpu.json]

The texts are those of the package's own corpora. Each round runs all ways one after the other; times are medians over
the rounds, and ratios are medians of the ratios of a round, so that what the machine does besides counts for all alike.
The models of a size have random weights, which take as long as any. Rivals that are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import contenders
import numpy as np
import torch
import transformers
from tqdm.auto import tqdm

from narrative_twins import Story, StoryEncoder, default_encoder
from narrative_twins.data import load_story_twins, load_window_twins
from narrative_twins.files import AtomicFile

WORK = {
    "stories": "stories of five sentences",
    "synopses": "a synopsis of 34 sentences in five windows",
    "chapter": "150 sentences of a book",
    "book": "3,000 sentences of a book, in one pass only",
    "book-exact": "3,000 sentences of a book, exactly too",
}
LONG = ("book-exact",)
"""What is only done when it is named: ten minutes a round on two cores."""
SIZES = {
    "bert-large": (transformers.BertModel, transformers.BertConfig, (1024, 24, 16, 4096)),
    "modernbert-1b": (transformers.ModernBertModel, transformers.ModernBertConfig, (1792, 28, 28, 3840)),
}
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12}
"""Dense bfloat16 products a second, as their maker says."""


def stories_of(work: str, count: int) -> list[Story]:
    """The stories of a kind of work, at most so many."""
    if work == "stories":
        return [Story.parse({"sentences": row}, 1) for row in load_story_twins(split="train")["story"][:count]]
    rows = load_window_twins(split="train")["story"]
    sentences = [sentence for windows in rows for window in windows for sentence in window]
    if work == "synopses":
        return [Story.parse({"sentences": sentences[:34]}, 5)]
    return [Story.parse({"sentences": sentences[: 150 if work == "chapter" else 3_000]})]


@cache
def folder_of(model: str) -> str:
    """The folder of a model; one of random weights is made anew."""
    if model not in SIZES:
        return default_encoder() if model == "minilm" else model
    kind, config, (width, layers, heads, inner) = SIZES[model]
    tokenizer = transformers.AutoTokenizer.from_pretrained(default_encoder())
    torch.manual_seed(0)
    made = kind(
        config(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=inner,
            max_position_embeddings=512,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    folder = TemporaryDirectory(prefix=model)
    _KEPT.append(folder)
    made.save_pretrained(folder.name)
    tokenizer.save_pretrained(folder.name)
    return folder.name


_KEPT: list[TemporaryDirectory[str]] = []


class Bench:
    """What is timed on a kind of work; made only when it is asked for."""

    def __init__(self, folder: str, device: str, work: str, count: int = 30) -> None:
        self.folder, self.device, self.work, self.count = folder, device, work, count
        self.stories = stories_of(work, count)
        # The precision that a GPU is used in is named, as it would be there; a CPU has the choice.
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
        """The texts of exact scores."""
        return contenders.unique_rows(self.fast, self.stories)

    def facts(self) -> dict[str, float]:
        if self.work.startswith("book"):
            return {"sentences": len(self.stories[0])}
        tokens = sum(map(len, self.rows))
        return {
            "stories": len(self.stories),
            "texts": len(self.rows),
            "tokens": tokens,
            "flop": flop(self.fast, self.rows),
        }

    def ways(self) -> dict[str, Callable[[], contenders.Run]]:
        """By name, what makes each; it raises an ImportError where what it takes is not installed."""
        stories, low = self.stories, self.low
        ways: dict[str, Callable[[], contenders.Run]] = {
            "one pass, float32": lambda: contenders.engine(self.full, stories, approximate="one-pass"),
            f"one pass, {low}": lambda: contenders.engine(self.fast, stories, approximate="one-pass"),
        }
        if self.work != "book":
            ways[f"exact, {low}"] = lambda: contenders.engine(self.fast, stories)
        if self.work == "chapter":
            three = ["deletion", "disruption", "summarization"]
            ways[f"exact but for shifting, {low}"] = lambda: contenders.engine(self.fast, stories, operations=three)
        return ways | self._beside() if self.work in ("stories", "synopses") else ways

    def outside_the_model(self, rounds: int) -> dict[str, float]:
        """The share of the engine's time that is not spent in the model, median over rounds."""
        shares = {}
        for dtype, encoder in {"float32": self.full, self.low: self.fast}.items():
            run = contenders.engine(encoder, self.stories)
            found = [contenders.outside_the_model(encoder, run) for _ in range(rounds)]
            shares[f"exact, {dtype}"] = round(median(found), 4)
        return shares

    def _beside(self) -> dict[str, Callable[[], contenders.Run]]:
        stories, low = self.stories, self.low
        # On a GPU the obvious loop and a bare model are given its precision, too.
        plain = "full" if self.device == "cpu" else "fast"

        def model() -> tuple[Any, Any]:
            encoder = getattr(self, plain)
            return encoder.model, encoder.tokens.tokenizer

        def texts() -> list[str]:
            return list(contenders.texts_of(self.rows, model()[1]))

        return {
            "naive loop": lambda: contenders.naive(*model(), stories, getattr(self, plain)),
            "exact, float32": lambda: contenders.engine(self.full, stories),
            "exact, float32, padded": lambda: contenders.engine(self.encoder("float32", "padded"), stories),
            f"exact, {low}, padded": lambda: contenders.engine(self.encoder(low, "padded"), stories),
            "floor, plain torch": lambda: contenders.floor(getattr(self, plain), self.rows, products=False),
            "floor, float32": lambda: contenders.floor(self.full, self.rows, products=True),
            f"floor, {low}": lambda: contenders.floor(self.fast, self.rows, products=True),
            "sentence-transformers": lambda: contenders.sentence_transformer(self.folder, self.device, texts()),
            "TextRank (sumy)": lambda: contenders.textrank(stories),
        }


def flop(encoder: StoryEncoder, rows: Sequence[np.ndarray]) -> float:
    """Products and sums of a forward pass over texts: two for each weight of a linear layer and token, and those of
    attention, as if all of it were global."""
    linear = [one for one in encoder.model.modules() if isinstance(one, torch.nn.Linear)]
    lengths = np.array([len(row) for row in rows], np.float64)
    weights = sum(one.weight.numel() for one in linear if "pooler" not in str(one))
    config = encoder.model.config
    return float(2 * weights * lengths.sum() + 4 * config.num_hidden_layers * config.hidden_size * (lengths**2).sum())


def peak_memory(bench: Bench, name: str) -> float:
    """The largest memory, in MB, of a process that does nothing else."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_memory, (bench.folder, bench.device, bench.work, bench.count, name))


def _measure_memory(folder: str, device: str, work: str, count: int, name: str) -> float:
    Bench(folder, device, work, count).ways()[name]()()
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 1e6
    # On Linux that of `getrusage` begins with what the parent had.
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1e3


def made(ways: dict[str, Callable[[], contenders.Run]], only: Sequence[str] | None) -> dict[str, contenders.Run]:
    """The ways there are; what is not installed is left out, with a word."""
    runs = {}
    for name, make in ways.items():
        if only is not None and name not in only:
            continue
        try:
            runs[name] = make()
        except ImportError as error:
            print(f"left out: {name} ({error})")
    return runs


def measure(runs: dict[str, contenders.Run], rounds: int) -> dict[str, list[float]]:
    """Seconds of each, round by round."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in tqdm(range(rounds), desc="rounds"):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def table(seconds: dict[str, list[float]], facts: dict[str, float], device: str) -> Iterator[dict[str, Any]]:
    """One row a way, the slowest first."""
    first = max(seconds, key=lambda name: median(seconds[name]))
    for name, times in sorted(seconds.items(), key=lambda item: -median(item[1])):
        row: dict[str, Any] = {"way": name, "seconds": round(median(times), 4)}
        row["times as fast"] = round(median(a / b for a, b in zip(seconds[first], times, strict=True)), 2)
        if name.startswith(("exact", "naive", "one pass")) and "stories" in facts:
            row["stories a second"] = round(facts["stories"] / median(times), 2)
        if name.startswith(("exact, ", "floor")) and "tokens" in facts:
            row["tokens a second"] = round(facts["tokens"] / median(times))
            row["TFLOP/s"] = round(facts["flop"] / median(times) / 1e12, 2)
            peak = [value for gpu, value in PEAKS.items() if device != "cpu" and gpu in torch.cuda.get_device_name()]
            if peak:
                row["utilisation"] = round(facts["flop"] / median(times) / peak[0], 3)
        yield row


def machine(device: str) -> dict[str, Any]:
    known = getattr(torch.cpu, "get_capabilities", dict)()
    name = torch.cuda.get_device_name() if device != "cpu" else known.get("cpu_name", platform.processor())
    libraries = ("narrative_twins", "torch", "transformers", "sentence-transformers")
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "bfloat16": bool(known.get("avx512_bf16") or known.get("amx_bf16")),
    } | {library: version(library) for library in libraries}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="minilm", help=f"minilm, {', '.join(SIZES)}, or a folder (default: minilm)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--work", nargs="+", choices=WORK, default=[one for one in WORK if one not in LONG])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stories", type=int, default=30, help="five-sentence stories at most (default: 30)")
    parser.add_argument("--ways", nargs="+", metavar="WAY", help="only these, by their names (default: all)")
    parser.add_argument(
        "--memory", action="store_true", help="also the peak memory of ways to score, in fresh processes"
    )
    parser.add_argument("--out", type=Path, help="results as JSON")
    arguments = parser.parse_args()
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    report: dict[str, Any] = {"machine": machine(arguments.device), "model": arguments.model}
    for work in arguments.work:
        bench = Bench(folder_of(arguments.model), arguments.device, work, arguments.stories)
        facts = bench.facts()
        print(f"{WORK[work]}: " + ", ".join(f"{value:,.0f} {name}" for name, value in facts.items()), flush=True)
        rows = list(table(measure(made(bench.ways(), arguments.ways), arguments.rounds), facts, arguments.device))
        for row in rows:
            if arguments.memory and row["way"].startswith(("naive", "exact", "one pass")):
                row["peak MB"] = round(peak_memory(bench, row["way"]))
            print(
                "  "
                + "   ".join(f"{value!s:<32}" if key == "way" else f"{key} {value:,}" for key, value in row.items())
            )
        report[work] = {"what": WORK[work], **facts, "rows": rows}
        if work in ("stories", "synopses"):
            shares = bench.outside_the_model(arguments.rounds)
            report[work]["outside the model"] = shares
            print("  outside the model: " + ", ".join(f"{way} {share:.1%}" for way, share in shares.items()))
        if arguments.out is not None:
            with AtomicFile(str(arguments.out)) as out:
                out.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
