"""A causal language model as training uses it: log-probabilities of given tokens in their context."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from agentlearn.errors import ConfigError
from agentlearn.train.update.logprobs import LogitChange, token_logprobs, top_logprobs

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
        self.change = logit_change(core.config.get_text_config())
        head = core.get_output_embeddings()
        if type(head) is not nn.Linear:
            raise unsupported_head(core, f"its head is a {type(head).__name__}, not a plain linear layer")

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
            layout["attention_mask"] = _attention_mask(core, seen_BTT)
        hidden_B_T_H = layers(input_ids=ids_BT, use_cache=False, **layout).last_hidden_state
        hidden_N_H = hidden_B_T_H.flatten(0, 1).index_select(0, places_N)
        head = cast("nn.Linear", core.get_output_embeddings())
        if top is not None:
            return top_logprobs(
                hidden_N_H,
                head.weight,
                head.bias,
                top,
                temperature=self.temperature,
                logits_mib=self.logits_mib,
                change=self.change,
            )
        return token_logprobs(
            hidden_N_H,
            head.weight,
            head.bias,
            targets_N,
            temperature=self.temperature,
            logits_mib=self.logits_mib,
            change=self.change,
        )


def _attention_mask(core: PreTrainedModel, seen_BTT: Tensor) -> Tensor:
    """The mask (B, 1, T, T) of numbers that are added to scores, which every attention with masks takes."""
    seen = seen_BTT.unsqueeze(1)
    return torch.zeros(seen.shape, dtype=core.dtype, device=seen.device).masked_fill(~seen, torch.finfo(core.dtype).min)


def logit_change(config: Any) -> LogitChange:
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
        raise unsupported_head(core, " ".join(str(error).split())[:200]) from error
    finally:
        model.train(was_training)
    apart = float((ours_N - theirs_N).abs().max())
    limit = LARGEST if next(model.parameters()).dtype == torch.float32 else LARGEST_OF_HALF
    if not apart <= limit:
        raise unsupported_head(core, f"log-probabilities computed for training differ by {apart:.3g} nats from its own")


def unsupported_head(core: nn.Module, reason: str) -> ConfigError:
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
