"""What the progress displays of `learn` and `train` share.

Labelled lines, a live view on a terminal and a line every 30 seconds elsewhere, the interrupt, and the resume command.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

from rich.console import Console
from rich.live import Live

from agentlearn.cli.held_out import held_out_lines
from agentlearn.cli.live import LiveView
from agentlearn.cli.output import count_words, score_words
from agentlearn.config import RunSettings
from agentlearn.config.command_words import command_words
from agentlearn.errors import Interrupted, ProcessLost, may_go_on
from agentlearn.learning.report import HeldOutScore
from agentlearn.models.call_context import CallContext
from agentlearn.types.group import GroupKind
from agentlearn.types.trajectory import Trajectory

if TYPE_CHECKING:
    from agentlearn.learning.report import LearnReport
    from agentlearn.train.report import TrainReport

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


class ProgressLines:
    """Prints labelled lines about one run."""

    command: ClassVar[str]
    """The command that resumes the run: learn or train."""
    label_width: ClassVar[int] = 11

    def __init__(self, settings: RunSettings, out: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.out = out
        self.view = LiveView(clock)
        self.live: Live | None = None
        self.heartbeat = Heartbeat(self.state_words, lambda words: self.line("so far", words), clock)
        if out.is_terminal and not out.is_dumb_terminal:
            self.live = Live(get_renderable=lambda: self.view, console=out, transient=True, refresh_per_second=4)
        self.store = settings.store
        self.call_context: CallContext | None = None
        self.finished = False
        """Whether the run is done and its report stored."""

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start()
        else:
            self.heartbeat.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_view()
        self.say_how_to_go_on(error)

    def close_view(self) -> None:
        """Remove the live view and restore the terminal."""
        self.heartbeat.stop()
        if self.live is not None:
            self.live.stop()

    def state_words(self) -> str:
        """How far the run is, in one line."""
        return self.view.words()

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        """Show a finished rollout."""
        self.view.add_rollout(phase, trajectory)

    def group_stopped(self, phase: str, saved: int) -> None:
        """Expect fewer rollouts."""
        self.view.leave_out(phase, saved)

    def group_done(self, kind: GroupKind) -> None:
        """Show a finished task of a batch."""
        self.view.add_group(kind)

    def line(self, label: str, text: str) -> None:
        """Print one line; an empty label continues the line above."""
        self.out.print(self.labelled(label, text))
        self.heartbeat.printed()

    def labelled(self, label: str, text: str) -> str:
        """Return one line with its label."""
        return f"  {label.ljust(self.label_width)}{text}"

    def interrupt(self) -> bool:
        """Stop the run in good order. Return False when it is already stopping or has not started."""
        if self.call_context is not None and isinstance(self.call_context.stopped, ProcessLost):
            return True  # torchrun ends every process when one has ended, and the run is ending for the same reason
        if self.call_context is None or self.call_context.stopped is not None:
            return False
        self.call_context.stop(Interrupted("interrupted; what was finished is stored"))
        if calls := self.call_context.in_flight:
            self.line("stopping", f"waiting for {count_words(calls, 'model call')}; press Ctrl-C again to stop now")
        return True

    def how_to_go_on(self) -> str:
        """The line with the command that resumes the run; of a finished run, with the one that shows it."""
        if self.call_context is None:
            return ""
        run = self.call_context.run
        if self.finished:
            return self.labelled("done", command_words("runs", "show", run, store=self.store))
        return self.labelled("resume", command_words(self.command, "--resume", run, store=self.store) + self.raised())

    def raised(self) -> str:
        """Further options that the command needs, such as a higher limit."""
        return ""

    def say_how_to_go_on(self, error: BaseException | None) -> None:
        """Give the error the line that is printed after it, where the run can go on."""
        if error is not None and may_go_on(error) and (line := self.how_to_go_on()):
            error.add_note(line)

    def service_changed(self, words: str, silent: bool) -> None:
        """Print that the run waits for a model service, or that it goes on."""
        more = ""
        if silent and self.call_context is not None:
            command = command_words(self.command, "--resume", self.call_context.run, store=self.store)
            more = f"; Ctrl-C stops, {command} goes on"
        self.line("service", f"{words}{more}")

    def print_score(self, updates: int, score: HeldOutScore) -> None:
        """Print a score on held-out tasks during learning."""
        self.line("held out", f"{score_words(score.mean)} after {count_words(updates, 'update')}")

    def print_held_out(self, report: "LearnReport | TrainReport") -> None:
        """Print the result on held-out tasks: the verdict first, then its parts, and what was not counted."""
        for number, line in enumerate(held_out_lines(report)):
            self.line("" if number else "held out", line)
