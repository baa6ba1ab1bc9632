"""Packing: the rows of a micro-batch laid end to end in one sequence, without padding.

transformers recognises such a sequence by positions that start again at 0, and lets no token attend to another row. Not
every architecture supports this: some ignore the positions, and recurrent layers carry their state on. So a short
forward pass checks each model.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.utils.generic import is_flash_attention_requested

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.update.logprob_model import LogprobModel, core_of, device_of

_FIRST, _SECOND = 7, 5
"""Numbers of tokens of the two rows of the check."""
_TOLERANCE = {torch.float32: 1e-4}
_HALF_TOLERANCE = 0.1


def packs_rows(scorer: LogprobModel, arguments: GradientArguments, precision: Callable[[], Any]) -> bool:
    """Return whether rows are packed: as set, or by default with flash attention, where it saves time.

    precision: context of a forward pass. False for a model whose weights are in another process, which checks it.
    Raises ConfigError when it is set and would change results.
    """
    if arguments.packing is False:
        return False
    core = core_of(scorer.model)
    if arguments.packing is None and not is_flash_attention_requested(core.config):
        return False
    if any(one.is_meta for one in scorer.parameters()):
        return False
    if is_exact_when_packed(scorer, precision):
        return True
    if arguments.packing is None:
        return False
    raise ConfigError(
        f"packing is true, but {type(core).__name__} does not keep packed rows apart; set packing=false",
        code="cannot_pack",
    )


def is_exact_when_packed(scorer: LogprobModel, precision: Callable[[], Any]) -> bool:
    """Whether a packed row has the result that it has alone, and does not depend on the row before it."""
    device = device_of(scorer)
    positions = torch.cat([torch.arange(_FIRST), torch.arange(_SECOND)])[None].to(device)
    first, other, second = (torch.arange(n, device=device) % 2 for n in (_FIRST, _FIRST + 1, _SECOND))
    modes = [(one, one.training) for one in scorer.modules()]
    try:
        with torch.no_grad(), precision():
            scorer.eval()
            after_first = _states(scorer, torch.cat([first, second])[None], positions)[_FIRST:]
            after_other = _states(scorer, torch.cat([other[1:], second])[None], positions)[_FIRST:]
            alone = _states(scorer, second[None], None)
    except TypeError:  # the model takes no positions
        return False
    finally:
        for one, mode in modes:
            one.training = mode
    bound = _TOLERANCE.get(alone.dtype, _HALF_TOLERANCE) * float(alone.abs().max())
    return torch.equal(after_first, after_other) and float((after_first - alone).abs().max()) <= bound


def _states(scorer: LogprobModel, ids_BT: Tensor, positions_BT: Tensor | None) -> Tensor:
    """Last hidden states of one sequence."""
    layout = {} if positions_BT is None else {"position_ids": positions_BT}
    model: Any = core_of(scorer.model).base_model
    return model(input_ids=ids_BT, use_cache=False, **layout).last_hidden_state[0]
