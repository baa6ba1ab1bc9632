"""A method that our vLLM servers have besides vLLM's own: it hashes the weights that they compute with.

vLLM loads this module in its worker processes (`--worker-extension-cls`), so it imports only torch and the standard
library. The trainer hashes its own weights with the same functions.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

EXTENSION = "agentlearn.train.serving.worker_extension.WeightReader"
"""Value of vLLM's option `--worker-extension-cls`."""
METHOD = "agentlearn_weights"
"""Name of the method for `POST /collective_rpc`."""
LOOKED_UP = "@looked-up"
"""End of the second name of embeddings that a CPU server also uses in packed form."""
_CHUNK = 2**24
"""Values hashed at once."""
_UNIT_VECTORS = 1024
"""Unit vectors that a packed layer is applied to at once."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class WeightReader:
    """Mixed into vLLM's worker class. vLLM refuses an attribute that its worker has too, hence the long name."""

    model_runner: Any
    vllm_config: Any

    def agentlearn_weights(self, unordered: list[str] | None = None) -> dict[str, Any]:
        """Hashes of all tensors that the model computes with, and what a trainer needs to compare them.

        unordered: give only these tensors, with hashes that do not depend on the order of their values.
        """
        model = cast("nn.Module", self.model_runner.get_model())
        return weights_report(
            model,
            served_dtype=self.vllm_config.model_config.dtype,
            shards=self.vllm_config.parallel_config.world_size,
            unordered=unordered,
        )


def weights_report(
    model: nn.Module, *, served_dtype: torch.dtype, shards: int = 1, unordered: Collection[str] | None = None
) -> dict[str, Any]:
    """What `agentlearn_weights` returns for a model, in values that JSON can hold."""
    found: dict[str, Any] = {}
    for name, read in _served_tensors(model):
        if unordered is None:
            found[name] = described(read())
        elif name in unordered:
            found[name] = {"sha256": unordered_hash(read())}
    packed = cast("Mapping[str, Collection[str]]", getattr(model, "packed_modules_mapping", None) or {})
    return {
        "tensors": found,
        "dtype": dtype_name(served_dtype),
        "packed": {name: list(parts) for name, parts in packed.items()},
        "shards": int(shards),
    }


def _served_tensors(model: nn.Module) -> Iterator[tuple[str, Callable[[], Tensor]]]:
    """Each weight's name, and a function that reads it.

    On a CPU, vLLM packs the weights of linear layers into a form that cannot be read. Such a layer is applied to the
    unit vectors, which gives exactly the weights that it computes with.
    """
    for path, module in model.named_modules():
        packed = getattr(module, "cpu_linear", None)
        for own, tensor in module.named_parameters(recurse=False):
            name = f"{path}.{own}" if path else own
            if own == "weight" and packed is not None and hasattr(module, "input_size_per_partition"):
                yield name, partial(_unpacked, module, packed)
                if tensor.ndim == 2 and type(module).__name__ == "VocabParallelEmbedding":
                    yield name + LOOKED_UP, partial(_without_padding, module, tensor)
            else:
                yield name, partial(_without_padding, module, tensor)


def described(tensor: Tensor) -> dict[str, Any]:
    """A tensor's shape, number format and hash, and whether all values are finite."""
    digest, finite = hashlib.sha256(), True
    for values in _chunks(tensor):
        finite = finite and (not values.is_floating_point() or bool(torch.isfinite(values).all()))
        digest.update(values.cpu().view(torch.uint8).numpy().data)
    return {
        "shape": list(tensor.shape),
        "dtype": dtype_name(tensor.dtype),
        "sha256": digest.hexdigest(),
        "finite": finite,
    }


def unordered_hash(tensor: Tensor) -> str:
    """A hash of a tensor's values that does not depend on their order, for weights that a server keeps rearranged."""
    first = second = 0
    for values in _chunks(tensor):
        mixed = values.view(_BITS[values.element_size()]).to(torch.int64)
        mixed = mixed * 0x1E3779B97F4A7C15 + 0x3F58476D1CE4E5B9
        mixed = (mixed ^ (mixed >> 29)) * 0x14D049BB133111EB
        first += int((mixed ^ (mixed >> 32)).sum())
        mixed = mixed * 0x2545F4914F6CDD1D
        second += int((mixed ^ (mixed >> 31)).sum())
    return f"{first % 2**64:016x}{second % 2**64:016x}"


def dtype_name(dtype: torch.dtype) -> str:
    """A number format's name, such as `bfloat16`."""
    return str(dtype).removeprefix("torch.")


def _chunks(tensor: Tensor) -> Iterator[Tensor]:
    """The tensor's values in order, with 0 in place of -0, which an applied layer cannot tell apart."""
    flat = tensor.detach().reshape(-1)
    for start in range(0, flat.numel(), _CHUNK):
        values = flat[start : start + _CHUNK]
        yield values + 0 if values.is_floating_point() else values


def _unpacked(module: nn.Module, packed: Callable[..., Tensor]) -> Tensor:
    """The weights of a layer by what it makes of the unit vectors, of shape (outputs, inputs)."""
    size, given = int(cast("Any", module).input_size_per_partition), cast("Tensor", module.weight)
    parts: list[Tensor] = []
    with torch.no_grad():
        for start in range(0, size, _UNIT_VECTORS):
            count = min(_UNIT_VECTORS, size - start)
            vectors = torch.zeros(count, size, dtype=given.dtype, device=given.device)
            vectors[:, start : start + count].fill_diagonal_(1)
            parts.append(packed(vectors, given, None))
    return _without_padding(module, torch.cat(parts).T.contiguous())


def _without_padding(module: nn.Module, tensor: Tensor) -> Tensor:
    """The tensor without the rows that vLLM adds to a vocabulary."""
    size, padded = (getattr(module, name, None) for name in ("org_vocab_size", "num_embeddings_per_partition"))
    if isinstance(size, int) and tensor.ndim and tensor.shape[0] == padded:
        return tensor[:size]
    return tensor
