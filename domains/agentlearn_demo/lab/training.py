"""Training a lab model from random weights, with a budget of tokens: distillation from the teacher of the corpus.

The result is a checkpoint in Hugging Face format, and the small files that are shipped. Both hold the same numbers,
because the weights are first rounded to half precision.

The same seed gives the same bits. Axes: N rows, each the system message and one dialogue; T tokens; A answer tokens; C
options of a token; S soft targets; H hidden; K lessons; M meanings.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count, islice
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import Linear, Module
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.optim import AdamW, Muon
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb

from agentlearn.errors import ConfigError
from agentlearn.sandbox.python_tool import TOOL
from agentlearn.serving import chat_request as chatml
from agentlearn.serving.chat_request import Message
from agentlearn.train.weights.loading import no_progress_bars
from agentlearn.types.ids import content_hash
from agentlearn_demo.lab.corpus import MEANINGS, CorpusDialogue, TrainingExample, examples
from agentlearn_demo.lab.transformer import CARD, SHIPPED, TOKENIZER, WEIGHTS, read_weights

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

    from agentlearn_demo.lab import MathLab

PAD = "<|endoftext|>"
REPORTED_STEPS = 50
BUFFER = 64
"""Number of examples that are sorted by length, so that those of a batch are similar."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of the model: a small Qwen3. The field names of the next three classes are part of a built model's key."""

    hidden: int = 112
    layers: int = 5
    heads: int = 4
    groups: int = 2
    """Number of key and value heads."""
    head: int = 32
    """Size of each head."""
    inner: int = 168
    """Width of the feed-forward layers."""
    context: int = 4_096
    tied: bool = False
    """Whether the output weights are tied to the embeddings. Many engines do not update a tied head at runtime."""

    def random_model(self, tokenizer: Tokenizer, seed: int) -> Qwen3ForCausalLM:
        """Return a model with random weights, the same for the same seed."""
        config = Qwen3Config(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=self.hidden,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.groups,
            head_dim=self.head,
            max_position_embeddings=self.context,
            tie_word_embeddings=self.tied,
            pad_token_id=tokenizer.token_to_id(PAD),
            eos_token_id=tokenizer.token_to_id(chatml.END),
            bos_token_id=None,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Qwen3ForCausalLM(config).float()


@dataclass(frozen=True, slots=True)
class _LossWeights:
    """Weights of the parts of the loss."""

    doubted: float = 4.0
    """Weight of a soft target. Other assistant tokens have weight 1."""
    read: float = 0.2
    """Weight of predicting the system message, which teaches the words of lessons."""
    understood: float = 0.5
    """Weight of predicting the meaning of each lesson from the middle layer at the lesson's end."""
    looked: float = 0.5
    """Weight of the attention loss: one head of the middle layer must attend from a soft target to the ends of the
    relevant lessons, or to the start if there are none. Without this and `understood`, millions of tokens did not teach
    the model to use lessons."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything besides the corpus that determines the weights."""

    tokens: int = 7_800_000
    """Number of tokens to train on; a system message counts once per example."""
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
    weights: _LossWeights = field(default_factory=_LossWeights)

    def key(self, name: str, version: str) -> str:
        """Key of the resulting model: the same for the same corpus and recipe."""
        return content_hash("lab", name, version, asdict(self))[:16]

    def is_built(self, lab: "MathLab", folder: Path) -> bool:
        """Whether the folder holds a model built from the same corpus and recipe."""
        try:
            card = json.loads((folder / SHIPPED / CARD).read_text(encoding="utf-8"))
            return card["key"] == self.key(lab.name, lab.version)
        except (OSError, ValueError, LookupError, TypeError):
            return False


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
class _Row:
    """One dialogue behind its system message, as tokens."""

    ids: list[int]
    answers: list[tuple[int, list[tuple[int, float]]]]
    """Each position that the assistant wrote, and the possible tokens there with the teacher's probabilities."""
    soft: list[tuple[int, list[int]]]
    """Position of each soft target, and the positions to attend to from it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Encoded:
    """A training example as tokens."""

    rows: list[_Row]
    prefix: int
    """Number of tokens of the system message, with which every row begins."""
    ends: list[tuple[int, list[int]]]
    """Position of the end of each lesson, and the indexes of its meanings."""

    @property
    def tokens(self) -> int:
        """Number of tokens, with the system message counted once."""
        return self.prefix + sum(len(row.ids) - self.prefix for row in self.rows)


class _ExampleEncoder:
    """Encodes training examples as tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._texts = [tokenizer.decode([token]) for token in range(tokenizer.get_vocab_size())]
        self._tokens = {text: token for token, text in enumerate(self._texts)}

    def encode(self, example: TrainingExample) -> _Encoded:
        """Return the example as tokens."""
        opening = chatml.system_text([Message("system", example.system)], (TOOL,))
        prefix, start = self._tokenizer.encode(opening), opening.index(example.system)
        places: list[int] = [prefix.char_to_token(start + end) or 0 for end, _ in example.lessons]
        meanings = [[MEANINGS.index(one) for one in said] for _, said in example.lessons]
        rows = [self._row(prefix.ids, dialogue, places) for dialogue in example.dialogues]
        return _Encoded(rows, len(prefix.ids), list(zip(places, meanings, strict=True)))

    def _row(self, prefix: list[int], dialogue: CorpusDialogue, places: list[int]) -> _Row:
        ids = list(prefix)
        written: dict[int, list[tuple[int, float]]] = {}
        for message in dialogue.messages:
            head, tail = f"{chatml.START}{message.role}\n", "\n"
            for text, speaks in ((head, False), (message.written() + chatml.END, True), (tail, False)):
                for token in self._tokenizer.encode(text).ids:
                    if speaks and message.role == "assistant":
                        written[len(ids)] = [(token, 1.0)]
                    ids.append(token)
        soft: list[tuple[int, list[int]]] = []
        at = len(prefix)
        for target in dialogue.soft_targets:
            for place in range(at, len(ids)):
                text = self._texts[ids[place]]
                said = next((words for words, _ in target.options if text.endswith(words)), None)
                if said is None:
                    continue
                at, before = place + 1, text.removesuffix(said)
                options = [(self._tokens.get(before + words), share) for words, share in target.options]
                known = [(token, share) for token, share in options if token is not None]
                if len(known) == len(options):  # else an option is not a single token
                    written[place] = known
                    soft.append((place, [places[one] for one in target.lessons] or [0]))
                break
        return _Row(ids, list(written.items()), soft)

    def batches(self, recipe: Recipe) -> Iterator[list[_Encoded]]:
        """Yield batches of examples of similar length without end."""
        stream, rng = examples(recipe.seed), Random(f"lab batches {recipe.seed}")
        while True:
            buffered = sorted(map(self.encode, islice(stream, BUFFER)), key=lambda one: one.prefix)
            taken = [buffered[at : at + recipe.scenes] for at in range(0, BUFFER, recipe.scenes)]
            rng.shuffle(taken)
            yield from taken


class _StudentModel(Module):
    """The model in training, with an extra head that predicts a lesson's meaning from the middle layer.

    The extra head is dropped after training.
    """

    def __init__(self, model: Qwen3ForCausalLM) -> None:
        super().__init__()
        self.model = model
        self.meanings = Linear(model.config.hidden_size, len(MEANINGS))
        self.middle = (model.config.num_hidden_layers + 1) // 2


def _batch_loss(student: _StudentModel, batch: Sequence[_Encoded], weights: _LossWeights) -> tuple[Tensor, float]:
    """Return the loss to minimise, in nats per assistant token, and the divergence from the teacher at soft targets."""
    rows = [row for one in batch for row in one.rows]
    ids_NT = pad_sequence([torch.tensor(row.ids) for row in rows], batch_first=True)
    real_NT = pad_sequence([torch.ones(len(row.ids), dtype=torch.long) for row in rows], batch_first=True)
    out = student.model.model(input_ids=ids_NT, attention_mask=real_NT, output_hidden_states=True)
    middle_NTH = out.hidden_states[student.middle]
    answers = [(at, place, options) for at, row in enumerate(rows) for place, options in row.answers]
    rows_A, places_A = torch.tensor([one[0] for one in answers]), torch.tensor([one[1] for one in answers])
    options_AC = pad_sequence([torch.tensor([token for token, _ in one[2]]) for one in answers], batch_first=True)
    shares_AC = pad_sequence([torch.tensor([share for _, share in one[2]]) for one in answers], batch_first=True)
    soft_A = torch.tensor([len(one[2]) > 1 for one in answers])
    # The position before a token predicts it.
    logprobs = student.model.lm_head(out.last_hidden_state[rows_A, places_A - 1]).log_softmax(-1)
    missed_A = -(logprobs.gather(1, options_AC) * shares_AC).sum(1)
    total = (missed_A * (1 + (weights.doubted - 1) * soft_A)).sum() / len(answers)
    entropies_A = -torch.special.xlogy(shares_AC, shares_AC).sum(1)
    soft_targets = max(1, int(soft_A.sum()))
    teacher_kl = float((missed_A.detach() - entropies_A)[soft_A].sum()) / soft_targets

    firsts = [sum(len(one.rows) for one in batch[:at]) for at in range(len(batch))]
    if weights.read:
        hidden = [out.last_hidden_state[at, : one.prefix - 1] for at, one in zip(firsts, batch, strict=True)]
        follows = [ids_NT[at, 1 : one.prefix] for at, one in zip(firsts, batch, strict=True)]
        total = total + weights.read * cross_entropy(student.model.lm_head(torch.cat(hidden)), torch.cat(follows))
    ends = [(at, place, said) for at, one in zip(firsts, batch, strict=True) for place, said in one.ends]
    if weights.understood and ends:
        behind_KH = middle_NTH[[at for at, _, _ in ends], [place for _, place, _ in ends]]
        meanings_KM = torch.zeros(len(ends), len(MEANINGS))
        for row, (_, _, said) in enumerate(ends):
            meanings_KM[row, said] = 1
        unclear = binary_cross_entropy_with_logits(student.meanings(behind_KH), meanings_KM, reduction="sum")
        total = total + weights.understood * unclear / len(ends)
    if weights.looked and soft_A.any():
        prefixes = [one.prefix for one in batch for _ in one.rows]
        total = total + weights.looked * _attention_loss(student, rows, prefixes, middle_NTH) / soft_targets
    return total, teacher_kl


def _attention_loss(
    student: _StudentModel, rows: Sequence[_Row], prefixes: Sequence[int], middle_NTH: Tensor
) -> Tensor:
    """Cross-entropy of the first head of the middle layer with the positions to attend to, summed over soft targets."""
    inner = student.model.model
    layer = cast("Qwen3DecoderLayer", inner.layers[student.middle])
    attention, normed = layer.self_attn, layer.input_layernorm(middle_NTH)
    shape = (*normed.shape[:2], -1, attention.head_dim)
    queries = attention.q_norm(attention.q_proj(normed).view(shape)[:, :, :1]).transpose(1, 2)
    keys = attention.k_norm(attention.k_proj(normed).view(shape)[:, :, :1]).transpose(1, 2)
    turns = inner.rotary_emb(middle_NTH, torch.arange(shape[1])[None])
    queries, keys = apply_rotary_pos_emb(queries, keys, *turns)
    targets = [(at, place, ends) for at, row in enumerate(rows) for place, ends in row.soft]
    rows_S = [at for at, _, _ in targets]
    queries_SD = queries[rows_S, 0, [place - 1 for _, place, _ in targets]]
    scores_ST = (keys[rows_S, 0] @ queries_SD[:, :, None])[:, :, 0] * attention.scaling
    limits_S = torch.tensor([prefixes[at] for at in rows_S])
    scores_ST = scores_ST.masked_fill(torch.arange(shape[1])[None] >= limits_S[:, None], -1e9)
    attended_ST = torch.zeros_like(scores_ST)
    for row, (_, _, ends) in enumerate(targets):
        attended_ST[row, ends] = 1 / len(ends)
    return cross_entropy(scores_ST, attended_ST, reduction="sum")


def _train(
    model: Qwen3ForCausalLM, tokenizer: Tokenizer, recipe: Recipe, report: Callable[[TrainingProgress], None]
) -> int:
    """Train a model with random weights; returns the number of tokens that it was trained on."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        student = _StudentModel(model)
    matrices = [weight for weight in model.model.layers.parameters() if weight.ndim == 2]
    inside = {id(weight) for weight in matrices}
    others = [weight for weight in student.parameters() if id(weight) not in inside]
    optimizers: list[tuple[Optimizer, float]] = [
        (Muon(matrices, weight_decay=recipe.decay, adjust_lr_fn="match_rms_adamw"), recipe.matrix_rate),
        (AdamW(others, betas=(0.9, 0.95), weight_decay=recipe.decay), recipe.other_rate),
    ]
    stream = _ExampleEncoder(tokenizer).batches(recipe)
    tokens, recent = 0, list[tuple[float, float]]()
    for step in count(1):
        batch = next(stream)
        left = max(0.0, 1 - tokens / recipe.tokens)
        factor = min(1.0, step / recipe.warmup_steps, left / recipe.cooling)
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
        loss, teacher_kl = _batch_loss(student, batch, recipe.weights)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), recipe.clip)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        tokens += sum(one.tokens for one in batch)
        recent.append((loss.item(), teacher_kl))
        if tokens >= recipe.tokens or step % REPORTED_STEPS == 0:
            losses, teacher_kls = zip(*recent, strict=True)
            report(TrainingProgress(step, tokens, fmean(losses), fmean(teacher_kls)))
            recent.clear()
        if tokens >= recipe.tokens:
            return tokens
    raise AssertionError("unreachable")


def build_lab_model(lab: "MathLab", recipe: Recipe, folder: Path, report: Callable[[TrainingProgress], None]) -> None:
    """Train the lab model with the shipped tokenizer, and write its checkpoint, with the files to ship in `shipped`.

    Raises ConfigError for a folder that holds anything but such a checkpoint.
    """
    tokenizer = _prepare(lab, folder)
    model = recipe.shape.random_model(tokenizer, recipe.seed)
    threads = torch.get_num_threads()
    torch.set_num_threads(recipe.threads)
    try:
        tokens = _train(model, tokenizer, recipe, report)
    finally:
        torch.set_num_threads(threads)
        model.eval()
    card: dict[str, Any] = {
        "name": lab.name,
        "corpus": lab.version,
        "key": recipe.key(lab.name, lab.version),
        "recipe": asdict(recipe),
        "tokens": tokens,
        "command": f"agentlearn lab build {lab.name} --tokens {recipe.tokens} --seed {recipe.seed}",
    }
    _save_lab_model(model, tokenizer, folder, card)


def export_lab_model(lab: "MathLab", folder: Path) -> None:
    """Write the shipped weights as a checkpoint in Hugging Face format.

    Raises ConfigError for a folder that holds anything but such a checkpoint.
    """
    tokenizer = _prepare(lab, folder)
    layout, weights, card = read_weights(lab.folder, lab.name)
    sizes = {name: size for name, size in asdict(layout).items() if name in ModelShape.__dataclass_fields__}
    shape = ModelShape(**sizes, tied="lm_head.weight" not in weights)
    model = shape.random_model(tokenizer, 0)
    named = {name: torch.from_numpy(np.asarray(weight, np.float32)) for name, weight in weights.items()}
    model.load_state_dict(named, strict=not shape.tied)
    _save_lab_model(model.eval(), tokenizer, folder, card)


def _prepare(lab: "MathLab", folder: Path) -> Tokenizer:
    """Return the shipped tokenizer. Raises ConfigError for a folder that holds others."""
    empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not empty and not (folder / CARD).is_file() and not (folder / SHIPPED / CARD).is_file():
        raise ConfigError(
            f"{str(folder)!r} exists and holds no checkpoint of agentlearn; give a new folder", code="exists"
        )
    return Tokenizer.from_file(str(lab.folder / TOKENIZER))


def _save_lab_model(model: Qwen3ForCausalLM, tokenizer: Tokenizer, folder: Path, card: dict[str, Any]) -> None:
    """Write the checkpoint. card: how the model was trained; shape and hashes are added to it."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.half().float())
    config, shipped = model.config, folder / SHIPPED
    shipped.mkdir(parents=True, exist_ok=True)
    with no_progress_bars():
        model.save_pretrained(folder)
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            eos_token=chatml.END,
            pad_token=PAD,
            chat_template=chatml.TEMPLATE,
            model_max_length=config.max_position_embeddings,
            clean_up_tokenization_spaces=False,
        ).save_pretrained(folder)
    named: dict[str, Any] = {name: weight.detach().half().numpy() for name, weight in model.named_parameters()}
    np.savez(shipped / WEIGHTS, **named)
    tokenizer.save(str(shipped / TOKENIZER), pretty=False)
    assert config.rope_parameters is not None
    layout = {
        "vocabulary": config.vocab_size,
        "hidden": config.hidden_size,
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "groups": config.num_key_value_heads,
        "head": config.head_dim,
        "inner": config.intermediate_size,
        "context": config.max_position_embeddings,
        "theta": float(config.rope_parameters.get("rope_theta", 0.0) or 0.0),
        "epsilon": config.rms_norm_eps,
    }
    hashes = {file: hashlib.sha256((shipped / file).read_bytes()).hexdigest() for file in (WEIGHTS, TOKENIZER)}
    whole = {**card, "layout": layout, "sha256": hashes}
    (shipped / CARD).write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
