"""Compare the libraries and precisions that can run the default encoder (`make backends`):

    python benchmarks/backends.py [FOLDER] [--rounds 3] [--out benchmarks/results/backends.json]

Scored are stories, a synopsis and a chapter of the package (the chapter without shifting), in turn
by each backend in every round: times are medians over rounds, ratios are medians of the ratios
within a round to torch with `dtype="auto"`. Printed besides: the largest difference of its scores
from those of torch in float32, their mean Spearman correlation within stories, how long the encoder
takes to load, its peak memory (of a new process that loads it and scores the stories), and, if
FOLDER has `roc_val.json`, the agreement of summarization with human labels.

Models in int8 are those of `narrative-twins export` for OpenVINO; of onnxruntime and ctranslate2
they are made here only (statically quantized, calibrated on stories of the package, and by
ctranslate2 itself). Libraries that are not installed are skipped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import speed
import transformers
from numpy.typing import NDArray

from narrative_twins import StoryEncoder, export_encoder, score_stories
from narrative_twins.data import load_story_salience, load_story_twins
from narrative_twins.encoder.batches import padded
from narrative_twins.encoder.portable import PortableModel
from narrative_twins.evaluation.agreement import agreement_with_votes
from narrative_twins.evaluation.metrics import mean, spearman
from narrative_twins.files import AtomicFile

WORK: dict[str, dict[str, Any]] = {
    "stories": {},
    "synopses": {},
    "chapter": {"operations": ["deletion", "disruption", "summarization"]},
}
CALIBRATION = 200
"""Stories by which the ranges of states are measured."""

Load = Callable[[], StoryEncoder]


def calibration(
    encoder: StoryEncoder, texts: Sequence[str], batch: int = 8
) -> Iterator[dict[str, NDArray[np.int64]]]:
    """The model's inputs for some texts, in batches of similar lengths."""
    rows = sorted(encoder.tokens.ids(list(texts), special=True), key=len)
    for start in range(0, len(rows), batch):
        ids, is_token = padded(rows[start : start + batch], encoder.passes.pad_id)
        yield {"input_ids": ids, "attention_mask": is_token.astype(np.int64)}


def quantize_onnx(source: Path, target: Path, inputs: list[dict[str, Any]]) -> None:
    """Write a model in int8, by onnxruntime."""
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.remaining = iter(inputs)

        def get_next(self) -> dict[str, Any] | None:
            return next(self.remaining, None)

    prepared = target.with_name("prepared.onnx")
    quantization.quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantization.quantize_static(
        str(prepared),
        str(target),
        Reader(),
        op_types_to_quantize=["MatMul", "Gemm"],
        per_channel=True,
    )
    prepared.unlink()


def make_models(folder: Path) -> dict[str, Path]:
    """Export the default encoder; the folder of each variant by name."""
    encoder = StoryEncoder.from_pretrained(device="cpu", dtype="float32")
    texts = [" ".join(story) for story in load_story_twins(split="train")["story"][:CALIBRATION]]
    inputs = list(calibration(encoder, texts))
    found = {}
    for backend, dtype in (
        ("onnx", "float32"),
        ("onnx", "int8"),
        ("openvino", "float32"),
        ("openvino", "int8"),
    ):
        target = folder / f"{backend}-{dtype}"
        try:
            if (backend, dtype) == ("onnx", "int8"):
                model = export_encoder(encoder, target, "onnx")
                quantize_onnx(model.rename(target / "exact.onnx"), model, inputs)
            else:
                export_encoder(encoder, target, backend, dtype=dtype, texts=texts)
            found[f"{backend}, {dtype}"] = target
        except ImportError as error:
            print(f"skipped: {backend} in {dtype} ({error})")
    try:
        from ctranslate2.converters import TransformersConverter

        source = folder / "plain"
        encoder.save_pretrained(source)
        TransformersConverter(str(source)).convert(str(folder / "ctranslate2"))
        found["ctranslate2"] = folder
    except ImportError as error:
        print(f"skipped: ctranslate2 ({error})")
    return found


