"""Work in parallel processes, and a bar that shows how far it is."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import warnings
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

from ._scenario import whole

#: In a worker: what to call with each item, the state that all share, and the items.
_work: Optional[Tuple[Callable[[Any, Any], Any], Any, Sequence[Any]]] = None


class Bar:
    """A bar of tqdm on a terminal; nothing where tqdm is missing or there is no terminal."""

    def __init__(self, what: str, total: float, unit: str) -> None:
        try:
            from tqdm import tqdm
        except ImportError:
            self._bar = None
            return
        # `disable=None` shows nothing where standard error is no terminal.
        self._bar = tqdm(total=total, desc=what, unit=unit, disable=None, leave=False)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def add(self, done: float = 1) -> None:
        """This much more is done."""
        if self._bar is not None:
            self._bar.update(done)

    def at(self, done: float) -> None:
        """This much is done altogether."""
        if self._bar is not None:
            # A sum of steps would show what floats leave over.
            self._bar.n = round(done, 3)
            self._bar.update(0)


def in_processes(
    work: Callable[[Any, Any], Any],
    state: Any,
    items: Sequence[Any],
    jobs: Optional[int],
    what: str,
) -> Iterator[Tuple[int, Any]]:
    """Calls ``work(state, item)`` for each item, in ``jobs`` processes (as many as there are cores
    without it; in this one if that is 1); yields the number and the outcome of each as it ends. The
    first exception ends it all."""
    jobs = min(len(items), _cores() if jobs is None else positive("jobs", jobs))
    with Bar(what, len(items), "run") as bar:
        if jobs <= 1:
            for number, item in enumerate(items):
                yield number, work(state, item)
                bar.add()
            return
        # A fork has the classes of a notebook; elsewhere they are pickled by name.
        methods = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
        # Numbers alone go through the pool's pipe: one full of items outlives its readers' death.
        pool = ProcessPoolExecutor(jobs, context, _begin, (work, state, items))
        interrupts = _Interrupts()
        try:
            with warnings.catch_warnings():
                # Nothing of this package holds a lock across the fork.
                warnings.filterwarnings(
                    "ignore", "This process .* is multi-threaded", DeprecationWarning
                )
                futures = {pool.submit(_call, number): number for number in range(len(items))}
            ended: "queue.SimpleQueue[Future[Any]]" = queue.SimpleQueue()
            for future in futures:
                future.add_done_callback(ended.put)
            for _ in items:
                future = interrupts.wait(ended)
                yield futures[future], future.result()
                bar.add()
        except BrokenProcessPool as error:
            why = "was killed, ran out of memory, or could not begin; jobs=1 uses no other process"
            raise RuntimeError(f"a process of the {what} {why}") from error
        except BaseException:
            # By Ctrl-C, an exception, or because nobody wants the rest: what runs is of no use.
            for worker in list((getattr(pool, "_processes", None) or {}).values()):
                # SIGTERM may meet a handler that it has inherited.
                worker.kill()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            interrupts.close()


class _Interrupts:
    """Keeps Ctrl-C until ``wait``. Raised within the pool, KeyboardInterrupt would leave one of its
    locks held for ever, and within a process that begins it would write a traceback."""

    def __init__(self) -> None:
        self._kept: List[Any] = []
        handler = signal.getsignal(signal.SIGINT)
        in_main = threading.current_thread() is threading.main_thread()
        self._handler = handler if in_main and callable(handler) else None
        if self._handler is not None:
            signal.signal(signal.SIGINT, lambda *interrupt: self._kept.append(interrupt))

    def wait(self, ended: "queue.SimpleQueue[Any]") -> Any:
        """The next of ``ended``; meanwhile answers Ctrl-C as ever."""
        while True:
            self._answer()
            with contextlib.suppress(queue.Empty):
                return ended.get(timeout=0.1)

    def close(self) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        self._answer()

    def _answer(self) -> None:
        if self._kept and self._handler is not None:
            self._handler(*self._kept.pop())


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def positive(name: str, value: Any) -> int:
    """The value as a whole number of 1 or more."""
    number = whole(name, value)
    if number < 1:
        raise ValueError(f"{name} is {number}; use 1 or more")
    return number


def _begin(work: Callable[[Any, Any], Any], state: Any, items: Sequence[Any]) -> None:
    # A terminal sends Ctrl-C to all; the process that began it ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    global _work
    _work = (work, state, items)


def _end_with_parent() -> None:
    """Ends this process with the one that began it, which may be killed without a word."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _call(number: int) -> Any:
    assert _work is not None
    work, state, items = _work
    try:
        return work(state, items[number])
    except BaseException as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            # What pickle has to say of it is not what went wrong.
            raise RuntimeError(f"{type(error).__qualname__}: {error}") from error
        raise
