"""A causal language model as training uses it: log-probabilities of given tokens in their context.

N positions, K tokens at each, H hidden size, V vocabulary. Logits are computed for a chunk of positions at a time, and
again in the backward pass. Besides inputs, outputs and their gradients (V x H x 4 bytes for the head), this needs
`chunk_tokens` x V x 4 bytes twice, or three times for a model that limits its logits.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import PreTrainedModel

from agentlearn.errors import ConfigError

_HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class HeadLogits:
    """How logits follow from hidden states: softcap . tanh(scale . (hidden . head + bias) / softcap) / temperature."""

    temperature: float = 1.0
    logits_mib: int = 150
    """Memory for logits in MiB, which hold two fp32 copies of the logits of the tokens computed at once."""
    scale: float = 1.0
    softcap: float | None = None
    """Logits stay between -softcap and softcap; None: no limit."""

    def chunk_tokens(self, vocabulary: int) -> int:
        """Number of tokens whose logits fit into the memory twice; at least one."""
        return max(1, self.logits_mib * 2**20 // (2 * 4 * vocabulary))

    def logits(self, hidden_C_H: Tensor, head_V_H: Tensor, bias_V: Tensor | None) -> Tensor:
        """Logits in fp32. On CUDA, a product of 16-bit values is not rounded to 16 bits on the way."""
        if hidden_C_H.is_cuda and hidden_C_H.dtype in _HALF:
            logits = torch.mm(hidden_C_H, head_V_H.T, out_dtype=torch.float32)
        else:
            logits = (hidden_C_H @ head_V_H.T).float()
        if bias_V is not None:
            logits += bias_V
        if self.scale != 1:
            logits *= self.scale
        if self.softcap is not None:
            logits.div_(self.softcap).tanh_().mul_(self.softcap)
        return logits if self.temperature == 1 else logits.div_(self.temperature)

    def slope(self, logits_C_V: Tensor) -> Tensor | float | None:
        """Derivative of the logits by the head's output, without the temperature; None where it is 1."""
        if self.softcap is None:
            return None if self.scale == 1 else self.scale
        return (logits_C_V * (self.temperature / self.softcap)).square_().neg_().add_(1).mul_(self.scale)


PLAIN = HeadLogits()


