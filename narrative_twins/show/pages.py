"""Stories and books as HTML to read, the same on the web page and in files, which load nothing from
elsewhere. They are rendered from the files in `templates/`, in which all text is escaped."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from narrative_twins.books.result import BookSalience
from narrative_twins.books.table import Unit
from narrative_twins.plots.shades import PALE_DARK, STRONG_DARK, palette, shares, steps
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.ranking import PRIMARY_OPERATION, compared, highest, marked, shaded
from narrative_twins.salience.result import StorySalience
from narrative_twins.salience.wording import precision, shown_score
from narrative_twins.stories.language import language_of
from narrative_twins.text import for_terminal, one_line, shortened

WIDTH, HEIGHT = 600, 80  # of a curve
SHARE, FEWEST = 0.02, 12
"""The share of the sentences of a book that is in its extract, and how many are at least."""
_PIECES = 500
"""How many parts of a template are joined to a piece of a page: about 10,000 characters."""
_PLACES = 300
"""Places on a curve: of the sentences at one place, the most salient is shown."""
_DECIMALS = 6  # that hold in float32, at most
_QUOTED = 160  # characters of a sentence that is quoted


@cache
def templates(package: str = "narrative_twins.show") -> Environment:
    """Return the jinja environment of the templates of a package and of this one. All text but
    `Markup` is escaped."""
    folders = map(PackageLoader, dict.fromkeys([package, "narrative_twins.show"]))
    environment = Environment(
        loader=ChoiceLoader(list(folders)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters |= {"one_line": one_line, "quoted": quoted, "content": _content}
    return environment


def quoted(text: str) -> str:
    """Return a text on one line; the end of a long one is replaced by an ellipsis, after a word
    unless the word is long."""
    line = one_line(text)
    if len(line) <= _QUOTED:
        return line
    end = line.rfind(" ", _QUOTED - 30, _QUOTED)
    return f"{line[: end if end > 0 else _QUOTED - 1]}…"


def _content(text: str) -> Markup:
    """Return a text as the content of an element. Other than in attributes, quotation marks need no
    escape there, of which a novel would have ten thousand."""
    return Markup(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def style(dark: str | None = None) -> str:
    """Return the style sheet of the reader. It is dark on dark systems; or where the selector
    `dark` matches, such as `.dark`."""
    colours = {"light": palette(), "shades_on_dark": palette(PALE_DARK, STRONG_DARK)}
    return templates().get_template("reader.css").render(dark=dark, **colours)


def script() -> str:
    """Return the script of the reader."""
    return files("narrative_twins.show").joinpath("templates/reader.js").read_text("utf-8")


def to_html(results: Iterable[StorySalience], top: int | None = None) -> Iterator[str]:
    """Yield an HTML page of results in pieces. Results are read lazily. With `top`, the page has an
    extract of the `top` most salient sentences of each story in place of its text."""
    return page("Narrative salience", (story_reading(result, top) for result in results))


def book_html(result: BookSalience) -> Iterator[str]:
    """Yield an HTML page of a book in pieces."""
    return page(f"{result.name}: narrative salience", [book_reading(result)])


def page(title: str, readings: Iterable[Markup]) -> Iterator[str]:
    """Yield an HTML page with `readings` in pieces; `title` may be any text."""
    code = script()
    digest = b64encode(sha256(code.encode()).digest()).decode()
    values = {"style": Markup(style()), "script": Markup(code), "digest": digest}
    stream = (
        templates()
        .get_template("page.html")
        .stream(title=shortened(title, 120), readings=readings, **values)
    )
    stream.enable_buffering(_PIECES)
    return stream


def story_reading(
    result: StorySalience, top: int | None = None, title: str | None = None, is_advised: bool = True
) -> Markup:
    """Return a story to read, as HTML: by each operation the most salient sentence, a curve and an
    extract, and the text, whose sentences are shaded. `top`: see `to_html`; the default title is
    the name of the story. If `is_advised`, it is said how well an operation agrees with readers."""
    text, end, pieces = displayed(result.story.text), 0, []
    for start, stop in result.spans:
        pieces.append((text[end:start], text[start:stop]))
        end = stop
    names = sorted(result.scores, key=lambda name: name != result.primary_operation)
    prefix = f"t{result.index + 1}-"
    operations = [_of_story(result, name, top) for name in names]
    stars = set(marked(result, names[0]))
    shades = [
        f"s{step}{' top' if i in stars else ''}"
        for i, step in enumerate(steps(shaded(result, names[0])))
    ]
    return _rendered(
        "story",
        result=result,
        title=result.name if title is None else title,
        prefix=prefix,
        operations=operations,
        linked={operation["best"] for operation in operations},
        data=[_data(result, name, result.dtype, is_shaded=True) for name in names],
        pieces=None if top is not None else list(zip(pieces, shades, strict=True)),
        end=text[end:],
        language=language_of(text),
        is_advised=is_advised,
        notes=[*result.notes_on(names)],
    )


def book_reading(result: BookSalience) -> Markup:
    """Return a book to read, as HTML: curves over the book; its chapters by rank, each with its
    most salient scene and sentence; an extract; and the text, whose sentences are shaded."""
    sentences, chapters = result.sentences, result.chapters
    has_text = "sentence" in result.levels
    ranks = chapters.rank() if "chapter" in result.levels else range(len(chapters))
    alone = {lo for lo, hi in sentences.windows if hi - lo == 1}
    values = compared(sentences) if has_text else []
    scenes = compared(result.scenes) if "scene" in result.levels else []

    def row_of(chapter: Unit) -> tuple[Unit, int | None, int | None]:
        """Return a chapter with its most salient sentence and scene, if there are any to choose."""
        inside = range(*result.sentences_of(chapter)) if has_text else range(0)
        best = max(inside, key=lambda i: (i not in alone, values[i]), default=None)
        lo, hi = chapter.inside
        scene = max(range(lo, hi), key=scenes.__getitem__) if scenes and hi - lo > 1 else None
        return chapter, best, scene

    rows = [row_of(unit) for unit in sorted(chapters, key=lambda unit: ranks[unit.index])]
    count = min(len(sentences), max(FEWEST, round(SHARE * len(sentences))))
    return _rendered(
        "book",
        result=result,
        rows=rows,
        linked={best for _, best, _ in rows},
        curves=_curves_of_book(result),
        data=[_data(sentences, name, result.dtype) for name in _ordered(sentences.scores)],
        shades=_shades_of_book(result),
        starts=set(sentences.starts),
        has_text=has_text,
        extract=displayed(str(result.extract(count))) if has_text else "",
        count=count,
        tables=[
            (level, _table(result.at(level), result.dtype))
            for level in ("chapter", "scene")
            if level in result.levels
        ],
        language=language_of(" ".join(sentences.texts[:500])),
        notes=[
            *(note for note in result.notes if note not in result.left_out),
            *precision(result.dtype),
        ],
    )


def _rendered(macro: str, **values: Any) -> Markup:
    """Return what a macro of `reader.html` makes of `values`."""
    module: Any = templates().get_template("reader.html").module
    return Markup(getattr(module, macro)(meaning=meaning, **values))


def _ordered(scores: Iterable[str]) -> list[str]:
    """Return the names of operations, the primary operation first."""
    return sorted(scores, key=lambda name: name != PRIMARY_OPERATION)


def meaning(operation: str, unit: str = "sentence", whole: str = "story") -> str:
    """Return what a high score by an operation says of a unit; empty for one that is not registered
    here, but in saved scores."""
    if operation not in OPERATIONS:
        return ""
    return OPERATIONS[operation].meaning.replace("story", whole).replace("sentence", unit)


def decimals(scores: Sequence[float], dtype: str | None) -> int:
    """Return how many decimals of scores to show: those of `shown_score`, and more where the scores
    would hardly differ otherwise, if their dtype has more."""
    least = len(shown_score(0, dtype)) - 2
    spread = max(scores) - min(scores)
    if dtype in ("float16", "bfloat16") or not spread:
        return least
    return min(max(least, 1 - math.floor(math.log10(spread))), _DECIMALS)


def fenced(scores: Sequence[float]) -> list[float]:
    """Return scores with those raised that are far below most others: by one and a half times the
    range of the middle half of the scores below it, as in a box plot. Otherwise a chapter of one
    line, such as the title of a part, would make all others look the same."""
    low, high = np.nanquantile(scores, [0.25, 0.75]) if len(scores) > 3 else (min(scores), 0.0)
    fence = low - 1.5 * max(high - low, 0.0)
    return [max(score, fence) for score in scores]


def _data(units: Any, operation: str, dtype: str | None, is_shaded: bool = False) -> dict[str, Any]:
    """Return what the script of the reader needs to show the scores of sentences: whole numbers, to
    be divided by a power of ten. If `is_shaded`, also to shade them by the operation: for each a
    digit, its step, or for marked ones a letter, and the ranks."""
    scores = units.scores[operation]
    places = decimals(scores, dtype)
    data = {"name": operation, "decimals": places}
    data["scores"] = [round(score * 10**places) for score in scores]
    if is_shaded:
        stars = set(marked(units, operation))
        digits = enumerate(steps(shaded(units, operation)))
        data["shades"] = "".join(chr(step + ord("a" if i in stars else "0")) for i, step in digits)
        data["ranks"] = units.rank(operation)
    return data


def _of_story(result: StorySalience, operation: str, top: int | None) -> dict[str, Any]:
    """Return what is shown of a story by one operation."""
    scores, stars = result.scores[operation], marked(result, operation)
    count = max(1, len(stars)) if top is None else top
    places = decimals(scores, result.dtype)
    return {
        "name": operation,
        "best": highest(result, 1, operation)[0],
        "curve": line(result, operation, result.dtype, [lo for lo, _ in result.windows[1:]]),
        "extract": displayed(str(result.extract(count, operation))),
        "count": count,
        "scores": [f"{score:.{places}f}" for score in scores],
    }


@dataclass(frozen=True)
class Curve:
    """A curve of scores in the order of the text.

    Attributes:
        what: what has the scores: `"sentence"` or `"chapter"`.
        count: how many there are.
        high, low, range: the highest and the lowest score, and their difference.
        at: the index of the sentence or chapter at each place of the curve, from left to right.
        points: places on a line; empty for bars.
        bars: left edge, upper edge, width and height of bars; empty for a line.
        borders: places of vertical lines.
        is_fenced: whether some scores are below `low`, see `fenced`.
    """

    what: str
    count: int
    high: str
    low: str
    range: str
    at: list[int]
    points: Sequence[tuple[str, str]] = ()
    bars: Sequence[tuple[str, ...]] = ()
    borders: Sequence[str] = ()
    is_fenced: bool = False


def line(units: Any, operation: str, dtype: str | None, borders: Sequence[int]) -> Curve | None:
    """Return the curve of the scores of sentences as a line, with `borders` before sentences. It
    leaves out sentences that are alone in their window; None if all are."""
    alone = {lo for lo, hi in units.windows if hi - lo == 1}
    scores, n = units.scores[operation], len(units.scores[operation])
    places = min(n, _PLACES)
    edges = pairwise(place * n // places for place in range(places + 1))
    at = [max(range(*edge), key=lambda i: (i not in alone, scores[i])) for edge in edges]
    shown = [(place, scores[i]) for place, i in enumerate(at) if i not in alone]
    if not shown:
        return None
    heights = map(_height, shares([score for _, score in shown]))
    points = [
        (f"{(place + 0.5) * WIDTH / places:.1f}", f"{height:.1f}")
        for (place, _), height in zip(shown, heights, strict=True)
    ]
    rules = [f"{border * WIDTH / n:.1f}" for border in borders]
    high, low, difference = _ends([score for _, score in shown], dtype)
    return Curve("sentence", n, high, low, difference, at, points, borders=rules)


def bars(scores: Sequence[float], dtype: str | None, sizes: Sequence[int]) -> Curve:
    """Return the curve of the scores of chapters as bars, each as wide as the chapter is long."""
    total, edges = sum(sizes), [0, *accumulate(sizes)]
    at = [i for i, size in enumerate(sizes) for _ in range(size)]
    fence = fenced(scores)
    high, low, difference = _ends(fence, dtype)
    is_fenced = fence != list(scores)
    shown = zip(edges, sizes, shares(fence), strict=False)
    boxes = [
        (lo * WIDTH / total, _height(share), size * WIDTH / total, HEIGHT - _height(share))
        for lo, size, share in shown
    ]
    return Curve(
        "chapter",
        len(scores),
        high,
        f"≤ {low}" if is_fenced else low,
        difference,
        at=[at[i * total // _PLACES] for i in range(_PLACES)],
        bars=[tuple(f"{number:.1f}" for number in box) for box in boxes],
        is_fenced=is_fenced,
    )


def _height(share: float) -> float:
    """Return the distance from the top of a curve, for a score as a share of the range."""
    return HEIGHT - 6 - share * (HEIGHT - 12)


def _ends(scores: Sequence[float], dtype: str | None) -> list[str]:
    """Return the highest and the lowest of some scores, and their difference, as text."""
    places = decimals(scores, dtype)
    high, low = round(max(scores), places), round(min(scores), places)
    return [f"{value:.{places}f}" for value in (high, low, high - low)]


def _curves_of_book(result: BookSalience) -> list[Curve | None]:
    """Return a curve of the chapters of a book and one of its sentences, where they are scored."""
    curves, has_text = list[Curve | None](), "sentence" in result.levels
    inside = [result.sentences_of(chapter) for chapter in result.chapters] if has_text else []
    if "chapter" in result.levels:
        sizes = [hi - lo for lo, hi in inside] or [hi - lo for lo, hi in result.chapters.spans]
        curves.append(bars(result.chapters.scores_of(), result.dtype, sizes))
    if has_text:
        borders = [lo for lo, _ in inside[1:]]
        operation = result.shading["sentence"]
        curves.append(line(result.sentences, operation, result.dtype, borders))
    return curves


def _shades_of_book(result: BookSalience) -> dict[str, list[int]]:
    """Return by level the step of the shade of each unit; 0 without scores. Shades compare the
    chapters of the book, the scenes of a chapter and the sentences of a scene."""
    groups = {
        "chapter": result.chapters.windows,
        "scene": result.chapters.inside,
        "sentence": result.scenes.inside,
    }
    shades: dict[str, list[int]] = {}
    for level, ranges in groups.items():
        units: Any = result.units(level)  # type: ignore[arg-type]
        values = shaded(units) if level in result.levels else [math.nan] * len(units)
        if level == "chapter" and level in result.levels:
            values = fenced(values)
        shades[level] = [step for lo, hi in ranges for step in steps(values[lo:hi])]
    return shades


def _table(units: Any, dtype: str | None) -> dict[str, list[str]]:
    """Return the scores of units as text, by operation."""
    return {
        name: [f"{score:.{decimals(units.scores[name], dtype)}f}" for score in units.scores[name]]
        for name in _ordered(units.scores)
    }


def displayed(text: str) -> str:
    """Return a text of the same length that HTML can show, with line feeds for carriage returns."""
    return for_terminal(text.replace("\r\n", " \n").replace("\r", "\n"))
