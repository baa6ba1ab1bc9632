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
class LogitChange:
    """What a model does to the output of its head: logits = softcap . tanh(scale . output / softcap)."""

    scale: float = 1.0
    softcap: float | None = None
    """Logits stay between -softcap and softcap; None: no limit."""


PLAIN = LogitChange()


def token_logprobs(
    hidden_N_H: Tensor,
    head_V_H: Tensor,
    bias_V: Tensor | None,
    targets_N: Tensor,
    *,
    temperature: float = 1.0,
    logits_mib: int = 150,
    change: LogitChange = PLAIN,
) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each target, in the shape of `targets_N`, and the entropy at its position, (N,).

    targets_N: one token per position, or several: shape (N,) or (N, K). logits = change(hidden . head + bias) /
    temperature. Both results are in nats, fp32, and have a gradient. With autocast the product uses its dtype; sums
    over the vocabulary are always fp32.
    """
    kind, (hidden_N_H, head_V_H) = hidden_N_H.device.type, _in_one_format(hidden_N_H, head_V_H)
    chunk = chunk_tokens(head_V_H.shape[0], logits_mib)
    targets_N_K = targets_N if targets_N.ndim == 2 else targets_N.unsqueeze(1)
    with torch.autocast(kind, enabled=False):
        given = (hidden_N_H, head_V_H, bias_V, targets_N_K, temperature, chunk, change)
        logprobs_N_K, entropy_N = _TokenLogprobs.apply(*given)
    return logprobs_N_K.view(targets_N.shape), entropy_N


@torch.no_grad()
def _top_logprobs(
    hidden_N_H: Tensor,
    head_V_H: Tensor,
    bias_V: Tensor | None,
    count: int,
    *,
    temperature: float = 1.0,
    logits_mib: int = 150,
    change: LogitChange = PLAIN,
) -> tuple[Tensor, Tensor]:
    """Return the likeliest tokens at each position and their log-probabilities, without gradient: shape (N, K) each.

    K is `count`, or the size of a smaller vocabulary. Otherwise as `token_logprobs`.
    """
    kind = hidden_N_H.device.type
    hidden_N_H, head_V_H = _in_one_format(hidden_N_H, head_V_H)
    chunk, count = chunk_tokens(head_V_H.shape[0], logits_mib), min(count, head_V_H.shape[0])
    tokens_N_K = torch.empty(len(hidden_N_H), count, dtype=torch.int64, device=hidden_N_H.device)
    logprobs_N_K = torch.empty(len(hidden_N_H), count, dtype=torch.float32, device=hidden_N_H.device)
    with torch.autocast(kind, enabled=False):
        for start in range(0, len(hidden_N_H), chunk):
            part = slice(start, start + chunk)
            logits = _logits(hidden_N_H[part], head_V_H, bias_V, temperature, change)
            highest, tokens_N_K[part] = logits.topk(count, dim=-1)
            logprobs_N_K[part] = highest - logits.logsumexp(-1, keepdim=True)
    return tokens_N_K, logprobs_N_K


def _in_one_format(hidden_N_H: Tensor, head_V_H: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden states and head in the format of their product: that of autocast, else that of the head."""
    kind = hidden_N_H.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else head_V_H.dtype
    return hidden_N_H.to(dtype), head_V_H.to(dtype)


