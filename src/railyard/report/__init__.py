"""The HTML report of a run: the front-end bundle with the result inside, one file, offline."""

from railyard.report.html import report_html, write_report

__all__ = ["report_html", "write_report"]
