r"""Score a long book, made of packaged synopses as chapters, at all levels in one call:

    python benchmarks/books.py [--sentences 5000 20000] [--exact] \
        [--level chapter,scene,sentence]

Prints, for each length, the seconds per 1,000 sentences, and how far the peak of resident memory
grew beyond that of the lengths before it, so name the shorter ones first. The first 200 sentences
are scored before, to warm up.
"""

import argparse
import sys
import time
from itertools import cycle

import torch

from narrative_twins import StoryEncoder, score_book
from narrative_twins.books import Book, Chapter, book_table
from narrative_twins.data import load_window_twins


def long_book(sentences: int) -> Book:
    """A book of at least so many sentences: a chapter is a synopsis, and its windows are
    paragraphs."""
    chapters, text, count = list[Chapter](), "", 0
    for number, row in enumerate(cycle(load_window_twins(split="train")["story"]), start=1):
        spans = []
        for part in (f"Chapter {number}", *map(" ".join, row)):
            spans.append((len(text), len(text) + len(part)))
            text += f"{part}\n\n"
        chapters.append(Chapter(spans[0], tuple(spans[1:])))
        count += sum(map(len, row))
        if count >= sentences:
            break
    return Book(text, tuple(chapters), "Synopses")


def peak_memory() -> float:
    """The peak of this process's resident memory so far, in MB; 0 on Windows."""
    if sys.platform == "win32":
        return 0.0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--model", help="folder or Hub id (default: the default encoder)")
    parser.add_argument("--sentences", type=int, nargs="+", default=[5_000, 20_000])
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--level", default="chapter,scene,sentence")
    options = parser.parse_args()
    encoder = StoryEncoder.from_pretrained(options.model)
    approximate = None if options.exact else "one-pass"
    levels = options.level.split(",")
    score_book(long_book(200), encoder, levels=levels, approximate=approximate)
    print(f"{torch.get_num_threads()} threads, {options.level}, {approximate or 'exact'}")
    for count in options.sentences:
        book = long_book(count)
        before, start = peak_memory(), time.perf_counter()
        result = score_book(book, encoder, levels=levels, approximate=approximate, progress=True)
        seconds = time.perf_counter() - start
        per_thousand = 1000 * seconds / len(book_table(book).sentences)
        print(
            f"{result.extent}: {seconds:.1f} s, {per_thousand:.2f} s per 1,000 sentences, "
            f"peak {peak_memory():.0f} MB (+{peak_memory() - before:.0f} MB)"
        )
        del book, result  # the next length is measured without them


if __name__ == "__main__":
    main()
