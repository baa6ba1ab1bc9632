"""Checkpoints of a training run, and the weights it publishes at its end. Both are folders in Hugging Face format.

A folder `checkpoint-STEP` holds the model (or its adapter), the tokenizer and `training_state.pt`: optimiser state,
random generator states, and the caller's position in the data. It is written under another name and renamed when
complete, so that an interrupted write leaves no broken checkpoint.
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
from agentlearn.train.distributed.shards import gather_weights, is_sharded, shard_weights
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.loading import no_progress_bars
from agentlearn.train.weights.model import state_hash, weights_hash

STATE = "training_state.pt"
_PREFIX = "checkpoint-"
_BATCHES = "batches"


@dataclass(frozen=True, slots=True)
class RestoredPosition:
    """Where a resumed run continues."""

    step: int
    """Optimiser steps made before the checkpoint."""
    position: Mapping[str, Any]
    """Position in the data, as passed to `save_checkpoint`."""


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointStore:
    """The checkpoints and the published weights of one run. All methods block."""

    folder: Path
    """Folder of the checkpoints."""
    out: Path
    """Folder of the published weights."""
    tokenizer: PreTrainedTokenizerBase
    keep: int = 2
    """Number of checkpoints to keep."""

    def save(self, updater: Updater, batches: int) -> Path:
        """Save the state after this number of batches; returns its folder."""
        return save_checkpoint(self.folder, updater, self.tokenizer, position={_BATCHES: batches}, keep=self.keep)

    def newest(self) -> Path | None:
        """The newest complete checkpoint; None when there is none."""
        return next(reversed(list_checkpoints(self.folder)), None)

    def restore(self, updater: Updater, path: Path) -> int:
        """Restore the updater from a checkpoint; returns the number of batches it had seen. Raises ConfigError."""
        return int(restore_checkpoint(path, updater).position[_BATCHES])

    def publish(self, updater: Updater) -> Path:
        """Write the weights to `out`, replacing what is there; returns its path.

        With several processes, each must call it; the first one writes.
        """
        weights = gather_weights(updater.model) if is_sharded(updater.model) else None
        if updater.main:
            self._replace(cast("PreTrainedModel", updater.model), weights)
        updater.wait()
        return self.out

    def _replace(self, model: PreTrainedModel, weights: dict[str, Tensor] | None) -> None:
        draft, old = (self.out.with_name(f".{self.out.name}.{word}") for word in ("draft", "old"))
        for one in (draft, old):
            shutil.rmtree(one, ignore_errors=True)
        draft.mkdir(parents=True)
        _write_model(draft, model, weights, self.tokenizer)
        if self.out.exists():
            self.out.rename(old)
        draft.rename(self.out)
        shutil.rmtree(old, ignore_errors=True)


def save_checkpoint(
    folder: Path,
    updater: Updater,
    tokenizer: PreTrainedTokenizerBase,
    *,
    position: Mapping[str, Any] | None = None,
    keep: int | None = None,
) -> Path:
    """Write `folder/checkpoint-STEP` and delete all but the last `keep` checkpoints; returns its path.

    With several processes, each must call it; shards are gathered in the first one, which writes.
    position: position in the data, made of numbers, strings, lists and dicts.
    """
    path = folder / f"{_PREFIX}{updater.steps:06}"
    weights = gather_weights(updater.model) if is_sharded(updater.model) else updater.model.state_dict()
    state = {"updater": updater.state_dict(), "chance": _random_states(), "position": dict(position or {})}
    if updater.main:
        _write(path, state | {"weights": state_hash(weights)}, updater.model, weights, tokenizer)
        for old in list_checkpoints(folder)[:-keep] if keep else ():
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
    _write_model(half, cast("PreTrainedModel", model), dict(weights), tokenizer)
    torch.save(state, half / STATE)
    if path.exists():  # a folder cannot be renamed over another one
        shutil.rmtree(path)
    half.rename(path)


def _write_model(
    folder: Path, model: PreTrainedModel, weights: dict[str, Tensor] | None, tokenizer: PreTrainedTokenizerBase
) -> None:
    with no_progress_bars():
        model.save_pretrained(folder, state_dict=weights)
        tokenizer.save_pretrained(folder)


def list_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, oldest first."""
    found = [path for path in folder.glob(f"{_PREFIX}*") if (path / STATE).is_file()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(_PREFIX)))


def restore_checkpoint(path: Path, updater: Updater) -> RestoredPosition:
    """Restore weights, optimiser and random generators to their state when the checkpoint was written.

    The updater's model must have the same shape and the same kind of adapter. Raises ConfigError for a folder that is
    not a checkpoint, or is one of another model.
    """
    try:
        state: dict[str, Any] = torch.load(path / STATE, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise ConfigError(
            f"{str(path)!r} is not a checkpoint of a run: it has no {STATE}", code="no_checkpoint"
        ) from error
    _load_weights(path, updater.model)
    if not is_sharded(updater.model) and (found := weights_hash(updater.model)) != state["weights"]:
        raise ConfigError(
            f"the weights in {str(path)!r} have changed since they were saved (hash {found[:12]}, expected "
            f"{state['weights'][:12]}); resume with the model and adapter that the run started with",
            code="other_weights",
        )
    updater.load_state_dict(state["updater"])
    _set_random_states(state["chance"])
    return RestoredPosition(step=updater.steps, position=state["position"])


def _load_weights(path: Path, model: nn.Module) -> None:
    from safetensors.torch import load_file

    if (path / "adapter_model.safetensors").is_file():
        from peft import PeftModel, set_peft_model_state_dict

        if not isinstance(model, PeftModel):
            raise ConfigError(
                f"{str(path)!r} holds an adapter, but the model has none; set lora_rank to the run's value",
                code="other_weights",
            )
        if is_sharded(model):
            raise ConfigError(
                f"the adapter in {str(path)!r} cannot be loaded into sharded weights; resume a run with an adapter on "
                "replicas (without FSDP)",
                code="sharded_adapter",
            )
        set_peft_model_state_dict(model, load_file(path / "adapter_model.safetensors"))
        return
    parts = sorted(path.glob("model*.safetensors"))
    weights = {name: tensor for part in parts for name, tensor in load_file(part).items()}
    if is_sharded(model):
        missing, unexpected = shard_weights(model, weights)
    else:
        missing, unexpected = model.load_state_dict(weights, strict=False)
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    if unexpected or set(missing) - tied:
        raise ConfigError(
            f"{str(path)!r} holds another model's weights ({len(unexpected)} unknown, {len(missing)} missing); "
            "resume with the model that the run started with",
            code="other_weights",
        )


def _random_states() -> dict[str, Any]:
    """States of all random generators in use, as plain values."""
    version, words, gauss = random.getstate()
    kind, keys, *rest = cast("tuple[Any, ...]", np.random.get_state())
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "python": [version, list(words), gauss],
        "numpy": [kind, torch.from_numpy(keys.astype(np.int64)), *rest],
        "torch": torch.get_rng_state(),
        "cuda": devices,
    }


def _set_random_states(state: Mapping[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
