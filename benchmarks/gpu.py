"""Check and time this package on a GPU, at most eight minutes on an H100, and write a table:

    python benchmarks/gpu.py [--out gpu.md] [--parts parity batches memory timing training ...]

Reference scores are those of the CPU in float32. A part that fails, or for which no time is left,
is a row that says so, and the exit code is 1.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import contenders
import numpy as np
import speed
import torch
import training

from narrative_twins import Story, StoryEncoder, score_stories, trainable_encoder
from narrative_twins.corpora import StoryScorer, score_corpus
from narrative_twins.data import load_story_twins, load_window_twins
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.writing import atomic_write

DTYPES = ("float32", "bfloat16", "float16", "auto")
PARTS = ("parity", "batches", "memory", "timing", "training", "processes", "corpus", "limit")
NUMBERS = {"stories": 100, "synopses": 5, "corpus": 100_000, "seconds": 480}


def scores(encoder, stories, **options):
    results = score_stories(stories, encoder, on_truncation="ignore", **options)
    return [np.array([list(values) for values in each.scores.values()]) for each in results]


def difference(first, second):
    return f"{max(np.abs(a - b).max() for a, b in zip(first, second, strict=True)):.1e} at most"


class Checks:
    """Each part is a method that yields rows: what is checked, and the result."""

    def __init__(self, options):
        self.options, self.device, self.cuda = options, options.device, options.device != "cpu"
        self.stories = speed.load_stories("stories", options.stories)

    def encoder(self, dtype, model=None, device=None, **more):
        folder, device = speed.model_folder(model or self.options.model), device or self.device
        return StoryEncoder.from_pretrained(folder, device=device, dtype=dtype, **more)

    def seconds(self, run):
        start = time.perf_counter()
        run()
        if self.cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    def parity(self):
        rows = load_window_twins(split=f"train[:{self.options.synopses}]")["story"]
        flat = [[sentence for window in row for sentence in window] for row in rows]
        texts = [*self.stories, *(Story.parse({"sentences": row}, 5) for row in flat)]
        expected = scores(self.encoder("float32", device="cpu"), texts)
        for dtype in DTYPES:
            for attention in ("packed", "padded"):
                encoder = self.encoder(dtype, attention=attention)
                name = f"{dtype}, {attention} ({encoder.passes._packing or 'SDPA'})"
                yield f"parity: {name}", difference(scores(encoder, texts), expected)

    def batches(self):
        for dtype in DTYPES:
            encoder, some = self.encoder(dtype), self.stories[:20]
            alone = [scores(encoder, [story])[0] for story in some]
            yield f"alone or with others: {dtype}", difference(scores(encoder, some), alone)

    def memory(self):
        for limit in (8_192, 65_536) if self.cuda else ():
            encoder, peaks = self.encoder("auto", batch_tokens=limit), []
            for count in (len(self.stories) // 4, len(self.stories)):
                torch.cuda.reset_peak_memory_stats()
                scores(encoder, self.stories[:count], batch_size=count)
                peaks.append(f"{torch.cuda.max_memory_allocated() / 2**20:,.0f} MiB")
            yield f"peak, batch_tokens={limit:,}", ", with 4 times the stories ".join(peaks)

    def timing(self):
        for model in (self.options.model, self.options.large):
            for dtype, form in ((d, f) for d in ("float32", "auto") for f in (None, "one-pass")):
                encoder, stories = self.encoder(dtype, model), self.stories
                size = sum(weight.numel() for weight in encoder.model.parameters()) / 1e6
                rows = contenders.unique_rows(encoder, stories, approximate=form)
                engine = contenders.engine(encoder, stories, approximate=form)
                floor = contenders.floor(encoder, rows, True)
                rounds = [[self.seconds(engine), self.seconds(floor)] for _ in range(6)][1:]
                whole, bare = map(median, zip(*rounds, strict=True))
                result = f"{whole:.3f} s; bare passes {bare:.3f} s, {bare / whole:.2f} of it"
                yield f"{form or 'exact'}, {dtype}, {model} ({size:.0f}M)", result

    def training(self):
        for size in (None, 8):
            model = trainable_encoder(speed.model_folder(self.options.model)).to(self.device).eval()
            loss = NarrativeTwinsLoss(model, mini_batch_size=size)
            step, _ = training.step(loss, list(load_story_twins(split="train[:32]")), True)
            value, seconds = step(), self.seconds(step)
            norm = sum(w.grad.norm() ** 2 for w in model.parameters() if w.grad is not None) ** 0.5
            name = f"step of 32 stories, bf16, {'gradient caching' if size else 'no caching'}"
            yield name, f"{seconds:.2f} s, loss {value:.4f}, gradient {norm:.4f}"

    def processes(self):
        script = Path(__file__).parents[1] / "examples" / "train_roc.py"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node=2", script, "--smoke", "--ddp_backend=gloo"]
        command += ["--gather_across_devices=true", "--bf16=true" if self.cuda else "--use_cpu"]
        with TemporaryDirectory() as out:
            command += ["--encoder", speed.model_folder(self.options.model), "--output_dir", out]
            seconds = self.seconds(lambda: subprocess.run(command, check=True))
        yield "training by two processes on one card (gloo)", f"{seconds:.0f} s"

    def corpus(self):
        count = self.options.corpus
        texts = (self.stories[n % len(self.stories)].sentences for n in range(count))
        rows = ({"sentences": [f"It was day {n}.", *text]} for n, text in enumerate(texts))
        scorer = StoryScorer(self.encoder("auto"))
        with TemporaryDirectory() as out:
            seconds = self.seconds(lambda: score_corpus([("stories", rows)], out, scorer))
        yield f"corpus of {count:,} stories, one pass", f"{seconds:.1f} s"

    def limit(self):
        if self.cuda:
            encoder = self.encoder("float32", batch_tokens=10**9)
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(0.01)
            try:
                scores(encoder, self.stories, batch_size=len(self.stories))
                yield "out of memory", "1% of the memory was enough"
            except MemoryError as error:
                yield "out of memory", str(error).partition(" (")[0]
            finally:
                torch.cuda.set_per_process_memory_fraction(1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    texts = {"device": "cuda", "model": "minilm", "large": "modernbert-150m", "out": "gpu.md"}
    for name, default in (texts | NUMBERS).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    options = parser.parse_args()
    start, checks = time.perf_counter(), Checks(options)
    facts = speed.machine(options.device)
    if checks.cuda:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        facts["driver"] = subprocess.check_output(query, encoding="utf-8").strip()
    lines = [", ".join(f"{name} {value}" for name, value in facts.items()) + ":", ""]
    lines += ["| check | result |", "|---|---|"]
    for part in options.parts:
        try:
            if time.perf_counter() - start > options.seconds:
                raise TimeoutError("no time was left")
            lines += [f"| {name} | {result} |" for name, result in getattr(checks, part)()]
        except Exception as error:  # the other parts are still of use
            lines.append(f"| {part} | failed: {type(error).__name__}: {error} |".replace("\n", " "))
        with atomic_write(options.out) as out:
            out.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    if any("| failed: " in line for line in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
