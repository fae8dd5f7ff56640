"""Many damaged files, read in processes of their own: one that crashes is a failure, not the end."""

from __future__ import annotations

import json
import os
import resource
import selectors
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.readers import Fault, attempt

ROOT = Path(__file__).parents[2]
#: Seconds that a case may take, and that a process may take to begin.
_PATIENCE, _START = 30.0, 120.0
#: Bytes of addresses that a process may take.
_ROOM = 6 << 30


@dataclass(frozen=True)
class Failure:
    """A case that went wrong; ``python -m tests.fuzz --kind KIND --case CASE`` repeats it."""

    kind: str
    case: int
    what: str


class Worker:
    """A process that reads damaged files, one at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, kind: str, case: int) -> tuple[str, str]:
        """The outcome of a case ("read", "refused" or "failed"), and what went wrong."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz", "--serve"], cwd=ROOT, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            self._answer(_START)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {case}\n")
        self._process.stdin.flush()
        answer = self._answer(_PATIENCE)
        if isinstance(answer, dict):
            return answer["outcome"], answer["what"]
        self.close()
        return "failed", answer

    def _answer(self, patience: float) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(patience):
                return f"no end after {patience:g} seconds"
        line = self._process.stdout.readline()
        return json.loads(line) if line else f"the process ended with {self._process.wait()}"

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None


def serve() -> None:
    """Read cases from standard input and write outcomes to standard output."""
    # Arrow takes room for what some headers claim, and touches no more of it than the file has.  Here
    # all of it is filled, which a claim of many gigabytes must not come to.
    resource.setrlimit(resource.RLIMIT_AS, (_ROOM, _ROOM))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print(json.dumps({"outcome": "ready", "what": ""}), flush=True)
        for line in sys.stdin:
            kind, case = line.split()
            try:
                outcome, what = attempt(kind, int(case), Path(folder) / "files"), ""
            except Fault as fault:
                outcome, what = "failed", str(fault)
            print(json.dumps({"outcome": outcome, "what": what}), flush=True)


def run(
    kinds: Iterable[str],
    cases: range,
    jobs: int = 1,
    progress: Callable[[Counter[str], str, Failure | None], None] = lambda *_: None,
) -> tuple[dict[str, Counter[str]], list[Failure]]:
    """Try all cases of all kinds; returns outcomes by kind, and what failed."""
    tasks = iter([(kind, case) for kind in kinds for case in cases])
    outcomes: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    failures: list[Failure] = []
    lock = threading.Lock()

    def work() -> None:
        worker = Worker()
        try:
            while True:
                with lock:
                    task = next(tasks, None)
                if task is None:
                    return
                outcome, what = worker.run(*task)
                with lock:
                    outcomes[task[0]][outcome] += 1
                    failure = Failure(*task, what) if outcome == "failed" else None
                    failures.extend([failure] if failure else [])
                    progress(outcomes[task[0]], task[0], failure)
        finally:
            worker.close()

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes, failures