def token_logprobs(
    hidden_N_H: Tensor, head_V_H: Tensor, bias_V: Tensor | None, targets_N: Tensor, how: HeadLogits = PLAIN
) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each target, in the shape of `targets_N`, and the entropy at its position, (N,).

    targets_N: one token per position, or several: shape (N,) or (N, K). Both results are in nats, fp32, and have a
    gradient. With autocast the product uses its dtype; sums over the vocabulary are always fp32.
    """
    kind, targets_N_K = hidden_N_H.device.type, targets_N if targets_N.ndim == 2 else targets_N.unsqueeze(1)
    hidden_N_H, head_V_H = _in_one_format(hidden_N_H, head_V_H)
    with torch.autocast(kind, enabled=False):
        logprobs_N_K, entropy_N = _TokenLogprobs.apply(hidden_N_H, head_V_H, bias_V, targets_N_K, how)
    return logprobs_N_K.view(targets_N.shape), entropy_N


@torch.no_grad()
def _top_logprobs(
    hidden_N_H: Tensor, head_V_H: Tensor, bias_V: Tensor | None, count: int, how: HeadLogits
) -> tuple[Tensor, Tensor]:
    """Return the likeliest tokens at each position and their log-probabilities, without gradient: shape (N, K) each.

    K is `count`, or the size of a smaller vocabulary. Otherwise as `token_logprobs`.
    """
    kind, count = hidden_N_H.device.type, min(count, head_V_H.shape[0])
    hidden_N_H, head_V_H = _in_one_format(hidden_N_H, head_V_H)
    tokens_N_K = torch.empty(len(hidden_N_H), count, dtype=torch.int64, device=hidden_N_H.device)
    logprobs_N_K = torch.empty(len(hidden_N_H), count, dtype=torch.float32, device=hidden_N_H.device)
    with torch.autocast(kind, enabled=False):
        for part in _chunks(len(hidden_N_H), how.chunk_tokens(head_V_H.shape[0])):
            logits = how.logits(hidden_N_H[part], head_V_H, bias_V)
            highest, tokens_N_K[part] = logits.topk(count, dim=-1)
            logprobs_N_K[part] = highest - logits.logsumexp(-1, keepdim=True)
    return tokens_N_K, logprobs_N_K


def _chunks(length: int, chunk: int) -> list[slice]:
    return [slice(start, start + chunk) for start in range(0, length, chunk)]


def _in_one_format(hidden_N_H: Tensor, head_V_H: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden states and head in the format of their product: that of autocast, else that of the head."""
    kind = hidden_N_H.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else head_V_H.dtype
    return hidden_N_H.to(dtype), head_V_H.to(dtype)


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_N_H: Tensor,
        head_V_H: Tensor,
        bias_V: Tensor | None,
        targets_N_K: Tensor,
        how: HeadLogits,
    ) -> tuple[Tensor, Tensor]:
        logprobs_N_K = torch.empty(targets_N_K.shape, dtype=torch.float32, device=hidden_N_H.device)
        entropy_N = torch.empty(len(targets_N_K), dtype=torch.float32, device=hidden_N_H.device)
        normaliser_N = torch.empty_like(entropy_N)
        for part in _chunks(len(targets_N_K), how.chunk_tokens(head_V_H.shape[0])):
            logits = how.logits(hidden_N_H[part], head_V_H, bias_V)
            highest = logits.amax(-1)
            logits.sub_(highest.unsqueeze(1))
            chosen = logits.gather(1, targets_N_K[part])
            weights = logits.exp()
            total = weights.sum(-1)
            log_total = total.log()
            logprobs_N_K[part] = chosen - log_total.unsqueeze(1)
            # An impossible token has the logit -inf and adds nothing to the entropy.
            entropy_N[part] = log_total - weights.mul_(logits.clamp_(min=-1e30)).sum(-1) / total
            normaliser_N[part] = highest + log_total
            del logits, weights
        ctx.save_for_backward(hidden_N_H, head_V_H, bias_V, targets_N_K, normaliser_N, entropy_N)
        ctx.how = how
        ctx.set_materialize_grads(False)
        return logprobs_N_K, entropy_N

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  torch passes all of it by position
        ctx: Any, *grads: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        hidden_N_H, head_V_H, bias_V, targets_N_K, normaliser_N, entropy_N = ctx.saved_tensors
        how: HeadLogits = ctx.how
        nothing_N_K = torch.zeros_like(targets_N_K, dtype=torch.float32)
        grad_N_K = nothing_N_K if grads[0] is None else grads[0] / how.temperature
        grad_N = grad_N_K.sum(1)
        entropy_grad_N = None if grads[1] is None else grads[1] / how.temperature
        to_hidden = torch.empty_like(hidden_N_H) if ctx.needs_input_grad[0] else None
        # Summed in fp32: adding chunks in bf16 would lose small values.
        to_head = torch.zeros_like(head_V_H, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        to_bias = (
            torch.zeros_like(bias_V, dtype=torch.float32) if bias_V is not None and ctx.needs_input_grad[2] else None
        )
        for part in _chunks(len(targets_N_K), how.chunk_tokens(head_V_H.shape[0])):
            to_logits = how.logits(hidden_N_H[part], head_V_H, bias_V)
            slope = how.slope(to_logits)
            to_logits.sub_(normaliser_N[part].unsqueeze(1))
            if entropy_grad_N is None:
                to_logits.exp_().mul_(-grad_N[part].unsqueeze(1))
            else:
                # The derivative of the entropy H by a logit of log-probability l is -e^l (l + H). An impossible token
                # has the probability 0.
                probs = to_logits.exp()
                to_logits.clamp_(min=-1e30).add_(entropy_N[part].unsqueeze(1))
                to_logits.mul_(-entropy_grad_N[part].unsqueeze(1)).sub_(grad_N[part].unsqueeze(1)).mul_(probs)
                del probs
            to_logits.scatter_add_(1, targets_N_K[part], grad_N_K[part])
            if slope is not None:
                to_logits.mul_(slope)
            if to_bias is not None:
                to_bias += to_logits.sum(0)
            to_logits = to_logits.to(head_V_H.dtype)
            if to_hidden is not None:
                to_hidden[part] = to_logits @ head_V_H
            if to_head is not None:
                hidden_C_H = hidden_N_H[part]
                if to_logits.dtype == torch.float32:
                    to_head.addmm_(to_logits.T, hidden_C_H)
                elif to_logits.is_cuda:
                    to_head += torch.mm(to_logits.T, hidden_C_H, out_dtype=torch.float32)
                else:
                    to_head += to_logits.T @ hidden_C_H
            del to_logits
        return (
            to_hidden,
            None if to_head is None else to_head.to(head_V_H.dtype),
            None if to_bias is None or bias_V is None else to_bias.to(bias_V.dtype),
            None,
            None,
        )


LARGEST = 2e-3
"""Largest difference of a log-probability from that of the whole model in fp32, in nats."""
LARGEST_OF_HALF = 0.2
"""The same limit for 16-bit formats."""


class LogprobModel(nn.Module):
    """Computes layers and head separately, so that the head only sees trained tokens.

    Raises ConfigError for a model whose head is not a linear layer, with or without a scale or a limit of its logits.
    """

    def __init__(self, model: nn.Module, *, temperature: float = 1.0, logits_mib: int = 150) -> None:
        super().__init__()
        self.model = model
        core = core_of(model)
        config, scale = core.config.get_text_config(), 1.0  # what the model does to the output of its head
        for name in ("logit_scale", "lm_head_multiplier"):  # Cohere and Falcon-H1 multiply
            scale *= getattr(config, name, None) or 1.0
        scale /= getattr(config, "logits_scaling", None) or 1.0  # Granite divides
        limits = (getattr(config, name, None) for name in ("final_logit_softcapping", "logits_soft_cap"))
        softcap = next((float(one) for one in limits if one), None)
        self.how = HeadLogits(temperature, logits_mib, scale, softcap)
        head = core.get_output_embeddings()
        if type(head) is not nn.Linear:
            raise _unsupported_head(core, f"its head is a {type(head).__name__}, not a plain linear layer")

    def train(self, mode: bool = True) -> "LogprobModel":
        """Set the mode of all modules. Experts that are chosen with noise in training are chosen as in sampling."""
        super().train(mode)
        for one in self.modules():
            one.training = one.training and not any("jitter" in name for name in vars(one))
        return self

    @property
    def vocabulary(self) -> int:
        """Size of the model's vocabulary."""
        return cast("nn.Linear", core_of(self.model).get_output_embeddings()).weight.shape[0]

    def forward(
        self,
        ids_BT: Tensor,
        places_N: Tensor,
        targets_N: Tensor,
        positions_BT: Tensor | None = None,
        seen_BTT: Tensor | None = None,
        *,
        top: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Log-probability of each target, in the shape of `targets_N`, and entropy at its position, shape (N,).

        places_N: indexes into the flattened B x T. targets_N: one token per position, or K of them, shape (N, K).
        positions_BT: position of each token in its row, where several rows are laid end to end; None: 0 to T - 1.
        seen_BTT: whether a token (first T) sees another one, where rows share a prompt; None: all before it in its row.
        top: instead return the likeliest tokens at each position and their log-probabilities, without gradient; shape
        (N, top) each. The targets do not matter then.
        """
        core = core_of(self.model)
        layers: Any = core.base_model if core.base_model is not core else core.model
        layout = {} if positions_BT is None else {"position_ids": positions_BT}
        if seen_BTT is not None:
            # (B, 1, T, T) numbers that are added to scores, which every attention with masks takes
            mask = torch.zeros(seen_BTT.shape, dtype=core.dtype, device=seen_BTT.device)
            layout["attention_mask"] = mask.masked_fill(~seen_BTT, torch.finfo(core.dtype).min).unsqueeze(1)
        hidden_B_T_H = layers(input_ids=ids_BT, use_cache=False, **layout).last_hidden_state
        hidden_N_H = hidden_B_T_H.flatten(0, 1).index_select(0, places_N)
        head = cast("nn.Linear", core.get_output_embeddings())
        if top is not None:
            return _top_logprobs(hidden_N_H, head.weight, head.bias, top, self.how)
        return token_logprobs(hidden_N_H, head.weight, head.bias, targets_N, self.how)


def check_head(model: nn.Module) -> None:
    """Raise ConfigError unless `LogprobModel` computes the model's own log-probabilities.

    Compares both on a few random tokens, once as in training and once as in sampling.
    """
    core, scorer = core_of(model), LogprobModel(model)
    was_training, device = model.training, device_of(model)
    chance = torch.Generator().manual_seed(0)
    ids_B_T = torch.randint(0, scorer.vocabulary, (1, 12), generator=chance).to(device)
    places_N, targets_N = torch.arange(11, device=device), ids_B_T[0, 1:]
    try:
        with torch.no_grad(), torch.random.fork_rng():
            model.train()
            scorer(ids_B_T, places_N, targets_N)
            model.eval()
            ours_N = scorer(ids_B_T, places_N, targets_N)[0]
            logits = cast("Any", model)(input_ids=ids_B_T, use_cache=False).logits[0, :-1].float()
            theirs_N = logits.log_softmax(-1).gather(1, targets_N[:, None])[:, 0]
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise _unsupported_head(core, " ".join(str(error).split())[:200]) from error
    finally:
        model.train(was_training)
    apart = float((ours_N - theirs_N).abs().max())
    limit = LARGEST if next(model.parameters()).dtype == torch.float32 else LARGEST_OF_HALF
    if not apart <= limit:
        raise _unsupported_head(
            core, f"log-probabilities computed for training differ by {apart:.3g} nats from its own"
        )


def _unsupported_head(core: nn.Module, reason: str) -> ConfigError:
    """Return the error for a model whose log-probabilities cannot be computed in training."""
    return ConfigError(
        f"a {type(core).__name__} cannot be trained here: {reason}; train another model, and leave the head out of"
        " lora_targets"
    )


def core_of(model: nn.Module) -> PreTrainedModel:
    """Return the causal language model inside peft's wrapper, if there is one."""
    inner = getattr(model, "get_base_model", None)
    return cast("PreTrainedModel", inner() if inner is not None else model)


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the model's weights."""
    return next(model.parameters()).device
