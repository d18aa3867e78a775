"""A report as one HTML file that asks nobody for anything: text, tables, data, and the code that draws them."""

from scyc.report.page.column import draw
from scyc.report.page.document import html, path_of, write

__all__ = ["draw", "html", "path_of", "write"]
