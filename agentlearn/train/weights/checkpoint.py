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
from agentlearn.train.distributed.sharding import gather_weights, is_sharded, shard_weights
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.loading import no_progress_bars
from agentlearn.train.weights.model import weights_hash

STATE = "training_state.pt"
_PREFIX = "checkpoint-"
_BATCHES = "batches"
_FORMAT = 1
"""Number of the form of `training_state.pt`."""


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
        """Write `checkpoint-STEP` after this number of batches, and delete old ones; returns its folder.

        With several processes, each must call it; shards are gathered in the first one, which writes.
        """
        path = self.folder / f"{_PREFIX}{updater.steps:06}"
        weights, sha256 = _gathered(updater.model), weights_hash(updater.model)
        state = {"updater": updater.state_dict(), "chance": _random_states(), "position": {_BATCHES: batches}}
        if updater.main:
            half = path.with_name(f".{path.name}.half")
            shutil.rmtree(half, ignore_errors=True)
            _write_model(half, updater.model, weights, self.tokenizer)
            torch.save(state | {"format": _FORMAT, "weights": sha256}, half / STATE)
            if path.exists():  # a folder cannot be renamed over another one
                shutil.rmtree(path)
            half.rename(path)
            for old in list_checkpoints(self.folder)[: -self.keep]:
                shutil.rmtree(old)
        updater.wait()
        return path

    def newest(self) -> Path | None:
        """The newest complete checkpoint; None when there is none."""
        return next(reversed(list_checkpoints(self.folder)), None)

    @staticmethod
    def restore(updater: Updater, path: Path) -> int:
        """Restore weights, optimiser and random generators from a checkpoint; returns the number of batches seen.

        The updater's model must have the same shape and the same kind of adapter. Raises ConfigError for a folder that
        is not a checkpoint, or is one of another model or of another version of agentlearn.
        """
        try:
            # Mapped, because with sharded weights only the first process reads the optimiser's state.
            state: dict[str, Any] = torch.load(path / STATE, map_location="cpu", weights_only=True, mmap=True)
        except FileNotFoundError as error:
            raise ConfigError(f"{str(path)!r} is not a checkpoint of a run: it has no {STATE}") from error
        if state.get("format") != _FORMAT:
            raise ConfigError(
                f"the checkpoint {str(path)!r} was written by another version of agentlearn; resume the run with that"
                " version, or start a new run"
            )
        _load_weights(path, updater.model)
        if (found := weights_hash(updater.model)) != state["weights"]:
            raise ConfigError(
                f"the weights in {str(path)!r} have changed since they were saved (hash {found[:12]}, expected "
                f"{state['weights'][:12]}); resume with the model and adapter that the run started with"
            )
        updater.load_state_dict(state["updater"])
        version, words, gauss = state["chance"]["python"]
        random.setstate((version, tuple(words), gauss))
        kind, keys, *rest = state["chance"]["numpy"]
        np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
        torch.set_rng_state(state["chance"]["torch"])
        if state["chance"]["cuda"]:
            torch.cuda.set_rng_state_all(state["chance"]["cuda"])
        return int(state["position"][_BATCHES])

    def publish(self, updater: Updater) -> Path:
        """Write the weights to `out`, replacing what is there; returns its path.

        With several processes, each must call it; the first one writes.
        """
        weights = _gathered(updater.model)
        if updater.main:
            draft, old = (self.out.with_name(f".{self.out.name}.{word}") for word in ("draft", "old"))
            for one in (draft, old):
                shutil.rmtree(one, ignore_errors=True)
            _write_model(draft, updater.model, weights, self.tokenizer)
            if self.out.exists():
                self.out.rename(old)
            draft.rename(self.out)
            shutil.rmtree(old, ignore_errors=True)
        updater.wait()
        return self.out


def _gathered(model: nn.Module) -> dict[str, Tensor] | None:
    """The weights to write, gathered in the first process; of a model with an adapter, only those of the adapter.

    None when they are not sharded. With sharded weights, each process must call it.
    """
    return gather_weights(model, trained_only=hasattr(model, "get_base_model")) if is_sharded(model) else None


def _write_model(
    folder: Path, model: nn.Module, weights: dict[str, Tensor] | None, tokenizer: PreTrainedTokenizerBase
) -> None:
    folder.mkdir(parents=True)
    # peft asks the hub whether embeddings belong to an adapter, unless it is told that they do not.
    only_adapter: dict[str, Any] = {"save_embedding_layers": False} if hasattr(model, "peft_config") else {}
    with no_progress_bars():
        cast("PreTrainedModel", model).save_pretrained(folder, state_dict=weights, **only_adapter)
        tokenizer.save_pretrained(folder)


def list_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, oldest first."""
    found = [path for path in folder.glob(f"{_PREFIX}*") if (path / STATE).is_file()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(_PREFIX)))


def _load_weights(path: Path, model: nn.Module) -> None:
    """Load the weights in the checkpoint. For sharded weights, the first process reads them and spreads them."""
    from safetensors import safe_open
    from safetensors.torch import load_file

    sharded = is_sharded(model)
    reads = not sharded or torch.distributed.get_rank() == 0
    adapter = path / "adapter_model.safetensors"
    if adapter.is_file():
        from peft import PeftModel, set_peft_model_state_dict

        if not isinstance(model, PeftModel):
            raise ConfigError(
                f"{str(path)!r} holds an adapter, but the model has none; set lora_rank to the run's value"
            )
        if not sharded:
            set_peft_model_state_dict(model, load_file(adapter))
            return
        # peft leaves the adapter's name out of its files.
        names = {name.replace(f".{one}.", "."): name for name in model.state_dict() for one in model.active_adapters}
        shard_weights(model, {names.get(name, name): one for name, one in load_file(adapter).items()} if reads else {})
        return
    parts, found = sorted(path.glob("model*.safetensors")), set[str]()
    for part in parts:
        with safe_open(part, "pt") as opened:
            found |= set(opened.keys())
    known, tied = set(model.state_dict()), set(getattr(model, "all_tied_weights_keys", None) or ())
    unknown, missing = found - known, known - found - tied
    # transformers saves the weights of some architectures by other names, and finds these again
    renamed = isinstance(model, PreTrainedModel) and bool(unknown and missing)
    if not renamed and (unknown or missing):
        raise _other_weights(path, unknown=len(unknown), missing=len(missing))
    weights: Mapping[str, Tensor] = {}
    if reads and renamed:
        own_class = next(one for one in type(model).__mro__ if one.__module__.startswith("transformers."))
        with no_progress_bars():
            read, told = cast("Any", own_class).from_pretrained(path, dtype=torch.float32, output_loading_info=True)
        if told["unexpected_keys"] or told["missing_keys"]:
            raise _other_weights(path, unknown=len(told["unexpected_keys"]), missing=len(told["missing_keys"]))
        weights = read.state_dict()
    elif reads:
        weights = {name: one for part in parts for name, one in load_file(part).items()}
    if sharded:
        shard_weights(model, weights)
    else:
        model.load_state_dict(weights, strict=False)


def _other_weights(path: Path, *, unknown: int, missing: int) -> ConfigError:
    return ConfigError(
        f"{str(path)!r} holds another model's weights ({unknown} unknown, {missing} missing);"
        " resume with the model that the run started with"
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