def by_ctranslate2(folder: Path, compute_type: str) -> StoryEncoder:
    """An encoder that ctranslate2 runs."""
    import ctranslate2

    encoder = ctranslate2.Encoder(str(folder / "ctranslate2"), compute_type=compute_type)
    model = PortableModel(folder / "onnx-float32", "onnx")

    def run(ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        rows = [row[:length].tolist() for row, length in zip(ids, mask.sum(1), strict=True)]
        return np.asarray(encoder.forward_batch(rows).last_hidden_state, np.float32)

    model.run = run
    return StoryEncoder(model, model.tokenizer())


def backends(models: dict[str, Path]) -> dict[str, Load]:
    """Functions that load each encoder, by name."""
    torch = partial(StoryEncoder.from_pretrained, device="cpu")
    found: dict[str, Load] = {
        "torch, auto": partial(torch, dtype="auto"),
        "torch, float32": partial(torch, dtype="float32"),
    }
    for name, folder in models.items():
        if name == "ctranslate2":
            for dtype in ("float32", "int8"):
                found[f"ctranslate2, {dtype}"] = partial(by_ctranslate2, folder, dtype)
        else:
            backend, dtype = name.split(", ")
            # What onnxruntime quantized has the name of a model in float32.
            dtype = dtype if backend == "openvino" else "float32"
            found[name] = partial(
                StoryEncoder.from_pretrained, folder, backend=backend, dtype=dtype
            )
    if "openvino, float32" in models:
        exact = models["openvino, float32"]
        found["openvino, bfloat16"] = partial(
            StoryEncoder.from_pretrained, exact, backend="openvino", dtype="bfloat16"
        )
    return found


def peak_memory(load: Load) -> float:
    """The peak memory, in MB, of a new process that loads an encoder and scores the stories."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_memory, (load,))


def _measure_memory(load: Load) -> float:
    list(score_stories(speed.load_stories("stories", 30), load()))
    return speed.peak_of_process()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", help="folder with roc_val.json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--stories", type=int, default=30, help="number of five-sentence stories (default: 30)"
    )
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    arguments = parser.parse_args()
    transformers.logging.disable_progress_bar()
    with TemporaryDirectory() as folder:
        report = {
            "machine": speed.machine("cpu"),
            "backends": compare(backends(make_models(Path(folder))), arguments),
        }
    for line in table(report["backends"], arguments.work):
        print(line)
    if arguments.out is not None:
        with AtomicFile(str(arguments.out)) as out:
            out.write(json.dumps(report, indent=1) + "\n")


def compare(loads: dict[str, Load], arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The figures of each backend."""
    figures: dict[str, dict[str, Any]] = {}
    encoders = {}
    for name, load in loads.items():
        start = time.perf_counter()
        encoders[name] = load()
        figures[name] = {
            "load seconds": round(time.perf_counter() - start, 2),
            "peak MB": round(peak_memory(load)),
        }
    for work in arguments.work:
        stories = speed.load_stories(work, arguments.stories)
        runs = {
            name: partial(_scored, stories, encoder, on_truncation="ignore", **WORK[work])
            for name, encoder in encoders.items()
        }
        scored = {name: run() for name, run in runs.items()}  # once before the clock runs
        seconds = speed.measure(runs, arguments.rounds)
        for name, times in seconds.items():
            ratios = [a / b for a, b in zip(seconds["torch, auto"], times, strict=True)]
            figures[name][work] = {
                "seconds": round(median(times), 3),
                "times as fast": round(median(ratios), 2),
            }
            figures[name][work] |= _nearness(scored[name], scored["torch, float32"])
    path = (arguments.folder or Path()) / "roc_val.json"
    if arguments.folder and path.exists():
        rows = next(iter(load_story_salience(path).values()))
        stories = [{"sentences": story} for story in rows["story"]]
        for name, encoder in encoders.items():
            found = agreement_with_votes(
                _scored(stories, encoder, operations="summarization"), rows["counts"]
            )
            figures[name]["agreement"] = round(found["summarization_spearman"].value, 4)
    return figures


def _scored(stories: Any, encoder: StoryEncoder, **options: Any) -> list[Any]:
    return list(score_stories(stories, encoder, **options))


def _nearness(found: list[Any], exact: list[Any]) -> dict[str, float]:
    """The largest difference of scores, and the mean rank correlation within stories."""
    pairs = [
        (a.scores[name], b.scores[name])
        for a, b in zip(found, exact, strict=True)
        for name in a.scores
    ]
    return {
        "largest difference": round(
            max(float(np.abs(np.subtract(a, b)).max()) for a, b in pairs), 5
        ),
        "rank": round(mean(spearman(a, b) for a, b in pairs).value, 4),
    }


def table(figures: dict[str, dict[str, Any]], work: list[str]) -> Iterator[str]:
    """A Markdown table of the figures."""
    columns = [f"{name} | times as fast | largest difference | rank" for name in work]
    yield f"| backend | {' | '.join(columns)} | agreement | load | peak MB |"
    yield "|---" * (4 * len(work) + 4) + "|"
    for name, row in figures.items():
        cells = [
            f"{row[kind]['seconds']:.3g} s | {row[kind]['times as fast']:.2f} |"
            f" {row[kind]['largest difference']:.4f} | {row[kind]['rank']:.3f}"
            for kind in work
        ]
        agreement = f"{row['agreement']:.3f}" if "agreement" in row else ""
        yield (
            f"| {name} | {' | '.join(cells)} | {agreement} | {row['load seconds']} s |"
            f" {row['peak MB']} |"
        )


if __name__ == "__main__":
    main()
