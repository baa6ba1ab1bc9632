"""How often a process may be started again."""

import time
from collections import deque
from collections.abc import Callable


class RestartLimit:
    """Allows `most` restarts in any `within_s` seconds. clock: seconds of a clock that never goes back."""

    def __init__(self, most: int, within_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.within_s = within_s
        self._clock = clock
        self._restarts: deque[float] = deque(maxlen=most)

    def take(self) -> bool:
        """Count one restart and return True, or return False when the limit is reached."""
        now = self._clock()
        if len(self._restarts) == self.most and now - self._restarts[0] < self.within_s:
            return False
        self._restarts.append(now)
        return True
