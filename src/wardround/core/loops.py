"""Run a coroutine to its end from code that does not wait: also inside an event loop, as in a notebook."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def run_to_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result, as ``asyncio.run`` does.

    Where this thread has a running event loop (Jupyter has one), the coroutine runs in a thread of its own, and this
    one waits. Ctrl-C, or "interrupt the kernel", cancels the coroutine and waits until it has cleaned up.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return _run_aside(coroutine)


def _run_aside(coroutine: Coroutine[Any, Any, T]) -> T:
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def cancellable() -> T:
        task = asyncio.current_task()
        assert task is not None
        started.set_result((asyncio.get_running_loop(), task))
        return await coroutine

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="wardround") as thread:
        result = thread.submit(copy_context().run, asyncio.run, cancellable())
        try:
            return result.result()
        except KeyboardInterrupt:
            loop, task = started.result()
            with contextlib.suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(task.cancel)
            raise
