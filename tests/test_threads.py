"""The limit of BLAS while the one pool of threads works."""

import os
import subprocess
import sys

import pytest

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

#: Tasks that call no BLAS leave its threads alone, and are shared between as many of their own.
UNLIMITED = """
import threading
import numpy as np
from threadpoolctl import threadpool_info
from mercer._threads import run
from mercer.kernels import Heat
from mercer.spaces import Sphere

def seen_in_a_run(blas):
    met, seen = threading.Barrier(2, timeout=10), []

    def job(k):
        met.wait()
        seen.extend(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

    run(job, [(0,), (1,)], blas=blas)
    return set(seen)

assert seen_in_a_run(True) == {1}
assert seen_in_a_run(False) == {2}
X, Y = np.random.default_rng(0).normal(size=(2, 900, 3))
K, kernel = np.empty((900, 900)), Heat(Sphere())
for row, x in zip(K, X, strict=True):
    row[:] = kernel(x[None], Y)[0]
assert np.abs(kernel(X, Y) - K).max() < 1e-14
"""

#: Threads are kept from run to run; a forked process has none of them.
FORK = """
import os
import threading
import numpy
from mercer import _threads
from mercer._threads import run

def threads_of_a_run():
    met, seen = threading.Barrier(2, timeout=10), []
    run(lambda k: seen.append((met.wait(), threading.get_ident())), [(0,), (1,)])
    return {thread for _, thread in seen}

first = threads_of_a_run()
assert len(first) == 2 and threads_of_a_run() == first
child = os.fork()
if child == 0:
    os._exit(0 if len(threads_of_a_run()) == 2 else 1)
assert os.waitpid(child, 0)[1] == 0
# A process that is forked while another thread limits BLAS has neither its lock nor its limit.
inside, done = threading.Event(), threading.Event()

def limited():
    with _threads.blas_in_one_thread():
        inside.set()
        done.wait()

other = threading.Thread(target=limited)
other.start()
inside.wait()
with _threads._BlasLimit.lock:
    child = os.fork()
    if child == 0:
        os._exit(0 if len(threads_of_a_run()) == 2 and _threads.threads_in_use() == 2 else 1)
done.set()
other.join()
assert os.waitpid(child, 0)[1] == 0
try:
    run(lambda k: 1 // k, [(1,), (0,), (2,)])
except ZeroDivisionError:
    assert threads_of_a_run() == first
else:
    raise AssertionError
"""


#: Helpers begin on other processors than the thread that calls them, and are then free to move.
APART = """
import os
import threading
import time
import numpy
from mercer import _threads
from mercer._threads import run

def processors_of_a_run(tasks=2, seconds=0.0):
    met, seen = threading.Barrier(2, timeout=10), {}

    def job(k):
        seen.setdefault(threading.get_native_id(), []).append(_threads._processors())
        met.wait()
        time.sleep(seconds)

    run(job, [(k,) for k in range(tasks)])
    own = seen.pop(threading.get_native_id())
    assert _threads._pool(2).numbers == list(seen)
    return own, *seen.values()

def is_free(own, others):
    return own == others and len(own) == 1

processors_of_a_run()
if hasattr(os, "sched_setaffinity"):
    processors, (helper,) = os.sched_getaffinity(0), _threads._pool(2).numbers
    assert is_free(*processors_of_a_run())
    own, others = processors_of_a_run(tasks=4)  # short ones
    assert own == 2 * [processors] and others[0] == others[1] <= processors
    assert len(others[0]) == max(1, len(processors) - 1)
    assert os.sched_getaffinity(helper) == processors
    own, others = processors_of_a_run(tasks=6, seconds=0.006)
    assert own == 3 * [processors] == [processors, *others[1:]]
    # A thread that may use one processor alone has helpers on no other.
    for processor in processors:
        os.sched_setaffinity(0, {processor})
        assert is_free(*processors_of_a_run())
        assert os.sched_getaffinity(helper) == {processor}
    os.sched_setaffinity(0, processors)
    assert is_free(*processors_of_a_run())

    def refused(*_):
        raise PermissionError

    os.sched_setaffinity = refused
    assert is_free(*processors_of_a_run())
    del os.sched_setaffinity, os.sched_getaffinity  # as on other systems
    assert is_free(*processors_of_a_run())
"""


#: Handlers that run when Python ends, after all pools of threads are shut.
AT_EXIT = """
import atexit
import os
import numpy as np
from mercer._progress import Work, watched
from mercer._threads import run

def last():
    done = []
    run(done.append, [(k,) for k in range(3)])
    if watched(lambda: sorted(done), Work(total=1), "last") == [0, 1, 2]:
        os._exit(0)

run(lambda k: None, [(0,), (1,)])
atexit.register(os._exit, 1)  # errors in handlers are not told otherwise; the last to run
atexit.register(last)
"""


@pytest.mark.parametrize(
    "script",
    [SCRIPT, UNLIMITED, FORK, APART, AT_EXIT],
    ids=["limits", "no limit", "threads kept", "processors", "when Python ends"],
)
def test_in_a_process_of_two_threads(script: str) -> None:
    two = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=two, timeout=60
    )
    assert result.returncode == 0, result.stderr
