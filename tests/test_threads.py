"""The limit of BLAS while the one pool of threads works."""

import os
import subprocess
import sys

#: In a process of its own: what was limited before, and by whom, matters.
SCRIPT = """
import threading
import numpy, scipy.linalg  # with their BLAS
from threadpoolctl import threadpool_info
from mercer._threads import blas_in_one_thread, blas_limited_to, threads_in_use

def blas_threads():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

seen = []

def look():
    with blas_in_one_thread() as threads:
        seen.append((threads, blas_threads()))
    seen.append((threads_in_use(), blas_threads()))

with blas_limited_to(2):
    look()
for _ in range(2):
    thread = threading.Thread(target=look)
    thread.start()
    thread.join(10)
look()
assert len(seen) == 8
assert seen[0] == (2, {1}), seen
assert all(found == {1} for _, found in seen[::2]), seen
assert all(found == {n} for (n, _), (_, found) in zip(seen[::2], seen[1::2], strict=True)), seen

# The thread that limited BLAS leaves first, and lives on.
entered, leave, left, end = (threading.Event() for _ in range(4))

def first():
    with blas_in_one_thread():
        entered.set()
        leave.wait(10)
    left.set()
    end.wait(10)

before = blas_threads()
thread = threading.Thread(target=first)
thread.start()
entered.wait(10)
with blas_in_one_thread():
    leave.set()
    left.wait(10)
    assert blas_threads() == {1}
assert thread.is_alive()
assert blas_threads() == before, (blas_threads(), before)
with blas_limited_to(2):
    assert blas_threads() == {2}
end.set()
thread.join(10)
"""


def test_any_thread_may_limit_blas() -> None:
    two = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=two)
    assert result.returncode == 0, result.stderr
