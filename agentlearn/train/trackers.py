"""Where the metrics of a training run are also shown, update by update: TensorBoard, Weights & Biases, Trackio.

The last two have the same interface. Keys and addresses are theirs to find: `WANDB_MODE=offline` keeps all here.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.text.printing import stdout_for_results
from agentlearn.types.ids import RunId

Tracker = Literal["tensorboard", "wandb", "trackio", "none"]
MetricsWriter = Callable[[int, Mapping[str, float]], None]
"""Takes the number of an update and its metrics."""
_PROJECT = "agentlearn"


def require_trackers(trackers: Sequence[Tracker]) -> None:
    """Raises MissingExtra for a tracker whose package is not installed."""
    for name in trackers:
        if name != "none" and find_spec(name) is None:
            raise MissingExtra(f"--report-to {name} needs {name}, which is not installed: pip install {name}")


@contextmanager
def metrics_writers(
    trackers: Sequence[Tracker], *, run: RunId, store: Path, settings: Mapping[str, Any], done: int
) -> Generator[Sequence[MetricsWriter]]:
    """Open the trackers for a run, and close them after the block.

    settings: shown with the run. done: updates of a resumed run; TensorBoard no longer shows what was written of later
    ones, and the others keep it. Raises ConfigError where a tracker cannot be opened, as without its key.
    """
    with ExitStack() as stack:
        yield [
            _tensorboard(stack, store / "tensorboard" / run, done)
            if name == "tensorboard"
            else _tracked(stack, name, run, settings)
            for name in trackers
            if name != "none"
        ]


def _tensorboard(stack: ExitStack, folder: Path, done: int) -> MetricsWriter:
    from torch.utils.tensorboard import SummaryWriter

    writer = stack.enter_context(SummaryWriter(str(folder), purge_step=done + 1))

    def write(update: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, update)

    return write


def _tracked(stack: ExitStack, name: str, run: RunId, settings: Mapping[str, Any]) -> MetricsWriter:
    package: Any = import_module(name)
    same = {"id": run} if name == "wandb" else {}
    try:
        with stdout_for_results():  # with --json, stdout has one object
            tracked: Any = package.init(project=_PROJECT, name=run, config=dict(settings), resume="allow", **same)
    except Exception as error:
        why = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"{name} cannot be opened ({why}); set it up as its documentation says, or leave --report-to {name} out"
        ) from error

    @stack.callback
    def finish() -> None:  # pyright: ignore[reportUnusedFunction]  the stack calls it
        with stdout_for_results():
            tracked.finish()

    def write(update: int, values: Mapping[str, float]) -> None:
        tracked.log(dict(values), step=update)

    return write
