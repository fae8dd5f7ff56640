"""Pages that one can send to a colleague."""

from mercer.report.html import write_report

__all__ = ["write_report"]
