"""Check and time this package on a GPU, at most eight minutes on an H100, and write a table:

    python benchmarks/gpu.py [--out gpu.md] [--device cuda] [--parts parity batches memory timing
        training processes corpus limit]

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

from narrative_twins import Story, StoryEncoder, score_stories, trainable_encoder
from narrative_twins.corpora import StoryScorer, score_corpus
from narrative_twins.data import load_story_twins, load_window_twins
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.writing import atomic_write

DTYPES = ("float32", "bfloat16", "float16", "auto")
TRAINING = Path(__file__).parents[1] / "examples" / "train_roc.py"


def load(options, device, dtype, model=None, **more):
    folder = speed.model_folder(model or options.model)
    return StoryEncoder.from_pretrained(folder, device=device, dtype=dtype, **more)


def scores(encoder, stories, **options):
    results = score_stories(stories, encoder, on_truncation="ignore", **options)
    return [np.array([list(values) for values in each.scores.values()]) for each in results]


def difference(first, second):
    return max(np.abs(a - b).max() for a, b in zip(first, second, strict=True))


def seconds_of(run, cuda):
    start = time.perf_counter()
    run()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def parity(options, stories, cuda):
    rows = load_window_twins(split=f"train[:{options.synopses}]")["story"]
    flat = [[sentence for window in row for sentence in window] for row in rows]
    texts = [*stories, *(Story.parse({"sentences": sentences}, 5) for sentences in flat)]
    expected = scores(load(options, "cpu", "float32"), texts)
    for dtype in DTYPES:
        for attention in ("packed", "padded"):
            encoder = load(options, options.device, dtype, attention=attention)
            got = scores(encoder, texts)
            same = np.mean([(a.argmax(1) == b.argmax(1)).mean() for a, b in zip(got, expected)])  # noqa: B905
            name = f"parity: {dtype}, {attention} ({encoder.passes._packing or 'SDPA'})"
            yield (
                name,
                f"{difference(got, expected):.1e} at most, {same:.1%} the same sentences first",
            )


def batches(options, stories, cuda):
    for dtype in DTYPES:
        encoder, some = load(options, options.device, dtype), stories[:20]
        alone = [scores(encoder, [story])[0] for story in some]
        yield (
            f"alone or with others: {dtype}",
            f"{difference(scores(encoder, some), alone):.1e} at most",
        )


def memory(options, stories, cuda):
    for limit in (8_192, 65_536) if cuda else ():
        encoder, peaks = load(options, options.device, "auto", batch_tokens=limit), []
        for count in (len(stories) // 4, len(stories)):
            torch.cuda.reset_peak_memory_stats()
            scores(encoder, stories[:count], batch_size=count)
            peaks.append(f"{torch.cuda.max_memory_allocated() / 2**20:,.0f} MiB")
        yield f"peak memory, batch_tokens={limit:,}", ", with 4 times the stories ".join(peaks)


def timing(options, stories, cuda):
    for model in (options.model, options.large):
        for dtype in ("float32", "auto"):
            encoder = load(options, options.device, dtype, model)
            size = sum(weight.numel() for weight in encoder.model.parameters()) / 1e6
            for name, form in (("exact", {}), ("one pass", {"approximate": "one-pass"})):
                rows = contenders.unique_rows(encoder, stories, **form)
                ways = (
                    contenders.engine(encoder, stories, **form),
                    contenders.floor(encoder, rows, True),
                )
                rounds = [[seconds_of(run, cuda) for run in ways] for _ in range(6)][1:]
                engine, floor = map(median, zip(*rounds, strict=True))
                result = f"{engine:.3f} s; bare passes {floor:.3f} s, {floor / engine:.2f} of it"
                yield f"{name}, {dtype}, {model} ({size:.0f}M), {len(stories)} stories", result


def training(options, stories, cuda):
    for size in (None, 8):
        folder = speed.model_folder(options.model)
        model = trainable_encoder(folder).to(options.device).eval()
        loss = NarrativeTwinsLoss(model, mini_batch_size=size)
        collate = loss.collator(StoryEncoder.from_sentence_transformer(model).tokenizer)
        batch = collate(list(load_story_twins(split="train[:32]"))).items()
        texts = {name.removeprefix("texts_"): values.to(options.device) for name, values in batch}
        for _ in range(2):
            model.zero_grad()
            start = time.perf_counter()
            with torch.autocast("cuda" if cuda else "cpu", torch.bfloat16):
                value = loss([texts])
            value.backward()
            seconds = time.perf_counter() - start + seconds_of(lambda: None, cuda)
        norm = sum(w.grad.norm() ** 2 for w in model.parameters() if w.grad is not None) ** 0.5
        name = f"step of 32 stories, bf16, {'gradient caching' if size else 'no caching'}"
        yield name, f"{seconds:.2f} s, loss {value:.4f}, gradient {norm:.4f}"


def processes(options, stories, cuda):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [TRAINING, "--smoke", "--ddp_backend=gloo", "--gather_across_devices=true"]
    command += ["--bf16=true"] if cuda else ["--use_cpu"]
    with TemporaryDirectory() as out:
        command += ["--encoder", speed.model_folder(options.model), "--output_dir", out]
        start = time.perf_counter()
        subprocess.run(command, check=True)
    yield "training by two processes on one card (gloo)", f"{time.perf_counter() - start:.0f} s"


def corpus(options, stories, cuda):
    texts = (stories[n % len(stories)].sentences for n in range(options.corpus))
    rows = ({"sentences": [f"It was day {n}.", *text]} for n, text in enumerate(texts))
    scorer = StoryScorer(load(options, options.device, "auto"))
    with TemporaryDirectory() as out:
        seconds = seconds_of(lambda: score_corpus([("stories", rows)], out, scorer), cuda)
    yield f"corpus of {options.corpus:,} stories, one pass", f"{seconds:.1f} s"


def limit(options, stories, cuda):
    encoder = load(options, options.device, "float32", batch_tokens=10**9)
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(0.01)
        try:
            scores(encoder, stories, batch_size=len(stories))
            yield "out of memory", "1% of the memory was enough"
        except MemoryError as error:
            yield "out of memory", str(error).partition(" (")[0]
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)


PARTS = {
    part.__name__: part
    for part in (parity, batches, memory, timing, training, processes, corpus, limit)
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--large", default="modernbert-150m")
    for name, default in {"stories": 100, "synopses": 5, "corpus": 100_000, "seconds": 480}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--out", type=Path, default=Path("gpu.md"))
    options = parser.parse_args()
    start, cuda = time.perf_counter(), options.device != "cpu"
    facts = speed.machine(options.device)
    if cuda:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        facts["driver"] = subprocess.check_output(query, encoding="utf-8").strip()
    lines = [", ".join(f"{name} {value}" for name, value in facts.items()) + ":", ""]
    lines += ["| check | result |", "|---|---|"]
    stories, has_failed = speed.load_stories("stories", options.stories), False
    for part in options.parts:
        try:
            if time.perf_counter() - start > options.seconds:
                raise TimeoutError("no time was left")
            lines += [
                f"| {name} | {result} |" for name, result in PARTS[part](options, stories, cuda)
            ]
        except Exception as error:  # the other parts are still of use
            lines.append(f"| {part} | failed: {type(error).__name__}: {error} |".replace("\n", " "))
            has_failed = True
        with atomic_write(options.out) as out:
            out.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
