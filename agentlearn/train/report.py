"""The result of a training run: the JSON of `train --json`, which pages and printed lines are made from."""

from collections.abc import Mapping

from agentlearn.learning.callbacks import Callbacks
from agentlearn.learning.report import CurvePoint, Delta, HeldOut, HeldOutScore, StageLine
from agentlearn.models.service_record import ServiceRecord
from agentlearn.types.ids import LibraryVersion, RunId
from agentlearn.types.value import Value


class UpdateLine(Value):
    """The main numbers of one update."""

    update: int
    """Number of the update, from 1."""
    reward: float | None
    """Mean reward of the rollouts that the update learned from."""
    mixed: float
    """Share of groups with different rewards."""
    loss: float | None
    """Mean loss over the optimiser steps."""
    entropy: float | None
    """Mean entropy at the trained tokens, in nats."""
    clipped: float | None
    """Share of the trained tokens whose ratio was clipped."""
    mismatch: float | None
    """Mean divergence between the sampler's and the trainer's probabilities, in nats per token."""
    teacher: float | None = None
    """Mean divergence from the teacher that reads the lessons, in nats per token; None without distillation."""
    answer_tokens: float | None = None
    """With distillation: mean number of sampled tokens of a rollout without lessons."""
    tokens: int
    """Number of trained tokens."""
    seconds: float
    """Seconds spent on the update itself, without sampling."""

    @classmethod
    def of(cls, update: int, values: Mapping[str, float]) -> "UpdateLine":
        """Return the line of an update, from its metrics by name as they are stored."""
        groups = values.get("groups", 0.0)
        clipped = [values[name] for name in ("clip_ratio/region_mean", "cispo_clip_ratio") if name in values]
        return cls(
            update=update,
            reward=values.get("reward"),
            mixed=values.get("groups/mixed", 0.0) / groups if groups else 0.0,
            loss=values.get("loss"),
            entropy=values.get("entropy"),
            clipped=clipped[0] if clipped else None,
            mismatch=values.get("mismatch/kl"),
            teacher=values.get("distill/divergence"),
            answer_tokens=values.get("answer_tokens"),
            tokens=int(values.get("tokens", 0)),
            seconds=round(values.get("seconds/updating", 0.0), 3),
        )


class TrainedWeights(Value):
    """Hashes of the weights before and after training, and where the result is."""

    sha256_before: str
    sha256_after: str
    path: str
    """Folder of the result, in Hugging Face format; use it with `--model local:PATH`."""
    adapter: bool
    """Whether the result is an adapter."""
    published: bool = True
    """Whether they are the result. If not, the path is that of a checkpoint."""
    withheld: str = ""
    """Why they are not published, in words; empty when they are."""
    failed: bool = False
    """Whether training failed: no weight has changed, or the model has collapsed."""


class TrainReport(Value):
    """The result of a finished training run."""

    run: RunId
    domain: str
    model: str
    sampler: str
    loss: str
    simulated: bool = False
    seed: int
    library: LibraryVersion
    """Version of the library whose lessons were in every prompt."""
    distilled: LibraryVersion | None = None
    """Version of the library whose lessons were distilled into the weights; None: none."""
    tasks: dict[str, int]
    """Number of tasks that were trained on and held out."""
    before: HeldOutScore | None
    after: HeldOutScore | None
    delta: Delta | None
    known_families: HeldOut | None
    """Scores on held-out tasks of families that were trained on."""
    unseen_families: HeldOut | None
    """Scores on held-out tasks of families that were not trained on."""
    test_sets: tuple[HeldOut, ...] = ()
    """One entry per test set, when there are several."""
    curve: tuple[CurvePoint, ...]
    updates: tuple[UpdateLine, ...]
    weights: TrainedWeights
    groups: dict[str, int]
    """Number of groups by kind."""
    rollouts: dict[str, int]
    """Number of rollouts by outcome."""
    turns: dict[str, int]
    """Model turns in training rows. `clean`: continue the tokens before them. `forked`: start a new row."""
    skipped: int
    """Optimiser steps that were skipped because the loss or the gradient was not finite."""
    stale: int
    """Rows left out because more than `max_staleness` updates were made since their rollout was planned."""
    stages: dict[str, StageLine]
    services: tuple[ServiceRecord, ...] = ()
    """How the service that samples behaved: outages, cut-off replies, models that answered."""
    seconds: dict[str, float]
    """Seconds spent on `sampling`, `updating` and `synchronising` in all updates, those before a resume included."""
    wall_s: float
    """Seconds since the run was started or, if it was resumed, since the last resume."""
    resumed: bool = False
    """Whether the run was interrupted and resumed."""
    notes: tuple[str, ...]


class TrainCallbacks(Callbacks):
    """Callbacks of a training run: those of every run, and one for its report."""

    def trained(self, report: TrainReport) -> None:
        """Called once when the training run has finished."""
