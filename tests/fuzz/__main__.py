"""The long run: python -m tests.fuzz --count 50000."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.fuzz import campaign
from tests.fuzz.readers import Fault, attempt
from tests.fuzz.seeds import SEEDS


def main() -> int:
    """Run a campaign, or repeat one case; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=50_000, help="damaged files of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--kind", choices=list(SEEDS), action="append", help="all by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--case", type=int, help="repeat one case of one kind in this process")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    kinds = options.kind or list(SEEDS)
    if options.serve:
        campaign.serve()
        return 0
    if options.case is not None:
        return repeat(kinds[0], options.case)
    outcomes, failures = campaign.run(
        kinds, range(options.first, options.first + options.count), options.jobs, show
    )
    print(file=sys.stderr)
    for kind, counts in outcomes.items():
        print(f"{kind:<12}{text(counts)}")
    return int(bool(failures))


def repeat(kind: str, case: int) -> int:
    """Run one case here, and keep its file."""
    folder = Path(tempfile.mkdtemp(prefix=f"mercer-fuzz-{kind}-{case}-"))
    os.chdir(folder)
    print(f"files in {folder}")
    try:
        print(attempt(kind, case, folder / "files"))
    except Fault as fault:
        print(fault)
        return 1
    return 0


def show(counts: Counter[str], kind: str, failure: campaign.Failure | None) -> None:
    """One line of progress, written over and over; what failed, as soon as it does."""
    if failure is not None:
        print(f"\n--kind {kind} --case {failure.case}\n{failure.what}", flush=True)
    if counts.total() % 100 == 0:
        print(f"\r{kind:<12}{text(counts)}", end="", file=sys.stderr, flush=True)


def text(counts: Counter[str]) -> str:
    """Outcomes in words."""
    parts = [f"{counts[name]:>7} {name}" for name in ("read", "refused", "failed")]
    return f"{counts.total():>7} files: {', '.join(parts)}"


if __name__ == "__main__":
    sys.exit(main())
