"""The loss of a batch of scenes: how badly the assistant's tokens are foretold, each prefix computed once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor
from torch.nn import Linear, Module
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb

from agentlearn.train.lab.conversation_batches import ConversationPart, SceneBatch

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM
    from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer


@dataclass(frozen=True, slots=True)
class LossWeights:
    """What counts how much."""

    doubted: float = 4.0
    """A place where the teacher could have gone on otherwise; any other token of the assistant's counts 1."""
    read: float = 0.2
    """All of what the system says together, beside all of the assistant's. Foretelling lessons teaches their words."""
    understood: float = 0.5
    """What each lesson says, told from halfway up behind its end."""
    looked: float = 0.5
    """That one head, halfway up, looks from a doubtful place behind the lessons that speak of it, else at the start.
    Without this and `understood`, millions of tokens did not teach the model to read lessons."""


class Pupil(Module):
    """The model in training, with a head that it sheds afterwards: from halfway up it names what a lesson says."""

    def __init__(self, model: "Qwen3ForCausalLM", sayings: int) -> None:
        super().__init__()
        self.model = model
        self.sayings = Linear(model.config.hidden_size, sayings)
        self.halfway = model.config.num_hidden_layers // 2


@dataclass(frozen=True, slots=True)
class SceneLoss:
    """How badly a batch is foretold."""

    total: Tensor
    """What is trained, in nats per token of the assistant's."""
    apart: float
    """At doubtful places, how far the model is from the teacher's probabilities: their divergence, in nats."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """Of one part of a batch."""

    weighted: Tensor
    apart: Tensor
    doubted: int
    looked: Tensor


def batch_loss(pupil: Pupil, batch: SceneBatch, weights: LossWeights) -> SceneLoss:
    """The loss of a batch; its gradient reaches the prefixes too."""
    model = pupil.model
    read = model.model(
        input_ids=batch.prefix_BP, attention_mask=batch.real_BP.long(), use_cache=True, output_hidden_states=True
    )
    sums = [_part_sums(pupil, batch, part, read.past_key_values, weights) for part in batch.parts]
    said = sum(int(part.said_NT.sum()) for part in batch.parts)
    total = torch.stack([one.weighted for one in sums]).sum() / said
    doubted = sum(one.doubted for one in sums)
    follows_BP = batch.real_BP[:, 1:]
    if weights.read and follows_BP.any():
        logits = model.lm_head(read.last_hidden_state[:, :-1][follows_BP])
        total = total + weights.read * cross_entropy(logits, batch.prefix_BP[:, 1:][follows_BP])
    if weights.understood and len(batch.ends_K2):
        behind_KH = read.hidden_states[pupil.halfway][batch.ends_K2[:, 0], batch.ends_K2[:, 1]]
        missed = binary_cross_entropy_with_logits(pupil.sayings(behind_KH), batch.sayings_KS, reduction="sum")
        total = total + weights.understood * missed / len(batch.ends_K2)
    if weights.looked:
        total = total + weights.looked * torch.stack([one.looked for one in sums]).sum() / max(1, doubted)
    apart = torch.stack([one.apart for one in sums]).sum() / max(1, doubted)
    return SceneLoss(total, float(apart))


def _part_sums(
    pupil: Pupil, batch: SceneBatch, part: ConversationPart, read: DynamicCache, weights: LossWeights
) -> _Sums:
    real_NP = batch.real_BP[part.scene_N]
    length_N1 = real_NP.sum(1, keepdim=True)
    positions_NT = length_N1 + torch.arange(part.ids_NT.shape[1])[None]
    written = pupil.model.model(
        input_ids=part.ids_NT,
        attention_mask=torch.cat([real_NP, part.real_NT], 1).long(),
        position_ids=positions_NT,
        past_key_values=_for_each(read, part.scene_N),
        use_cache=True,
        output_hidden_states=True,
    )
    said_NT = part.said_NT[:, 1:]
    logprobs = pupil.model.lm_head(written.last_hidden_state[:, :-1][said_NT]).log_softmax(-1)
    shares = part.shares_NTC[:, 1:][said_NT]
    missed = -(logprobs.gather(1, part.options_NTC[:, 1:][said_NT]) * shares).sum(1)
    doubted = part.doubted_NT[:, 1:][said_NT]
    apart = missed.detach()[doubted].sum() + torch.special.xlogy(shares, shares)[doubted].sum()
    looked = _looked(pupil, batch, part, read, written.hidden_states[pupil.halfway], positions_NT)
    return _Sums((missed * (1 + (weights.doubted - 1) * doubted)).sum(), apart, int(doubted.sum()), looked)


def _looked(
    pupil: Pupil,
    batch: SceneBatch,
    part: ConversationPart,
    read: DynamicCache,
    hidden_NTH: Tensor,
    positions_NT: Tensor,
) -> Tensor:
    """How badly the first head halfway up foretells where to look, summed over the part's doubts."""
    if not len(part.looks_D2):
        return hidden_NTH.new_zeros(())
    inner = pupil.model.model
    layer = cast("Qwen3DecoderLayer", inner.layers[pupil.halfway])
    rows_D, places_D = part.looks_D2[:, 0], part.looks_D2[:, 1] - 1  # a token is decided on at the one before it
    hidden_DH = hidden_NTH[rows_D, places_D]
    attention = layer.self_attn
    query_D1D = attention.q_proj(layer.input_layernorm(hidden_DH)).view(len(rows_D), -1, attention.head_dim)[:, :1]
    turns = inner.rotary_emb(hidden_DH, positions_NT[rows_D, places_D][:, None])
    straight_D11D = attention.q_norm(query_D1D)[:, :, None]
    query_D11D, _ = apply_rotary_pos_emb(straight_D11D, straight_D11D, *turns)
    kept = read.layers[pupil.halfway]
    assert isinstance(kept, DynamicLayer)
    assert kept.keys is not None
    scene_D = part.scene_N[rows_D]
    scores_DP = (kept.keys[scene_D, 0] @ query_D11D[:, 0, 0, :, None])[:, :, 0] * attention.scaling
    scores_DP = scores_DP.masked_fill(~batch.real_BP[scene_D], -1e9)
    return cross_entropy(scores_DP, part.aims_DP, reduction="sum")


def _for_each(read: DynamicCache, scene_N: Tensor) -> DynamicCache:
    """What was read of the prefixes, once for each conversation. The gradient goes through it."""
    kept: list[tuple[Tensor, Tensor]] = []
    for layer in read.layers:
        assert isinstance(layer, DynamicLayer)
        assert layer.keys is not None
        assert layer.values is not None
        kept.append((layer.keys[scene_N], layer.values[scene_N]))
    return DynamicCache(kept)
