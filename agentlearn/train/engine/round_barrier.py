"""Which requests a round of sampling waits for."""

import threading
from collections.abc import Callable


class RoundBarrier:
    """Conversations that are sampled in rounds: a round starts when each of them waits for an answer or has left.

    What is computed together then depends on these conversations alone and not on timing: the same conversations give
    the same numbers, bit by bit. Thread-safe.
    """

    def __init__(self, conversations: int, at_once: int, changed: Callable[[], None]) -> None:
        """conversations: how many take part. at_once: how many of them run at the same time.

        changed: called without any lock when fewer or more requests are expected than before.
        """
        self._changed = changed
        self._lock = threading.Lock()
        self._left = conversations
        self._at_once = at_once
        self._held = 0
        self._released = False

    @property
    def expected(self) -> int:
        """Number of waiting requests that starts a round; 0: any number does."""
        with self._lock:
            return 0 if self._released else max(0, min(self._left, self._at_once) - self._held)

    def leave(self) -> None:
        """Take one finished conversation out of the following rounds."""
        with self._lock:
            self._left -= 1
        self._changed()

    def hold(self, conversations: int) -> None:
        """Expect no request from this many conversations at present: they wait for something else."""
        with self._lock:
            self._held = conversations
        self._changed()

    def release(self) -> None:
        """Answer requests as they come from now on."""
        with self._lock:
            self._released = True
        self._changed()
