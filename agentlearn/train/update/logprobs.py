"""Log-probabilities of chosen tokens from hidden states, without ever holding all logits.

N tokens, H hidden size, V vocabulary. Logits are computed for a chunk of tokens at a time, and again in the backward
pass. Besides inputs, outputs and their gradients (V x H x 4 bytes for the head), this needs `chunk_tokens` x V x 4
bytes twice.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_HALF = (torch.bfloat16, torch.float16)


def token_logprobs(
    hidden_N_H: Tensor,
    head_V_H: Tensor,
    bias_V: Tensor | None,
    targets_N: Tensor,
    *,
    temperature: float = 1.0,
    logits_mib: int = 150,
) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each target and the entropy at its position in nats: shape (N,) each, fp32.

    logits = (hidden . head + bias) / temperature. The entropy has no gradient. With autocast the product uses its
    dtype; sums over the vocabulary are always fp32.
    """
    kind = hidden_N_H.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        hidden_N_H, head_V_H = hidden_N_H.to(dtype), head_V_H.to(dtype)
    hidden_N_H = hidden_N_H.to(head_V_H.dtype)
    chunk = chunk_tokens(head_V_H.shape[0], logits_mib)
    with torch.autocast(kind, enabled=False):
        logprobs_N, entropy_N = _TokenLogprobs.apply(hidden_N_H, head_V_H, bias_V, targets_N, temperature, chunk)
    return logprobs_N, entropy_N


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
        targets_N: Tensor,
        temperature: float,
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        logprobs_N = torch.empty(len(targets_N), dtype=torch.float32, device=hidden_N_H.device)
        entropy_N, normaliser_N = torch.empty_like(logprobs_N), torch.empty_like(logprobs_N)
        for start in range(0, len(targets_N), chunk):
            part = slice(start, start + chunk)
            logits = _logits(hidden_N_H[part], head_V_H, bias_V, temperature)
            highest = logits.amax(-1)
            logits.sub_(highest.unsqueeze(1))
            chosen = logits.gather(1, targets_N[part].unsqueeze(1)).squeeze(1)
            weights = logits.exp()
            total = weights.sum(-1)
            log_total = total.log()
            logprobs_N[part] = chosen - log_total
            # An impossible token has the logit -inf and adds nothing to the entropy.
            entropy_N[part] = log_total - weights.mul_(logits.clamp_(min=-1e30)).sum(-1) / total
            normaliser_N[part] = highest + log_total
            del logits, weights
        ctx.save_for_backward(hidden_N_H, head_V_H, bias_V, targets_N, normaliser_N)
        ctx.temperature, ctx.chunk = temperature, chunk
        ctx.mark_non_differentiable(entropy_N)
        return logprobs_N, entropy_N

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  torch passes all of it by position
        ctx: Any, *grads: Tensor
    ) -> tuple[Tensor | None, ...]:
        hidden_N_H, head_V_H, bias_V, targets_N, normaliser_N = ctx.saved_tensors
        grad_N = grads[0] / ctx.temperature
        to_hidden = torch.empty_like(hidden_N_H) if ctx.needs_input_grad[0] else None
        # Summed in fp32: adding chunks in bf16 would lose small values.
        to_head = torch.zeros_like(head_V_H, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        to_bias = (
            torch.zeros_like(bias_V, dtype=torch.float32) if bias_V is not None and ctx.needs_input_grad[2] else None
        )
        for start in range(0, len(targets_N), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            to_logits = _logits(hidden_N_H[part], head_V_H, bias_V, ctx.temperature)
            to_logits.sub_(normaliser_N[part].unsqueeze(1)).exp_().mul_(-grad_N[part].unsqueeze(1))
            to_logits.scatter_add_(1, targets_N[part].unsqueeze(1), grad_N[part].unsqueeze(1))
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
        )


def _logits(hidden_C_H: Tensor, head_V_H: Tensor, bias_V: Tensor | None, temperature: float) -> Tensor:
    """Logits in fp32. On CUDA, a product of 16-bit values is not rounded to 16 bits on the way."""
    if hidden_C_H.is_cuda and hidden_C_H.dtype in _HALF:
        logits = torch.mm(hidden_C_H, head_V_H.T, out_dtype=torch.float32)
    else:
        logits = (hidden_C_H @ head_V_H.T).float()
    if bias_V is not None:
        logits += bias_V
    return logits if temperature == 1 else logits.div_(temperature)


def _add_product(sum_V_H: Tensor, left_V_C: Tensor, right_C_H: Tensor) -> None:
    """Add left . right to the sum, which is fp32."""
    if left_V_C.dtype == torch.float32:
        sum_V_H.addmm_(left_V_C, right_C_H)
    elif left_V_C.is_cuda:
        sum_V_H += torch.mm(left_V_C, right_C_H, out_dtype=torch.float32)
    else:
        sum_V_H += left_V_C @ right_C_H
