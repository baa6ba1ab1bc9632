"""Settings of the vLLM server that `train` starts. Importing this module needs neither torch nor vLLM."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from agentlearn.config import OptionGroup
from agentlearn.errors import ConfigError

VISIBLE = "CUDA_VISIBLE_DEVICES"


def _devices(given: str | None) -> str | None:
    if given is not None and not re.fullmatch(r"cuda:\d+(,(cuda:)?\d+)*", given):
        raise ConfigError(f"vllm_device is {given!r}; write it as cuda:1, or cuda:1,2 for two GPUs", code="bad_device")
    return given


class VllmOptions(OptionGroup):
    """Where and how the vLLM server runs. Only with `--sampler vllm`."""

    vllm_device: Annotated[str | None, AfterValidator(_devices)] = None
    """GPU of the vLLM server, such as cuda:1, or several, such as cuda:1,2. Default: all."""
    vllm_tensor_parallel: int = Field(default=1, ge=1)
    """GPUs that the model is split over in the vLLM server."""
    vllm_data_parallel: int = Field(default=1, ge=1)
    """Copies of the model in the vLLM server, which share the requests."""
    vllm_gpu_memory: float | None = Field(default=None, gt=0, le=1)
    """Largest share of a GPU's memory for the vLLM server. Default: vLLM's own."""
    vllm_max_context: int | None = Field(default=None, ge=16)
    """Largest number of tokens of a prompt and its answer in the vLLM server. Default: the model's."""
    vllm_dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format of the model in the vLLM server. auto: float32 on a CPU; on a GPU 16 bits, as vLLM chooses."""
    vllm_sleep: bool = False
    """Free the vLLM server's GPU memory during updates, where both use the same GPU."""


DEFAULT_OPTIONS = VllmOptions()


def given_options(options: VllmOptions) -> tuple[str, ...]:
    """Names of the options that differ from their defaults."""
    return tuple(name for name, field in VllmOptions.model_fields.items() if getattr(options, name) != field.default)


def server_arguments(options: VllmOptions, *, cpu: bool) -> tuple[str, ...]:
    """The options as arguments of the vLLM server. cpu: whether it runs without a GPU."""
    dtype = "float32" if options.vllm_dtype == "auto" and cpu else options.vllm_dtype
    given: dict[str, object | None] = {
        "--dtype": None if dtype == "auto" else dtype,
        "--tensor-parallel-size": None if options.vllm_tensor_parallel == 1 else options.vllm_tensor_parallel,
        "--data-parallel-size": None if options.vllm_data_parallel == 1 else options.vllm_data_parallel,
        "--gpu-memory-utilization": options.vllm_gpu_memory,
        "--max-model-len": options.vllm_max_context,
    }
    values = tuple(word for name, value in given.items() if value is not None for word in (name, str(value)))
    return (*values, "--enable-sleep-mode") if options.vllm_sleep else values


def server_environment(options: VllmOptions, outside: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment variables that give the server its GPUs.

    outside: this process's own variables, in which GPUs may already be hidden; numbers count the visible ones.
    """
    if options.vllm_device is None:
        return {}
    numbers = [int(number) for number in re.findall(r"\d+", options.vllm_device)]
    visible = [name.strip() for name in outside.get(VISIBLE, "").split(",") if name.strip()]
    if not visible:
        return {VISIBLE: ",".join(str(number) for number in numbers)}
    if max(numbers) >= len(visible):
        raise ConfigError(
            f"vllm_device is {options.vllm_device!r}, but {VISIBLE} shows {len(visible)} GPUs; count them from 0",
            code="bad_device",
        )
    return {VISIBLE: ",".join(visible[number] for number in numbers)}
