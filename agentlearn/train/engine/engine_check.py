"""Checking an engine before it samples: its log-probabilities must be those of a plain forward pass.

A config cannot tell everything about a model. So the engine samples a few tokens after prompts of several lengths, and
the same tokens are scored by the model alone, as the trainer scores them. Some models (longrope, as in Phi-3.5) change
the frequencies of all rows when one row of a forward pass is long. They are used only up to the length where that
begins.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from agentlearn.errors import EndpointError
from agentlearn.serving.engine import Sampled, Sampling
from agentlearn.train.engine.attention import AttentionLayout, class_name, unsupported
from agentlearn.train.engine.torch_engine import TorchEngine

LARGEST = 2e-3
"""Largest difference of one token's log-probability in fp32, in nats."""
MEAN_OF_HALF = 0.2
"""Largest mean difference in 16-bit formats, whose rounding depends on the order of sums."""
_LENGTHS, _ANSWER = (3, 11, 37), 4
_LONGEST_WINDOW = 128
"""Prompts are longer than windows up to this size. Longer windows are trusted, because long prompts take time."""


_ROW = 16
"""Number of tokens of the rows that are computed together."""
_CHANGED, _CHANGED_HALF = 1e-3, 0.05
"""Changes of log-probabilities by another row above this are not rounding: the largest in fp32, and the mean in 16-bit
formats, in which experts round by what they compute together."""


def exact_context(model: Any) -> int:
    """Return the largest context in which a row's probabilities do not depend on the longest row of its batch.

    That is the model's own context, or for example the `original_max_position_embeddings` of a longrope model. It is
    found by computing a short row with one at the last positions. Raises ConfigError when the rows of a batch change
    each other in any context.
    """
    config = model.config.get_text_config()
    own = int(config.max_position_embeddings)
    known = {one for one in _originals(config.to_dict()) if 0 < one < own}
    for context in (own, *sorted(known, reverse=True)):
        if not _rows_change_each_other(model, context):
            return context
    raise unsupported(class_name(model), "the rows of a batch change each other's probabilities")


def context_limit(model: Any) -> int | None:
    """Return the context that a server of this model must not exceed, as in `exact_context`; None: its own."""
    config = model.config.get_text_config()
    if not _originals(config.to_dict()):
        return None
    found = exact_context(model)
    return found if found < config.max_position_embeddings else None


def _originals(config: Mapping[str, Any]) -> set[int]:
    """The lengths before an extension of the context that a config names, also those of single kinds of layers."""
    found: set[int] = set()
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= _originals(cast("Mapping[str, Any]", value))
        elif name == "original_max_position_embeddings" and isinstance(value, int | float):
            found.add(int(value))
    return found


def _rows_change_each_other(model: Any, context: int) -> bool:
    """Whether a row at the first positions changes when the other row is at the last positions of the context."""
    length = min(_ROW, context)
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, vocabulary, (2, length))).to(model.device)
    first = torch.arange(length, device=model.device)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            alike, apart = (
                model(input_ids=ids, position_ids=torch.stack([first, first + shift]), use_cache=False)
                .logits[0]
                .float()
                .log_softmax(-1)
                for shift in (0, context - length)
            )
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise unsupported(class_name(model), " ".join(str(error).split())[:200]) from error
    finally:
        model.train(was_training)
    changes = (alike - apart).abs().nan_to_num(0.0)  # a token may be impossible in both
    if next(model.parameters()).dtype == torch.float32:
        return float(changes.max()) > _CHANGED
    return float(changes.mean()) > _CHANGED_HALF


async def check_engine(engine: TorchEngine, model: Any, layout: AttentionLayout) -> None:
    """Raise ConfigError when the engine does not sample from the model's own distribution."""
    prompts = _prompts(model, engine.context, layout)
    try:
        async with asyncio.TaskGroup() as tasks:
            how = [Sampling(seed=at, max_tokens=_ANSWER) for at in range(len(prompts))]
            running = [tasks.create_task(engine.sample(*one)) for one in zip(prompts, how, strict=True)]
        answers = [one.result() for one in running]
        difference = await asyncio.to_thread(_difference, engine, model, prompts, answers)
    except* (EndpointError, RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError) as errors:
        raise unsupported(class_name(model), " ".join(str(_first(errors)).split())[:200]) from errors
    half = next(model.parameters()).dtype != torch.float32
    found, limit = (difference.mean(), MEAN_OF_HALF) if half else (difference.max(), LARGEST)
    if not found <= limit:
        raise unsupported(
            class_name(model),
            f"its log-probabilities of {difference.size} tokens differ by up to {difference.max():.3g} nats from those"
            " of a plain forward pass",
        )


def _prompts(model: Any, context: int, layout: AttentionLayout) -> list[list[int]]:
    """Random prompts of different lengths, always the same."""
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    sizes = [size for size in layout.windows.values() if size is not None and size <= _LONGEST_WINDOW]
    lengths = [*_LENGTHS, *(size + 9 for size in sizes)]
    chance = np.random.default_rng(0)
    return [chance.integers(0, vocabulary, min(one, max(1, context - _ANSWER))).tolist() for one in lengths]


def _difference(
    engine: TorchEngine, model: Any, prompts: Sequence[list[int]], answers: Sequence[Sampled]
) -> NDArray[np.float64]:
    """Difference of each sampled token's log-probability from a plain forward pass. Drops the engine's cache."""
    found: list[float] = []
    with engine.paused(), torch.inference_mode():
        for prompt, answer in zip(prompts, answers, strict=True):
            ids = torch.tensor([[*prompt, *answer.ids]], device=model.device)
            logprobs = model(input_ids=ids, use_cache=False).logits[0].float().log_softmax(-1)
            places = range(len(prompt) - 1, len(prompt) - 1 + len(answer.ids))
            found += [
                float(logprobs[at, token]) - given
                for at, token, given in zip(places, answer.ids, answer.logprobs, strict=True)
            ]
    return np.abs(np.array(found))


def _first(errors: BaseExceptionGroup[Exception]) -> BaseException:
    inner: BaseException = errors
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return inner
