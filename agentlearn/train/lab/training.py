"""Schooling: from random weights to a lab model, by a budget of tokens. Seeded, and repeatable to the bit."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import count
from statistics import fmean
from typing import TYPE_CHECKING

import torch
from torch.optim import AdamW, Muon

from agentlearn.lab.contract import Lab
from agentlearn.train.lab.conversation_batches import Encoder, batches
from agentlearn.train.lab.losses import LossWeights, Pupil, batch_loss
from agentlearn.train.lab.model_shape import ModelShape, config_of, model_of
from agentlearn.train.lab.tokenizer import tokenizer_of
from agentlearn.types.ids import content_hash

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch.optim import Optimizer
    from transformers import Qwen3ForCausalLM

REPORTED_STEPS = 50


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that the weights follow from, beside the corpus."""

    tokens: int = 4_000_000
    """Tokens that are read, each shared prefix once per scene."""
    seed: int = 0
    scenes: int = 4
    """Per step."""
    matrix_rate: float = 5e-3
    """Learning rate of the matrices inside of the layers, which Muon trains."""
    other_rate: float = 3e-3
    """Of embeddings, head and norms, which AdamW trains."""
    decay: float = 0.01
    warmup_steps: int = 40
    cooling: float = 0.4
    """The last share of the tokens, over which the rates fall to nothing."""
    clip: float = 1.0
    threads: int = 1
    """Of torch; another number may round otherwise."""
    shape: ModelShape = field(default_factory=ModelShape)
    weights: LossWeights = field(default_factory=LossWeights)

    def key(self, lab: Lab) -> str:
        """Names what comes of it: the same for the same corpus and recipe."""
        return content_hash("lab", lab.name, lab.version, asdict(self))[:16]


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far schooling is."""

    step: int
    tokens: int
    loss: float
    """In nats per token of the assistant's, doubtful places counting more; mean of the steps since the last report."""
    apart: float
    """At doubtful places, how far the model is from its teacher, in nats; the same mean."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainedLabModel:
    """What came of it."""

    model: "Qwen3ForCausalLM"
    tokenizer: "Tokenizer"
    tokens: int


def train_lab_model(
    lab: Lab, recipe: Recipe, report: Callable[[TrainingProgress], None] = lambda _: None
) -> TrainedLabModel:
    """Train the lab model from nothing."""
    threads = torch.get_num_threads()
    torch.set_num_threads(recipe.threads)
    try:
        return _school(lab, recipe, report)
    finally:
        torch.set_num_threads(threads)


def _school(lab: Lab, recipe: Recipe, report: Callable[[TrainingProgress], None]) -> TrainedLabModel:
    tokenizer = tokenizer_of(lab.pieces())
    pupil = _pupil(lab, recipe, tokenizer)
    optimizers = _optimizers(pupil, recipe)
    encoder = Encoder(tokenizer, lab.sayings)
    stream = batches(lab.scenes(recipe.seed), encoder, recipe.scenes, recipe.seed)
    tokens, recent = 0, list[tuple[float, float]]()
    for step in count(1):
        batch = next(stream)
        _set_rates(optimizers, recipe, step, tokens)
        loss = batch_loss(pupil, batch, recipe.weights)
        loss.total.backward()
        torch.nn.utils.clip_grad_norm_(pupil.parameters(), recipe.clip)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        tokens += batch.tokens
        recent.append((loss.total.item(), loss.apart))
        done = tokens >= recipe.tokens
        if done or step % REPORTED_STEPS == 0:
            losses, aparts = zip(*recent, strict=True)
            report(TrainingProgress(step, tokens, fmean(losses), fmean(aparts)))
            recent.clear()
        if done:
            break
    return TrainedLabModel(pupil.model.eval(), tokenizer, tokens)


def _pupil(lab: Lab, recipe: Recipe, tokenizer: "Tokenizer") -> Pupil:
    model = model_of(config_of(recipe.shape, tokenizer), recipe.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return Pupil(model, len(lab.sayings))


def _optimizers(pupil: Pupil, recipe: Recipe) -> list[tuple["Optimizer", float]]:
    """Each with the rate at which it runs after the warm-up."""
    matrices = [weight for weight in pupil.model.model.layers.parameters() if weight.ndim == 2]
    inside = {id(weight) for weight in matrices}
    others = [weight for weight in pupil.parameters() if id(weight) not in inside]
    return [
        (Muon(matrices, weight_decay=recipe.decay, adjust_lr_fn="match_rms_adamw"), recipe.matrix_rate),
        (AdamW(others, betas=(0.9, 0.95), weight_decay=recipe.decay), recipe.other_rate),
    ]


def _set_rates(optimizers: list[tuple["Optimizer", float]], recipe: Recipe, step: int, tokens: int) -> None:
    left = max(0.0, 1 - tokens / recipe.tokens)
    factor = min(1.0, step / recipe.warmup_steps, left / recipe.cooling)
    for optimizer, rate in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * factor
