"""The loss of a batch of training examples: distillation from the teacher, with each shared prefix computed once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor
from torch.nn import Linear, Module
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb

from agentlearn.train.engine.active_batch import cache_argument
from agentlearn.train.lab.example_batches import DialoguePart, ExampleBatch

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM
    from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer


@dataclass(frozen=True, slots=True)
class LossWeights:
    """Weights of the parts of the loss. The field names are part of the key of built models."""

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


class StudentModel(Module):
    """The model in training, with an extra head that predicts a lesson's meaning from the middle layer.

    The extra head is dropped after training.
    """

    def __init__(self, model: "Qwen3ForCausalLM", meanings: int) -> None:
        super().__init__()
        self.model = model
        self.meanings = Linear(model.config.hidden_size, meanings)
        self.middle = (model.config.num_hidden_layers + 1) // 2


@dataclass(frozen=True, slots=True)
class BatchLoss:
    """The loss of a batch, and how far the model is from the teacher."""

    total: Tensor
    """Loss to minimise, in nats per assistant token."""
    teacher_kl: float
    """Mean divergence from the teacher's probabilities at soft targets, in nats."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over one part of a batch."""

    weighted: Tensor
    teacher_kl: Tensor
    soft_targets: int
    attention: Tensor


def batch_loss(student: StudentModel, batch: ExampleBatch, weights: LossWeights) -> BatchLoss:
    """Return the loss of a batch. Its gradient also flows through the prefixes."""
    model = student.model
    cache = DynamicCache()
    read = model.model(
        input_ids=batch.prefix_BP,
        attention_mask=batch.real_BP.long(),
        **{cache_argument(model.model): cache},
        use_cache=True,
        output_hidden_states=True,
    )
    sums = [_part_sums(student, batch, part, cache, weights) for part in batch.parts]
    answer_tokens = sum(int(part.answer_NT.sum()) for part in batch.parts)
    total = torch.stack([one.weighted for one in sums]).sum() / answer_tokens
    soft_targets = sum(one.soft_targets for one in sums)
    follows_BP = batch.real_BP[:, 1:]
    if weights.read and follows_BP.any():
        logits = model.lm_head(read.last_hidden_state[:, :-1][follows_BP])
        total = total + weights.read * cross_entropy(logits, batch.prefix_BP[:, 1:][follows_BP])
    if weights.understood and len(batch.ends_K2):
        behind_KH = read.hidden_states[student.middle][batch.ends_K2[:, 0], batch.ends_K2[:, 1]]
        missed = binary_cross_entropy_with_logits(student.meanings(behind_KH), batch.meanings_KM, reduction="sum")
        total = total + weights.understood * missed / len(batch.ends_K2)
    if weights.looked:
        total = total + weights.looked * torch.stack([one.attention for one in sums]).sum() / max(1, soft_targets)
    teacher_kl = torch.stack([one.teacher_kl for one in sums]).sum() / max(1, soft_targets)
    return BatchLoss(total, float(teacher_kl))


def _part_sums(
    student: StudentModel, batch: ExampleBatch, part: DialoguePart, read: DynamicCache, weights: LossWeights
) -> _Sums:
    real_NP = batch.real_BP[part.example_N]
    length_N1 = real_NP.sum(1, keepdim=True)
    positions_NT = length_N1 + torch.arange(part.ids_NT.shape[1])[None]
    written = student.model.model(
        input_ids=part.ids_NT,
        attention_mask=torch.cat([real_NP, part.real_NT], 1).long(),
        position_ids=positions_NT,
        **{cache_argument(student.model.model): _for_each(read, part.example_N)},
        use_cache=True,
        output_hidden_states=True,
    )
    answer_NT = part.answer_NT[:, 1:]
    logprobs = student.model.lm_head(written.last_hidden_state[:, :-1][answer_NT]).log_softmax(-1)
    shares = part.shares_NTC[:, 1:][answer_NT]
    missed = -(logprobs.gather(1, part.options_NTC[:, 1:][answer_NT]) * shares).sum(1)
    ambiguous = part.ambiguous_NT[:, 1:][answer_NT]
    teacher_kl = missed.detach()[ambiguous].sum() + torch.special.xlogy(shares, shares)[ambiguous].sum()
    attention = _attention_loss(student, batch, part, read, written.hidden_states[student.middle], positions_NT)
    return _Sums((missed * (1 + (weights.doubted - 1) * ambiguous)).sum(), teacher_kl, int(ambiguous.sum()), attention)


def _attention_loss(
    student: StudentModel,
    batch: ExampleBatch,
    part: DialoguePart,
    read: DynamicCache,
    hidden_NTH: Tensor,
    positions_NT: Tensor,
) -> Tensor:
    """Cross-entropy of the first head of the middle layer with the attention targets, summed over soft targets."""
    if not len(part.attending_D2):
        return hidden_NTH.new_zeros(())
    inner = student.model.model
    layer = cast("Qwen3DecoderLayer", inner.layers[student.middle])
    rows_D, places_D = part.attending_D2[:, 0], part.attending_D2[:, 1] - 1  # the position before a token predicts it
    hidden_DH = hidden_NTH[rows_D, places_D]
    attention = layer.self_attn
    query_D1D = attention.q_proj(layer.input_layernorm(hidden_DH)).view(len(rows_D), -1, attention.head_dim)[:, :1]
    turns = inner.rotary_emb(hidden_DH, positions_NT[rows_D, places_D][:, None])
    straight_D11D = attention.q_norm(query_D1D)[:, :, None]
    query_D11D, _ = apply_rotary_pos_emb(straight_D11D, straight_D11D, *turns)
    kept = read.layers[student.middle]
    assert isinstance(kept, DynamicLayer)
    assert kept.keys is not None
    example_D = part.example_N[rows_D]
    scores_DP = (kept.keys[example_D, 0] @ query_D11D[:, 0, 0, :, None])[:, :, 0] * attention.scaling
    scores_DP = scores_DP.masked_fill(~batch.real_BP[example_D], -1e9)
    return cross_entropy(scores_DP, part.attended_DP, reduction="sum")


def _for_each(read: DynamicCache, example_N: Tensor) -> DynamicCache:
    """The prefixes' keys and values, repeated for each dialogue. Gradients flow through them."""
    kept: list[tuple[Tensor, Tensor]] = []
    for layer in read.layers:
        assert isinstance(layer, DynamicLayer)
        assert layer.keys is not None
        assert layer.values is not None
        kept.append((layer.keys[example_N], layer.values[example_N]))
    return DynamicCache(kept)
