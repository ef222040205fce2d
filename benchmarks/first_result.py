"""Time from the command `narrative-twins score` to its table, in new processes, and where it goes:

    python benchmarks/first_result.py [--rounds 5] [--cold]

A round runs all steps in turn, each in a process of its own, so that a step's share is its
difference to the one before; times are medians over rounds. `--cold` empties the file cache of
Linux before each process, which only root can do. The encoder is exported once, before the rounds,
for the steps by ONNX.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tqdm.auto import tqdm

from narrative_twins import StoryEncoder
from narrative_twins.encoder.export import export_encoder

STORY = Path(__file__).parent.parent / "examples" / "stories" / "window_cleaner.txt"
COMMAND = "from narrative_twins.commands.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
CACHES = Path("/proc/sys/vm/drop_caches")


def steps(exported: str) -> dict[str, list[str]]:
    """The arguments of Python by step."""
    load = "from narrative_twins import StoryEncoder; StoryEncoder.from_pretrained({})"
    onnx = f"{exported!r}, backend='onnx'"
    return {
        "python": ["-c", ""],
        "import torch": ["-c", "import torch"],
        "import torch and the model's class": [
            "-c",
            "import torch; from transformers import BertModel",
        ],
        "load the encoder": ["-c", load.format("")],
        "score": ["-c", COMMAND, "score", str(STORY)],
        "import onnxruntime": ["-c", "import onnxruntime"],
        "load the encoder, onnx": ["-c", load.format(onnx)],
        "score, onnx": [
            "-c",
            COMMAND,
            "score",
            str(STORY),
            "--model",
            exported,
            "--backend",
            "onnx",
        ],
    }


def seconds(arguments: list[str], cold: bool) -> float:
    """Seconds of a process."""
    if cold:
        os.sync()
        CACHES.write_text("3")
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--cold", action="store_true", help="empty the file cache before each process"
    )
    options = parser.parse_args()
    if options.cold and not os.access(CACHES, os.W_OK):
        parser.error("--cold: the file cache can't be emptied here; run as root on Linux")
    with TemporaryDirectory() as folder:
        export_encoder(StoryEncoder.from_pretrained(device="cpu", dtype="float32"), folder, "onnx")
        ways = steps(folder)
        rounds = [
            {name: seconds(arguments, options.cold) for name, arguments in ways.items()}
            for _ in tqdm(range(options.rounds), desc="rounds")
        ]
    for name in ways:
        print(f"{name:<36}{median(times[name] for times in rounds):6.2f} s")


if __name__ == "__main__":
    main()
