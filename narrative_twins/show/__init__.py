"""Show results: tables, pages, figures, reports."""

from narrative_twins.plots.shades import shades as shades
from narrative_twins.plots.shades import shares as shares
from narrative_twins.show.heat_map import plot_stories as plot_stories
from narrative_twins.show.highlights import marked as marked
from narrative_twins.show.html import page_head as page_head
from narrative_twins.show.html import section as section
from narrative_twins.show.html import to_html as to_html
from narrative_twins.show.saved import read_results as read_results
from narrative_twins.show.table import to_table as to_table
