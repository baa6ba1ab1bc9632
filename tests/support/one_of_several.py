"""One of several processes that train together, as `torchrun` starts it. The first one writes the results to a file.

torchrun --nproc-per-node 2 -m tests.support.one_of_several OUT JSON
"""

import json
import sys
from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors.torch import load_file

from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.distributed.sharding import ShardingAccelerator, gather_model, layout_of
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore
from agentlearn.train.weights.model import state_hash, weights_hash, with_adapter
from tests.support.gradients import gradients
from tests.support.tiny_lm import some_rows, tiny_lm, tiny_tokenizer

ROWS = 7


def trained(fields: dict[str, Any], accelerator: Any) -> dict[str, Any]:
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
    path = CheckpointStore(folder, folder, tiny_tokenizer()).save(through, 1)
    in_memory = state_hash({name: whole(one.detach()) for name, one in through.model.named_parameters()})
    through.step(rows)
    again = Updater(tiny_lm(seed=5), arguments, accelerator=accelerator)
    position = CheckpointStore.restore(again, path)
    again.step(rows)
    names = {"through": through, "again": again}
    weights = {
        name: {key: whole(one.detach()).clone() for key, one in updater.model.named_parameters()}
        for name, updater in names.items()
    }
    in_file = state_hash(load_file(path / "model.safetensors"))
    return weights | {"position": position, "in_memory": in_memory, "in_file": in_file}


def sharded(kind: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return facts about a model that only the first process has read, sharded, trained and resumed.

    kind: arguments of the update, with `tied` for a model whose head is its embedding.
    """
    fields = {name: value for name, value in kind.items() if name != "tied"}
    arguments = gradient_arguments({"learning_rate": 0.01, **fields})
    main = torch.distributed.get_rank() == 0
    rows = some_rows(ROWS, model=tiny_lm())

    def begun() -> Updater:
        model: Any = tiny_lm(tie_word_embeddings=kind.get("tied", False))
        model = model if arguments.master_weights else model.bfloat16()
        model = with_adapter(model, arguments) if arguments.lora_rank else model
        return Updater(model if main else layout_of(model), arguments, accelerator=sharding(kind))

    through = begun()
    start = weights_hash(through.model)
    alone = with_adapter(tiny_lm(), arguments) if arguments.lora_rank else tiny_lm(tie_word_embeddings="tied" in kind)
    alone = alone if arguments.master_weights else alone.bfloat16()
    planned = through.memory.rows
    held = sum(one.to_local().numel() for one in through.model.parameters())
    through.step(rows)
    copy = gather_model(through.model)
    path = CheckpointStore(folder, folder, tiny_tokenizer()).save(through, 0)
    after_one = weights_hash(through.model)
    through.step(rows)
    again = begun()
    CheckpointStore.restore(again, path)
    restored = weights_hash(again.model)
    again.step(rows)
    return {
        "start": [start, weights_hash(alone)],
        "copy": [after_one, weights_hash(copy) if copy is not None else ""],
        "restored": [after_one, restored],
        "end": [weights_hash(through.model), weights_hash(again.model)],
        "plans": of_all([through.memory.tokens, *astuple(planned)] if planned else []),
        "moved": start != after_one,
        "held": held / sum(one.numel() for one in alone.parameters()),
        "files": sorted(file.name for file in path.iterdir()),
        "tied": kind.get("tied", False) and copy is not None and copy.lm_head.weight is copy.model.embed_tokens.weight,
    }


def of_all(value: Any) -> list[Any]:
    """Return this value of every process."""
    found: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, value)
    return found


def sharding(kind: dict[str, Any]) -> ShardingAccelerator:
    """Return what shards weights."""
    return ShardingAccelerator(torch.device("cpu"), bf16=kind.get("dtype") == "bf16")


KINDS: dict[str, dict[str, Any]] = {
    "tied": {"tied": True},
    "adapter": {"lora_rank": 4},
    "bf16": {"dtype": "bf16", "lora_rank": 4},
    "packed": {"packing": True},
    "rounded": {"dtype": "bf16", "master_weights": False},
    "adapter off": {"lora_rank": 4, "kl": "k3", "kl_beta": 0.1, "reference": "adapter_off"},
}


def whole(tensor: Any) -> torch.Tensor:
    """Return the full tensor of one that may be sharded."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


if __name__ == "__main__":
    out, given = sys.argv[1:]
    engines = {"ddp": Accelerator(cpu=True), "fsdp2": ShardingAccelerator(torch.device("cpu"))}
    folder, runs = Path(out).parent, list[dict[str, Any]]()
    for at, fields in enumerate(json.loads(given)):
        found = {engine: trained(fields, accelerator) for engine, accelerator in engines.items()}
        goes_on = {one: resumed(fields, accelerator, folder / f"{one}-{at}") for one, accelerator in engines.items()}
        runs.append(found | {"resumed": goes_on})
    kinds = {name: sharded(kind, folder / name) for name, kind in KINDS.items()}
    count = torch.distributed.get_world_size()
    if torch.distributed.get_rank() == 0:
        torch.save({"runs": runs, "kinds": kinds, "count": count}, Path(out))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
