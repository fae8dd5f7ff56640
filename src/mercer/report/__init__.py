"""Pages that one can send to a colleague."""

from mercer.report.html import verdict, write_report

__all__ = ["verdict", "write_report"]
