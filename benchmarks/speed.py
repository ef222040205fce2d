r"""Time the scoring of stories (`make speed`), compared with a reference loop, bare forward passes
and alternatives:

    python benchmarks/speed.py [--model minilm|bert-large|modernbert-1b|FOLDER] [--device cpu] \
        [--work stories synopses] [--rounds 5] [--out benchmarks/results/speed-minilm-cpu.json]

The texts are from the package's own corpora. Each round runs all ways in turn; times are medians
over rounds, ratios are medians of the ratios within a round, so that other load on the machine
affects all ways alike. `bert-large` and `modernbert-1b` have random weights, which does not affect
the time. Alternatives that are not installed are skipped.
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
from narrative_twins.salience.plans import one_pass_plans

WORK = {
    "stories": "stories of five sentences",
    "synopses": "a synopsis of 34 sentences in five windows",
    "chapter": "150 sentences of a book",
    "book": "3,000 sentences of a book, in one pass only",
    "book-exact": "3,000 sentences of a book, exactly too",
}
LONG = ("book-exact",)
"""Work that only runs if named by `--work`: ten minutes per round on two cores."""
SIZES = {
    "bert-large": (transformers.BertModel, transformers.BertConfig, (1024, 24, 16, 4096)),
    "modernbert-1b": (
        transformers.ModernBertModel,
        transformers.ModernBertConfig,
        (1792, 28, 28, 3840),
    ),
}
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12}
"""Dense bfloat16 FLOP/s as specified by the manufacturer."""


def load_stories(work: str, count: int) -> list[Story]:
    """The texts of a kind of work; of five-sentence stories at most `count`."""
    if work == "stories":
        return [
            Story.parse({"sentences": row}, 1)
            for row in load_story_twins(split="train")["story"][:count]
        ]
    rows = load_window_twins(split="train")["story"]
    sentences = [sentence for windows in rows for window in windows for sentence in window]
    if work == "synopses":
        return [Story.parse({"sentences": sentences[:34]}, 5)]
    return [Story.parse({"sentences": sentences[: 150 if work == "chapter" else 3_000]})]


@cache
def model_folder(model: str) -> str:
    """The folder of a model; one of `SIZES` is created with random weights."""
    if model not in SIZES:
        return default_encoder() if model == "minilm" else model
    kind, config, (width, layers, heads, inner) = SIZES[model]
    tokenizer = transformers.AutoTokenizer.from_pretrained(default_encoder())
    torch.manual_seed(0)
    created = kind(
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
    _FOLDERS.append(folder)
    created.save_pretrained(folder.name)
    tokenizer.save_pretrained(folder.name)
    return folder.name


_FOLDERS: list[TemporaryDirectory[str]] = []


class Bench:
    """The timed ways for a kind of work, with models that are loaded on first use."""

    def __init__(self, folder: str, device: str, work: str, count: int = 30) -> None:
        self.folder, self.device, self.work, self.count = folder, device, work, count
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
        tokens = sum(map(len, self.rows))
        return {
            "stories": len(self.stories),
            "texts": len(self.rows),
            "tokens": tokens,
            "flop": flop(self.fast, self.rows),
        }

    @cached_property
    def text(self) -> list[np.ndarray]:
        """The token ids of the first story, as texts that fill the context."""
        sentences = self.stories[0].sentences
        chunks = self.full.tokenize(sentences).chunks(tuple(range(len(sentences))), None)
        return [chunk.ids for chunk in chunks]

    def ways(self) -> dict[str, Callable[[], contenders.Run]]:
        """Functions that set up each way, by name; an ImportError if a library is not installed."""
        stories, low = self.stories, self.low
        ways: dict[str, Callable[[], contenders.Run]] = {
            "one pass, float32": lambda: contenders.engine(
                self.full, stories, approximate="one-pass"
            ),
            f"one pass, {low}": lambda: contenders.engine(
                self.fast, stories, approximate="one-pass"
            ),
        }
        if self.work.startswith("book"):
            ways["floor, float32"] = lambda: contenders.floor(self.full, self.text, products=True)
        if self.work != "book":
            ways[f"exact, {low}"] = lambda: contenders.engine(self.fast, stories)
        if self.work == "chapter":
            three = ["deletion", "disruption", "summarization"]
            ways[f"exact but for shifting, {low}"] = lambda: contenders.engine(
                self.fast, stories, operations=three
            )
        return ways | self._alternatives() if self.work in ("stories", "synopses") else ways

    def outside_the_model(self, rounds: int) -> dict[str, float]:
        """The share of the scoring time that is not spent in the model, median over rounds."""
        shares = {}
        for dtype, encoder in {"float32": self.full, self.low: self.fast}.items():
            run = contenders.engine(encoder, self.stories)
            values = [contenders.outside_the_model(encoder, run) for _ in range(rounds)]
            shares[f"exact, {dtype}"] = round(median(values), 4)
        return shares

    def _alternatives(self) -> dict[str, Callable[[], contenders.Run]]:
        stories, low = self.stories, self.low
        # On a GPU the reference loop and the bare model use the same precision as the package.
        plain = "full" if self.device == "cpu" else "fast"

        def model() -> tuple[Any, Any]:
            encoder = getattr(self, plain)
            return encoder.model, encoder.tokenizer.tokenizer

        def texts() -> list[str]:
            return list(contenders.texts_of(self.rows, model()[1]))

        return {
            "reference loop": lambda: contenders.reference(*model(), stories, getattr(self, plain)),
            "exact, float32": lambda: contenders.engine(self.full, stories),
            "exact, float32, padded": lambda: contenders.engine(
                self.encoder("float32", "padded"), stories
            ),
            f"exact, {low}, padded": lambda: contenders.engine(
                self.encoder(low, "padded"), stories
            ),
            "floor, plain torch": lambda: contenders.floor(
                getattr(self, plain), self.rows, products=False
            ),
            "floor, float32": lambda: contenders.floor(self.full, self.rows, products=True),
            f"floor, {low}": lambda: contenders.floor(self.fast, self.rows, products=True),
            "sentence-transformers": lambda: contenders.sentence_transformer(
                self.folder, self.device, texts()
            ),
            "TextRank (sumy)": lambda: contenders.textrank(stories),
        }


def flop(encoder: StoryEncoder, rows: Sequence[np.ndarray]) -> float:
    """Floating-point operations of a forward pass over texts: two per token and weight of a linear
    layer, and those of attention, as if all of it were global."""
    linear = [layer for layer in encoder.model.modules() if isinstance(layer, torch.nn.Linear)]
    lengths = np.array([len(row) for row in rows], np.float64)
    weights = sum(layer.weight.numel() for layer in linear if "pooler" not in str(layer))
    config = encoder.model.config
    return float(
        2 * weights * lengths.sum()
        + 4 * config.num_hidden_layers * config.hidden_size * (lengths**2).sum()
    )


def peak_memory(bench: Bench, name: str) -> float:
    """The peak memory, in MB, of a new process that runs only this way."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(
            _measure_memory, (bench.folder, bench.device, bench.work, bench.count, name)
        )


