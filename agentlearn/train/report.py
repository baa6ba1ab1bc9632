"""What a training run came to: the JSON contract of `train --json`, and the source of what is printed and drawn."""

from collections.abc import Mapping

from agentlearn.learn.report import CurvePoint, Delta, HeldOut, HeldOutScore, StageLine
from agentlearn.types.ids import LibraryVersion, RunId
from agentlearn.types.value import Value


class UpdateLine(Value):
    """One update."""

    update: int
    """Its place, from 1."""
    reward: float | None
    """Mean reward of the rollouts that it learned from."""
    mixed: float
    """Share of the groups whose rewards differ."""
    loss: float | None
    entropy: float | None
    """Mean, in nats, of the trained tokens."""
    clipped: float | None
    """Share of the trained tokens whose ratio was clipped."""
    mismatch: float | None
    """Mean divergence of the sampler's probabilities from the trainer's, in nats per token."""
    tokens: int
    """Trained tokens."""
    seconds: float
    """Of the update alone."""


def update_line(update: int, values: Mapping[str, float]) -> UpdateLine:
    """The line of one update, from its stored metrics."""
    groups = values.get("groups", 0.0)
    clipped = [values[name] for name in ("clip_ratio/region_mean", "cispo_clip_ratio") if name in values]
    return UpdateLine(
        update=update,
        reward=values.get("reward"),
        mixed=values.get("groups/mixed", 0.0) / groups if groups else 0.0,
        loss=values.get("loss"),
        entropy=values.get("entropy"),
        clipped=clipped[0] if clipped else None,
        mismatch=values.get("mismatch/kl"),
        tokens=int(values.get("tokens", 0)),
        seconds=round(values.get("seconds/updating", 0.0), 3),
    )


class TrainedWeights(Value):
    """The weights before and after."""

    sha256_before: str
    sha256_after: str
    path: str
    """Folder of the result, in Hugging Face format; `--model local:PATH` uses it."""
    adapter: bool
    """Whether the result is an adapter."""


class TrainReport(Value):
    """A finished training run."""

    run: RunId
    domain: str
    model: str
    sampler: str
    loss: str
    simulated: bool = False
    seed: int
    library: LibraryVersion
    """The lessons that stood in every prompt."""
    tasks: dict[str, int]
    before: HeldOutScore | None
    after: HeldOutScore | None
    delta: Delta | None
    known_families: HeldOut | None
    unseen_families: HeldOut | None
    curve: tuple[CurvePoint, ...]
    updates: tuple[UpdateLine, ...]
    weights: TrainedWeights
    groups: dict[str, int]
    rollouts: dict[str, int]
    turns: dict[str, int]
    """Model turns that went into rows: `clean` ones continue the tokens before them, `forked` ones do not."""
    skipped: int
    """Updates whose loss or gradient was not finite: they changed nothing."""
    stale: int
    """Rows left out because their weights were too old."""
    stages: dict[str, StageLine]
    seconds: dict[str, float]
    """Wall time of `sampling`, `updating` and `synchronising`."""
    wall_s: float
    notes: tuple[str, ...]
