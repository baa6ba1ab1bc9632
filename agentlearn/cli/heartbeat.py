"""A line every 30 seconds that says how far a run is, where there is no terminal to show it on."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

EVERY_S = 30.0
"""Longest time without a printed line, in seconds."""
_LOOK_S = 1.0


class Heartbeat:
    """Prints the state of a run when nothing was printed for a while."""

    def __init__(
        self, words: Callable[[], str], say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """words: the state of the run; empty: nothing to say. say: prints it. clock: in seconds."""
        self._words, self._say, self._clock = words, say, clock
        self._last = clock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def printed(self) -> None:
        """Note that a line was printed."""
        self._last = self._clock()

    def beat(self) -> None:
        """Print the state if it is time."""
        if self._clock() - self._last < EVERY_S:
            return
        if words := self._words():
            self._say(words)
        self.printed()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Print no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        with suppress(OSError):  # nobody reads the output any more
            while not self._ended.wait(_LOOK_S):
                self.beat()
