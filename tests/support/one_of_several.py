"""One of several processes that train together, as `torchrun` starts it. The first one writes the results to a file.

torchrun --nproc-per-node 2 -m tests.support.one_of_several OUT JSON
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from torch.distributed.fsdp import fully_shard

from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import restore_checkpoint, save_checkpoint
from agentlearn.train.weights.model import state_hash
from tests.support.gradients import gradients
from tests.support.tiny_lm import some_rows, tiny_lm, tiny_tokenizer

ROWS = 7


def trained(fields: dict[str, Any], accelerator: Accelerator | None) -> dict[str, Any]:
    """Return gradients over some rows, then the weights and metrics after one call of `step` with them."""
    updater = Updater(tiny_lm(), gradient_arguments(fields), accelerator=accelerator)
    rows = some_rows(ROWS, model=tiny_lm())
    sharded = any(hasattr(one, "full_tensor") for one in updater.model.parameters())
    found = {name: whole(one) for name, one in gradients(updater, rows).items()}
    made = updater.step(rows)
    weights = {name: whole(one.detach()).clone() for name, one in updater.model.named_parameters()}
    return {
        "gradients": found,
        "weights": weights,
        "figures": dict(made.figures),
        "steps": made.steps,
        "sharded": sharded,
    }


def resumed(fields: dict[str, Any], accelerator: Any, folder: Path) -> dict[str, Any]:
    """Return the weights after two steps, and after a step, a checkpoint and another step from the checkpoint.

    Also returns hashes of the weights at the checkpoint: in memory, and in its file.
    """
    rows = some_rows(ROWS, model=tiny_lm())
    arguments = gradient_arguments(fields | {"optimizer": "adamw", "learning_rate": 0.01})
    through = Updater(tiny_lm(), arguments, accelerator=accelerator)
    through.step(rows)
    path = save_checkpoint(folder, through, tiny_tokenizer(), position={"batch": 1})
    in_memory = state_hash({name: whole(one.detach()) for name, one in through.model.named_parameters()})
    through.step(rows)
    again = Updater(tiny_lm(seed=5), arguments, accelerator=accelerator)
    position = restore_checkpoint(path, again).position
    again.step(rows)
    names = {"through": through, "again": again}
    weights = {
        name: {key: whole(one.detach()).clone() for key, one in updater.model.named_parameters()}
        for name, updater in names.items()
    }
    in_file = state_hash(load_file(path / "model.safetensors"))
    return weights | {"position": dict(position), "in_memory": in_memory, "in_file": in_file}


def whole(tensor: Any) -> torch.Tensor:
    """Return the full tensor of one that may be sharded."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


class Sharding:
    """The part of an accelerator that `Updater` uses, with torch's FSDP2, which accelerate offers on GPUs only.

    It uses the process group that an accelerator has created.
    """

    gradient_accumulation_steps = 1

    def __init__(self) -> None:
        self.num_processes = torch.distributed.get_world_size()
        self.process_index = torch.distributed.get_rank()

    def prepare(self, module: Any, optimizer: Any) -> tuple[Any, Any]:
        names = {one: name for name, one in module.named_parameters()}
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (self.num_processes,))
        for layer in module.model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
        sharded = dict(module.named_parameters())
        for group in optimizer.param_groups:
            group["params"] = [sharded[names[one]] for one in group["params"]]
        return module, optimizer

    def unwrap_model(self, module: Any) -> Any:
        return module

    @contextmanager
    def no_sync(self, module: Any) -> Iterator[None]:
        module.set_requires_gradient_sync(False)
        yield
        module.set_requires_gradient_sync(True)

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def clip_grad_norm_(self, parameters: Any, longest: float) -> Any:
        return torch.nn.utils.clip_grad_norm_(parameters, longest)


if __name__ == "__main__":
    out, given = sys.argv[1:]
    engines = {"ddp": Accelerator(cpu=True), "fsdp2": Sharding()}
    fields, folder = json.loads(given), Path(out).parent
    found = {engine: trained(fields, accelerator) for engine, accelerator in engines.items()}
    goes_on = {engine: resumed(fields, accelerator, folder / engine) for engine, accelerator in engines.items()}
    count = torch.distributed.get_world_size()
    if torch.distributed.get_rank() == 0:
        torch.save(found | {"resumed": goes_on, "count": count}, Path(out))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
