"""What a training run leaves on the disk: checkpoints to take it up from again, and the weights at its end."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from agentlearn.train.distributed.shards import gathered_weights, in_shards
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import checkpoints, resume, save_checkpoint
from agentlearn.train.weights.quiet import quiet

_BATCHES = "batches"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoints:
    """The folders of one run."""

    folder: Path
    """Of its checkpoints."""
    out: Path
    """Where the weights stand in the end."""
    tokenizer: PreTrainedTokenizerBase
    keep: int = 2
    """Checkpoints that are kept."""

    def save(self, updater: Updater, batches: int) -> Path:
        """Keep the state after so many batches; its folder. Blocks."""
        return save_checkpoint(self.folder, updater, self.tokenizer, position={_BATCHES: batches}, keep=self.keep)

    def newest(self) -> Path | None:
        """The last one that is whole; None where there is none."""
        return next(reversed(checkpoints(self.folder)), None)

    def restore(self, updater: Updater, path: Path) -> int:
        """Put everything back to what it was then; how many batches it had learned from. Raises ConfigError."""
        return int(resume(path, updater).position[_BATCHES])

    def publish(self, updater: Updater) -> Path:
        """Write the weights in Hugging Face format to `out`, in place of what stood there; its path. Blocks.

        Of several processes each calls it, and the first writes.
        """
        weights = gathered_weights(updater.model) if in_shards(updater.model) else None
        if updater.main:
            self._write(cast("PreTrainedModel", updater.model), weights)
        updater.wait()
        return self.out

    def _write(self, model: PreTrainedModel, weights: dict[str, Tensor] | None) -> None:
        draft, old = (self.out.with_name(f".{self.out.name}.{word}") for word in ("draft", "old"))
        for one in (draft, old):
            shutil.rmtree(one, ignore_errors=True)
        draft.mkdir(parents=True)
        with quiet():
            model.save_pretrained(draft, state_dict=weights)
            self.tokenizer.save_pretrained(draft)
        if self.out.exists():
            self.out.rename(old)
        draft.rename(self.out)
        shutil.rmtree(old, ignore_errors=True)
