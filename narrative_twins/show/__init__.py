"""Results to look at: tables, pages, pictures, reports."""

from __future__ import annotations

from narrative_twins.show.heat_map import plot_stories
from narrative_twins.show.highlights import marked, shades, shares
from narrative_twins.show.html import page_head, section, to_html
from narrative_twins.show.table import to_table

__all__ = [
    "marked",
    "page_head",
    "plot_stories",
    "section",
    "shades",
    "shares",
    "to_html",
    "to_table",
]