def _measure_memory(folder: str, device: str, work: str, count: int, name: str) -> float:
    Bench(folder, device, work, count).ways()[name]()()
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 1e6
    return peak_of_process()


def peak_of_process() -> float:
    """The peak memory of this process, in MB."""
    # On Linux the value of `getrusage` includes the memory of the parent process.
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return (
        next(
            int(line.split()[1])
            for line in status.read_text().splitlines()
            if line.startswith("VmHWM")
        )
        / 1e3
    )


def set_up(
    ways: dict[str, Callable[[], contenders.Run]], only: Sequence[str] | None
) -> dict[str, contenders.Run]:
    """Set up the ways named in `only` (default: all); report and skip those that are not
    installed."""
    runs = {}
    for name, make in ways.items():
        if only is not None and name not in only:
            continue
        try:
            runs[name] = make()
        except ImportError as error:
            print(f"skipped: {name} ({error})")
    return runs


def measure(runs: dict[str, contenders.Run], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in tqdm(range(rounds), desc="rounds"):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def table(
    seconds: dict[str, list[float]], facts: dict[str, float], device: str
) -> Iterator[dict[str, Any]]:
    """A row for each way, the slowest first; ratios are to the reference loop, or to the slowest if
    it was not run."""
    slowest = max(seconds, key=lambda name: (name == "reference loop", median(seconds[name])))
    for name, times in sorted(seconds.items(), key=lambda item: -median(item[1])):
        row: dict[str, Any] = {"way": name, "seconds": round(median(times), 4)}
        row["times as fast"] = round(
            median(a / b for a, b in zip(seconds[slowest], times, strict=True)), 2
        )
        if name.startswith(("exact", "reference", "one pass")) and "stories" in facts:
            row["stories a second"] = round(facts["stories"] / median(times), 2)
        if name.startswith(("exact, ", "floor")) and "flop" in facts:
            row["tokens a second"] = round(facts["tokens"] / median(times))
            row["TFLOP/s"] = round(facts["flop"] / median(times) / 1e12, 2)
            peak = [
                value
                for gpu, value in PEAKS.items()
                if device != "cpu" and gpu in torch.cuda.get_device_name()
            ]
            if peak:
                row["utilisation"] = round(facts["flop"] / median(times) / peak[0], 3)
        yield row


def processor() -> dict[str, str]:
    """Family, model and name of the processor, as far as the system tells them."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return {"processor": platform.processor()}
    values = dict(
        line.split(":", 1) for line in info.read_text().split("\n\n")[0].splitlines() if ":" in line
    )
    known = {key.strip(): value.strip() for key, value in values.items()}
    return {
        name: known[name]
        for name in ("vendor_id", "cpu family", "model", "model name", "stepping")
        if name in known
    }


def machine(device: str) -> dict[str, Any]:
    cpu = getattr(torch.cpu, "get_capabilities", dict)()
    name = (
        torch.cuda.get_device_name()
        if device != "cpu"
        else cpu.get("cpu_name", platform.processor())
    )
    libraries = ("narrative_twins", "torch", "transformers", "sentence-transformers")
    return {
        "device": name,
        **processor(),
        "threads": torch.get_num_threads(),
        "bfloat16": bool(cpu.get("avx512_bf16") or cpu.get("amx_bf16")),
    } | {library: version(library) for library in libraries}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model",
        default="minilm",
        help=f"minilm, {', '.join(SIZES)}, or a folder (default: minilm)",
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--work", nargs="+", choices=WORK, default=[work for work in WORK if work not in LONG]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--stories", type=int, default=30, help="number of five-sentence stories (default: 30)"
    )
    parser.add_argument(
        "--ways", nargs="+", metavar="WAY", help="run only these, by name (default: all)"
    )
    parser.add_argument(
        "--memory", action="store_true", help="also measure peak memory, each in a new process"
    )
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    arguments = parser.parse_args()
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    report: dict[str, Any] = {"machine": machine(arguments.device), "model": arguments.model}
    for work in arguments.work:
        bench = Bench(model_folder(arguments.model), arguments.device, work, arguments.stories)
        facts = bench.facts()
        print(
            f"{WORK[work]}: " + ", ".join(f"{value:,.0f} {name}" for name, value in facts.items()),
            flush=True,
        )
        rows = list(
            table(
                measure(set_up(bench.ways(), arguments.ways), arguments.rounds),
                facts,
                arguments.device,
            )
        )
        for row in rows:
            if arguments.memory and row["way"].startswith(("reference", "exact", "one pass")):
                row["peak MB"] = round(peak_memory(bench, row["way"]))
            print(
                "  "
                + "   ".join(
                    f"{value!s:<32}" if key == "way" else f"{key} {value:,}"
                    for key, value in row.items()
                )
            )
        report[work] = {"what": WORK[work], **facts, "rows": rows}
        if work in ("stories", "synopses"):
            shares = bench.outside_the_model(arguments.rounds)
            report[work]["outside the model"] = shares
            print(
                "  outside the model: "
                + ", ".join(f"{way} {share:.1%}" for way, share in shares.items())
            )
        if arguments.out is not None:
            with AtomicFile(str(arguments.out)) as out:
                out.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
