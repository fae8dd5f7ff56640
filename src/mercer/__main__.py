"""``python -m mercer`` is the command ``mercer``."""

from mercer.cli import app

app(prog_name="mercer")
