"""Training a lab model from random weights, with a budget of tokens. The same seed gives the same bits."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import count
from statistics import fmean
from typing import TYPE_CHECKING

import torch
from torch.optim import AdamW, Muon

from agentlearn.types.ids import content_hash
from agentlearn_demo.lab.contract import Lab
from agentlearn_demo.lab_training.distillation_loss import LossWeights, StudentModel, batch_loss
from agentlearn_demo.lab_training.example_batches import ExampleEncoder, example_batches
from agentlearn_demo.lab_training.qwen_model import ModelShape, qwen_config, random_model
from agentlearn_demo.lab_training.tokenizer import tokenizer_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch.optim import Optimizer
    from transformers import Qwen3ForCausalLM

REPORTED_STEPS = 50


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything besides the corpus that determines the weights. Its field names are part of a built model's key."""

    tokens: int = 7_800_000
    """Number of tokens to train on; a shared prefix counts once per example."""
    seed: int = 0
    scenes: int = 4
    """Training examples per step."""
    matrix_rate: float = 5e-3
    """Learning rate of Muon, which trains the matrices inside the layers."""
    other_rate: float = 3e-3
    """Learning rate of AdamW, which trains embeddings, head and norms."""
    decay: float = 0.01
    warmup_steps: int = 40
    cooling: float = 0.4
    """Last share of the tokens, over which the learning rates fall to 0."""
    clip: float = 1.0
    threads: int = 1
    """Number of torch threads; another number may round differently."""
    shape: ModelShape = field(default_factory=ModelShape)
    weights: LossWeights = field(default_factory=LossWeights)

    def key(self, lab: Lab) -> str:
        """Key of the resulting model: the same for the same corpus and recipe."""
        return content_hash("lab", lab.name, lab.version, asdict(self))[:16]


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Progress of a training."""

    step: int
    tokens: int
    loss: float
    """Weighted loss in nats per assistant token; mean over the steps since the last report."""
    teacher_kl: float
    """Divergence from the teacher at soft targets, in nats; mean over the steps since the last report."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainedLabModel:
    """A trained lab model with its tokenizer."""

    model: "Qwen3ForCausalLM"
    tokenizer: "Tokenizer"
    tokens: int
    """Number of tokens it was trained on."""


def train_lab_model(
    lab: Lab, recipe: Recipe, report: Callable[[TrainingProgress], None] = lambda _: None
) -> TrainedLabModel:
    """Train the lab model from random weights."""
    threads = torch.get_num_threads()
    torch.set_num_threads(recipe.threads)
    try:
        return _train(lab, recipe, report)
    finally:
        torch.set_num_threads(threads)


def _train(lab: Lab, recipe: Recipe, report: Callable[[TrainingProgress], None]) -> TrainedLabModel:
    tokenizer = tokenizer_of(lab.token_pieces())
    student = _student(lab, recipe, tokenizer)
    optimizers = _optimizers(student, recipe)
    encoder = ExampleEncoder(tokenizer, lab.meanings)
    stream = example_batches(lab.examples(recipe.seed), encoder, recipe.scenes, recipe.seed)
    tokens, recent = 0, list[tuple[float, float]]()
    for step in count(1):
        batch = next(stream)
        _set_rates(optimizers, recipe, step, tokens)
        loss = batch_loss(student, batch, recipe.weights)
        loss.total.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), recipe.clip)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        tokens += batch.tokens
        recent.append((loss.total.item(), loss.teacher_kl))
        done = tokens >= recipe.tokens
        if done or step % REPORTED_STEPS == 0:
            losses, teacher_kls = zip(*recent, strict=True)
            report(TrainingProgress(step, tokens, fmean(losses), fmean(teacher_kls)))
            recent.clear()
        if done:
            break
    return TrainedLabModel(student.model.eval(), tokenizer, tokens)


def _student(lab: Lab, recipe: Recipe, tokenizer: "Tokenizer") -> StudentModel:
    model = random_model(qwen_config(recipe.shape, tokenizer), recipe.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return StudentModel(model, len(lab.meanings))


def _optimizers(student: StudentModel, recipe: Recipe) -> list[tuple["Optimizer", float]]:
    """The optimisers, each with its learning rate after the warm-up."""
    matrices = [weight for weight in student.model.model.layers.parameters() if weight.ndim == 2]
    inside = {id(weight) for weight in matrices}
    others = [weight for weight in student.parameters() if id(weight) not in inside]
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
