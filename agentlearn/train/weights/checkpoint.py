"""Checkpoints: a folder in Hugging Face's format, with what exact resume needs beside it.

A folder `checkpoint-STEP` holds the model (or its adapter) and the tokenizer as transformers and peft read them, and
`training_state.pt`: optimiser, generators of chance, and the position that its caller hands in. It is written under
another name and renamed when it is whole.
"""

import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from agentlearn.errors import ConfigError
from agentlearn.train.distributed.shards import gathered_weights, in_shards, spread_weights
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.model import hash_of, weights_hash
from agentlearn.train.weights.quiet import quiet

STATE = "training_state.pt"
_PREFIX = "checkpoint-"


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a run goes on."""

    step: int
    """Optimiser steps behind it."""
    position: Mapping[str, Any]
    """What was handed to `save_checkpoint`."""


def save_checkpoint(
    folder: Path,
    updater: Updater,
    tokenizer: PreTrainedTokenizerBase,
    *,
    position: Mapping[str, Any] | None = None,
    keep: int | None = None,
) -> Path:
    """Writes `folder/checkpoint-STEP` whole, and drops all but the last `keep`; returns its path.

    Of several processes each calls it, and the first writes; shards are gathered there.
    position: where the data stand, of plain numbers, strings, lists and dicts.
    """
    path = folder / f"{_PREFIX}{updater.steps:06}"
    weights = gathered_weights(updater.model) if in_shards(updater.model) else updater.model.state_dict()
    state = {"updater": updater.state_dict(), "chance": _chance(), "position": dict(position or {})}
    if updater.main:
        _write(path, state | {"weights": hash_of(weights)}, updater.model, weights, tokenizer)
        for old in checkpoints(folder)[:-keep] if keep else ():
            shutil.rmtree(old)
    updater.wait()
    return path


def _write(
    path: Path,
    state: Mapping[str, Any],
    model: nn.Module,
    weights: Mapping[str, Tensor],
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    half = path.with_name(f".{path.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    with quiet():
        cast("PreTrainedModel", model).save_pretrained(half, state_dict=dict(weights))
        tokenizer.save_pretrained(half)
    torch.save(state, half / STATE)
    if path.exists():  # only a folder that is not in place can be written whole
        shutil.rmtree(path)
    half.rename(path)


def checkpoints(folder: Path) -> list[Path]:
    """The whole ones, the oldest first."""
    found = [path for path in folder.glob(f"{_PREFIX}*") if (path / STATE).is_file()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(_PREFIX)))


def resume(path: Path, updater: Updater) -> Resumed:
    """Puts weights, optimiser and generators of chance back to what they were when the checkpoint was written.

    The updater's model is one loaded as before: with the same adapter, of the same shape. Raises ConfigError for a
    folder that is no checkpoint, or of another model.
    """
    try:
        state: dict[str, Any] = torch.load(path / STATE, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise ConfigError(
            f"{str(path)!r} is no checkpoint of a run: it has no {STATE}", code="no_checkpoint"
        ) from error
    _load_weights(path, updater.model)
    if not in_shards(updater.model) and (found := weights_hash(updater.model)) != state["weights"]:
        raise ConfigError(
            f"the weights in {str(path)!r} are not those that were saved there ({found[:12]}, expected "
            f"{state['weights'][:12]}); resume with the model and adapter that the run began with",
            code="other_weights",
        )
    updater.load_state_dict(state["updater"])
    _set_chance(state["chance"])
    return Resumed(step=updater.steps, position=state["position"])


def _load_weights(path: Path, model: nn.Module) -> None:
    from safetensors.torch import load_file

    if (path / "adapter_model.safetensors").is_file():
        from peft import PeftModel, set_peft_model_state_dict

        if not isinstance(model, PeftModel):
            raise ConfigError(
                f"{str(path)!r} holds an adapter, but the model has none; set lora_rank as the run had it",
                code="other_weights",
            )
        if in_shards(model):
            raise ConfigError(
                f"the adapter in {str(path)!r} cannot be put into weights that are in shards already; resume a run "
                "with an adapter on replicas",
                code="sharded_adapter",
            )
        set_peft_model_state_dict(model, load_file(path / "adapter_model.safetensors"))
        return
    parts = sorted(path.glob("model*.safetensors"))
    weights = {name: tensor for part in parts for name, tensor in load_file(part).items()}
    if in_shards(model):
        missing, unexpected = spread_weights(model, weights)
    else:
        missing, unexpected = model.load_state_dict(weights, strict=False)
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    if unexpected or set(missing) - tied:
        raise ConfigError(
            f"{str(path)!r} holds another model's weights ({len(unexpected)} unknown, {len(missing)} missing); "
            "resume with the model that the run began with",
            code="other_weights",
        )


def _chance() -> dict[str, Any]:
    """The states of the generators that anything may draw from, as plain values."""
    version, words, gauss = random.getstate()
    kind, keys, *rest = cast("tuple[Any, ...]", np.random.get_state())
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "python": [version, list(words), gauss],
        "numpy": [kind, torch.from_numpy(keys.astype(np.int64)), *rest],
        "torch": torch.get_rng_state(),
        "cuda": devices,
    }


def _set_chance(state: Mapping[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
