"""The HTML report of a run, and the page of an answer: a front-end bundle with the result inside, one file, offline."""

from railyard.face.report.html import answer_html, answer_page, keep_answer, report_html, write_report

__all__ = ["answer_html", "answer_page", "keep_answer", "report_html", "write_report"]
