"""Whether the settings of an adapter fit the model. Importing this module does not import torch."""

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.weights.model_source import ModelSource, read_adapter_config


def check_adapter_settings(source: ModelSource, arguments: GradientArguments) -> None:
    """Raise ConfigError for settings of an adapter when none is trained, or that are not those of the given adapter."""
    if source.adapter is not None:
        _check_same(source, arguments)
    elif not arguments.lora_rank:
        _check_unused(arguments)


def _check_unused(arguments: GradientArguments) -> None:
    if arguments.reference == "adapter_off":
        raise ConfigError(
            "reference is 'adapter_off', but lora_rank=0 trains this model without an adapter; set lora_rank, or"
            " reference=copy",
            code="contradiction",
        )
    if arguments.lora_dropout:
        raise ConfigError(
            f"lora_dropout is {arguments.lora_dropout}, but lora_rank=0 trains this model without an adapter; set"
            " lora_rank",
            code="contradiction",
        )


def _check_same(source: ModelSource, arguments: GradientArguments) -> None:
    assert source.adapter is not None
    given, defaults = read_adapter_config(source.adapter), type(arguments).model_fields
    rank, alpha = given.get("r", 8), given.get("lora_alpha", 8)
    if arguments.lora_rank not in (0, rank):
        raise ConfigError(
            f"lora_rank is {arguments.lora_rank}, but the adapter in {source.name!r} has rank {rank}; leave lora_rank"
            " out to train this adapter on, or give its base model to start a new one",
            code="adapter_rank",
        )
    if arguments.lora_alpha not in (defaults["lora_alpha"].default, alpha):
        raise ConfigError(
            f"lora_alpha is {arguments.lora_alpha:g}, but the adapter in {source.name!r} has {alpha}; leave lora_alpha"
            " out to train this adapter on",
            code="adapter_alpha",
        )
    own = given.get("target_modules")
    targets = {own} if isinstance(own, str) else set(own or ())
    if arguments.lora_targets != defaults["lora_targets"].default and set(arguments.lora_targets) != targets:
        raise ConfigError(
            f"lora_targets is {list(arguments.lora_targets)}, but the adapter in {source.name!r} is on"
            f" {sorted(targets)}; leave lora_targets out to train this adapter on",
            code="adapter_targets",
        )
