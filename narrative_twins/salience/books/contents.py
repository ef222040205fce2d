"""A book as a table of contents in HTML that is shaded by salience and opens down to the sentences.
All text is escaped; there are no scripts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from narrative_twins.plots.shades import PALE_DARK, STRONG_DARK, shades
from narrative_twins.plots.style import INK, hex_color, one_line
from narrative_twins.salience.books.units import Level, Unit, compared
from narrative_twins.stories.windows import Span


@dataclass(frozen=True)
class Contents:
    """How a book is shown.

    Attributes:
        operations: by level the operation that shades it, for the levels that were scored.
        shown: the indices of the sentences that are shown; None for all.
        inline: colours in attributes, which are the same on light and dark pages, for notebooks
            that drop style sheets; otherwise the variables `--light` and `--dark` of elements of
            the class `unit`, for a style sheet.
    """

    operations: Mapping[Level, str]
    shown: Collection[int] | None = None
    inline: bool = False

    def chapters(self, chapters: Sequence[Unit]) -> Iterator[str]:
        """Each chapter as an element that opens."""
        styles = self._styles(chapters)
        for chapter, style in zip(chapters, styles, strict=True):
            scenes = chapter.children
            if len(scenes) == 1:
                inner = self._sentences(scenes[0])
            else:
                of_scenes = self._styles(scenes)
                inner = "".join(
                    self._opening(scene, f"scene {number}", style, self._sentences(scene))
                    for number, (scene, style) in enumerate(
                        zip(scenes, of_scenes, strict=True), start=1
                    )
                )
            yield self._opening(chapter, chapter.name, style, inner)

    def _opening(self, unit: Unit, name: str, style: str, inner: str) -> str:
        scores = f" <small>{escape(described(unit.scores))}</small>" if unit.scores else ""
        title = f"<bdi>{escape(one_line(name))}</bdi>"
        heading = f'<span class="unit {unit.level}"{style}>{title}</span>{scores}'
        if not inner:
            return f'<div class="closed">{heading}</div>\n'
        indent = ' style="margin-left:1.2em"' if self.inline else ""
        return f"<details{indent}><summary>{heading}</summary>{inner}</details>\n"

    def _sentences(self, scene: Unit) -> str:
        starts, parts, styles = (
            set(scene.paragraphs),
            list[str](),
            self._styles(scene.children, scene.windows),
        )
        for at, (sentence, style) in enumerate(zip(scene.children, styles, strict=True)):
            if self.shown is not None and sentence.index not in self.shown:
                continue
            parts.append("</p><p>" if parts and at in starts else " " if parts else "")
            title = escape(f"sentence {sentence.index + 1}: {described(sentence.scores)}")
            text = escape(one_line(sentence.text))
            parts.append(
                f'<span class="unit sentence" dir="auto"{style} title="{title}">{text}</span>'
            )
        return f"<p>{''.join(parts)}</p>" if parts else ""

    def _styles(self, units: Sequence[Unit], windows: Sequence[Span] | None = None) -> list[str]:
        """The style attribute of each unit, with its shade among these units; `windows` as for
        `compared`."""
        operation = self.operations.get(units[0].level) if units else None
        if operation is None:
            return [""] * len(units)
        scores = compared(units, operation, windows)
        light = shades(scores)
        if self.inline:
            own = f"color:{hex_color(INK)};padding:1px 2px"
            return [f' style="background:{hex_color(colour)};{own}"' for colour in light]
        dark = shades(scores, PALE_DARK, STRONG_DARK)
        return [
            f' style="--light:{hex_color(a)};--dark:{hex_color(b)}"'
            for a, b in zip(light, dark, strict=True)
        ]


def contents_cell(
    title: str, chapters: Sequence[Unit], contents: Contents, notes: Iterable[str]
) -> str:
    """A book for the output cell of a notebook."""
    below = "".join(f"<div><small>{escape(note)}</small></div>" for note in notes)
    return (
        f"<div><div><strong><bdi>{escape(title)}</bdi></strong></div>"
        "<div"
        f' style="max-height:32em;overflow:auto;line-height:1.7">{"".join(contents.chapters(chapters))}</div>'
        f"{below}</div>"
    )


def described(scores: Mapping[str, float]) -> str:
    """Scores on one line."""
    return " · ".join(f"{name} {score:.3f}" for name, score in scores.items())