def chunk_tokens(vocabulary: int, logits_mib: int) -> int:
    """Number of tokens whose logits fit into the memory twice; at least one."""
    return max(1, logits_mib * 2**20 // (2 * 4 * vocabulary))


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_N_H: Tensor,
        head_V_H: Tensor,
        bias_V: Tensor | None,
        targets_N_K: Tensor,
        temperature: float,
        chunk: int,
        change: LogitChange,
    ) -> tuple[Tensor, Tensor]:
        logprobs_N_K = torch.empty(targets_N_K.shape, dtype=torch.float32, device=hidden_N_H.device)
        entropy_N = torch.empty(len(targets_N_K), dtype=torch.float32, device=hidden_N_H.device)
        normaliser_N = torch.empty_like(entropy_N)
        for start in range(0, len(targets_N_K), chunk):
            part = slice(start, start + chunk)
            logits = _logits(hidden_N_H[part], head_V_H, bias_V, temperature, change)
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
        ctx.temperature, ctx.chunk, ctx.change = temperature, chunk, change
        ctx.set_materialize_grads(False)
        return logprobs_N_K, entropy_N

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  torch passes all of it by position
        ctx: Any, *grads: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        hidden_N_H, head_V_H, bias_V, targets_N_K, normaliser_N, entropy_N = ctx.saved_tensors
        nothing_N_K = torch.zeros_like(targets_N_K, dtype=torch.float32)
        grad_N_K = nothing_N_K if grads[0] is None else grads[0] / ctx.temperature
        grad_N = grad_N_K.sum(1)
        entropy_grad_N = None if grads[1] is None else grads[1] / ctx.temperature
        to_hidden = torch.empty_like(hidden_N_H) if ctx.needs_input_grad[0] else None
        # Summed in fp32: adding chunks in bf16 would lose small values.
        to_head = torch.zeros_like(head_V_H, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        to_bias = (
            torch.zeros_like(bias_V, dtype=torch.float32) if bias_V is not None and ctx.needs_input_grad[2] else None
        )
        for start in range(0, len(targets_N_K), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            to_logits = _logits(hidden_N_H[part], head_V_H, bias_V, ctx.temperature, ctx.change)
            slope = _slope(to_logits, ctx.temperature, ctx.change)
            to_logits.sub_(normaliser_N[part].unsqueeze(1))
            if entropy_grad_N is None:
                to_logits.exp_().mul_(-grad_N[part].unsqueeze(1))
            else:
                probs = to_logits.exp()
                _add_entropy(to_logits, entropy_N[part], grad_N[part], entropy_grad_N[part]).mul_(probs)
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
                _add_product(to_head, to_logits.T, hidden_N_H[part])
            del to_logits
        return (
            to_hidden,
            None if to_head is None else to_head.to(head_V_H.dtype),
            None if to_bias is None or bias_V is None else to_bias.to(bias_V.dtype),
            None,
            None,
            None,
            None,
        )


def _logits(
    hidden_C_H: Tensor, head_V_H: Tensor, bias_V: Tensor | None, temperature: float, change: LogitChange
) -> Tensor:
    """Logits in fp32. On CUDA, a product of 16-bit values is not rounded to 16 bits on the way."""
    if hidden_C_H.is_cuda and hidden_C_H.dtype in _HALF:
        logits = torch.mm(hidden_C_H, head_V_H.T, out_dtype=torch.float32)
    else:
        logits = (hidden_C_H @ head_V_H.T).float()
    if bias_V is not None:
        logits += bias_V
    if change.scale != 1:
        logits *= change.scale
    if change.softcap is not None:
        logits.div_(change.softcap).tanh_().mul_(change.softcap)
    return logits if temperature == 1 else logits.div_(temperature)


def _add_entropy(logprobs_C_V: Tensor, entropy_C: Tensor, grad_C: Tensor, entropy_grad_C: Tensor) -> Tensor:
    """Return the factor of each probability in the gradient of both outputs, in the memory of the log-probabilities.

    The derivative of the entropy H by a logit of log-probability l is -e^l (l + H).
    """
    factor = logprobs_C_V.clamp_(min=-1e30).add_(entropy_C.unsqueeze(1))  # an impossible token has the probability 0
    return factor.mul_(-entropy_grad_C.unsqueeze(1)).sub_(grad_C.unsqueeze(1))


def _slope(logits_C_V: Tensor, temperature: float, change: LogitChange) -> Tensor | float | None:
    """Derivative of the changed logits by the head's output, without the temperature; None where it is 1."""
    if change.softcap is None:
        return None if change.scale == 1 else change.scale
    return (logits_C_V * (temperature / change.softcap)).square_().neg_().add_(1).mul_(change.scale)


def _add_product(sum_V_H: Tensor, left_V_C: Tensor, right_C_H: Tensor) -> None:
    """Add left . right to the sum, which is fp32."""
    if left_V_C.dtype == torch.float32:
        sum_V_H.addmm_(left_V_C, right_C_H)
    elif left_V_C.is_cuda:
        sum_V_H += torch.mm(left_V_C, right_C_H, out_dtype=torch.float32)
    else:
        sum_V_H += left_V_C @ right_C_H


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
        self.temperature = temperature
        self.logits_mib = logits_mib
        core = core_of(model)
        self.change = _logit_change(core.config.get_text_config())
        head = core.get_output_embeddings()
        if type(head) is not nn.Linear:
            raise _unsupported_head(core, f"its head is a {type(head).__name__}, not a plain linear layer")

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
        how: dict[str, Any] = {"temperature": self.temperature, "logits_mib": self.logits_mib, "change": self.change}
        if top is not None:
            return _top_logprobs(hidden_N_H, head.weight, head.bias, top, **how)
        return token_logprobs(hidden_N_H, head.weight, head.bias, targets_N, **how)


def _logit_change(config: Any) -> LogitChange:
    """Return what a model of transformers does to the output of its head, from its config."""
    scale = 1.0
    for name in ("logit_scale", "lm_head_multiplier"):  # Cohere and Falcon-H1 multiply
        scale *= getattr(config, name, None) or 1.0
    scale /= getattr(config, "logits_scaling", None) or 1.0  # Granite divides
    limits = (getattr(config, name, None) for name in ("final_logit_softcapping", "logits_soft_cap"))
    return LogitChange(scale=scale, softcap=next((float(one) for one in limits if one), None))


def check_head(model: nn.Module) -> None:
    """Raise ConfigError unless `LogprobModel` computes the model's own log-probabilities.

    Compares both on a few random tokens, once as in training and once as in sampling.
    """
    core, scorer = core_of(model), LogprobModel(model)
    was_training, device = model.training, device_of(model)
    chance = torch.Generator().manual_seed(0)
    ids_B_T = torch.randint(0, vocabulary_of(model), (1, 12), generator=chance).to(device)
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
        " lora_targets",
        code="unsupported_head",
    )


def core_of(model: nn.Module) -> PreTrainedModel:
    """Return the causal language model inside peft's wrapper, if there is one."""
    inner = getattr(model, "get_base_model", None)
    return cast("PreTrainedModel", inner() if inner is not None else model)


def vocabulary_of(model: nn.Module) -> int:
    """Return the size of the model's vocabulary."""
    return cast("nn.Linear", core_of(model).get_output_embeddings()).weight.shape[0]


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the model's weights."""
    return next(model.parameters()).device
