"""Show results: tables, pages, figures; and read saved results."""

from narrative_twins.plots.shades import shades as shades
from narrative_twins.plots.shades import shares as shares
from narrative_twins.show.formats import read_results as read_results
from narrative_twins.show.pages import to_html as to_html
from narrative_twins.show.terminal import marked as marked
from narrative_twins.show.terminal import to_table as to_table
