"""Self-contained reports of comparisons."""

from mercer.report.html import write_report

__all__ = ["write_report"]
