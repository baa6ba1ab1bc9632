"""What a model can read: which tokens each layer attends to, and whether prompts have tokens and lengths that it knows.

A layer sees all earlier tokens, a sliding window of them, or those of its own chunk. The engine's cache keeps all keys,
so a mask is all that a window or a chunk needs. Everything else is refused. Tokens that a model lacks, and prompts that
its context cannot hold, are known from its files, and again when it is loaded. Importing this module needs no torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from agentlearn.errors import ConfigError
from agentlearn.models.call_settings import context_of
from agentlearn.train.weights.loading import LoadedModel, ModelSource, read_config

if TYPE_CHECKING:
    import torch
    from torch import Tensor


FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"


@dataclass(frozen=True, slots=True)
class AttentionLayout:
    """The kinds of attention in a model's layers."""

    windows: Mapping[str, int | None]
    """Number of tokens that a kind of layer sees, by kind; None: all earlier ones."""

    @classmethod
    def of(cls, model: Any) -> "AttentionLayout":
        """Return the attention of a model of transformers or peft. Raises ConfigError when it is not supported."""
        config = model.config.get_text_config()
        kinds: set[str] = set(getattr(config, "layer_types", None) or [])
        window = getattr(config, "sliding_window", None)
        if not kinds:
            kinds = {SLIDING} if window and getattr(config, "use_sliding_window", True) else {FULL}
        own = getattr(getattr(config, "attn_config", None), "alibi", False) or getattr(config, "alibi", False)
        reason = _unusual(kinds, alibi=False)
        if not reason and not getattr(config, "num_attention_heads", None):
            reason = "its layers keep a state instead of keys and values"
        if not reason and any(getattr(config, name, False) for name in ("is_encoder_decoder", "add_cross_attention")):
            reason = "its layers attend to an encoder"
        reason = reason or _unusual(kinds, alibi=bool(own))
        if not reason and not isinstance(getattr(config, "max_position_embeddings", None), int):
            reason = "its config does not say how long a context may be"
        if reason:
            raise unsupported(class_name(model), reason)
        sizes = {FULL: None, SLIDING: window, CHUNKED: getattr(config, "attention_chunk_size", None)}
        for kind in sorted(kinds - {FULL}):
            if not isinstance(sizes[kind], int):
                raise unsupported(class_name(model), f"its config gives no size for layers of kind {kind}")
        return cls(windows={kind: sizes[kind] for kind in sorted(kinds)})

    @staticmethod
    def check_config(config: Mapping[str, Any]) -> None:
        """Raise ConfigError when a model's config.json already says that the engine cannot compute its attention.

        A config.json may leave out what is usual for its type, so `of` also checks the loaded model.
        """
        names: Any = config.get("architectures") or [config.get("model_type")]
        attention = config.get("attn_config")
        alibi = config.get("alibi") or (isinstance(attention, Mapping) and attention.get("alibi"))
        if reason := _unusual(set(config.get("layer_types") or ()), alibi=bool(alibi)):
            raise unsupported(str(names[0]), reason)

    def masks(self, at_B_Q: "Tensor", read: int, dtype: "torch.dtype") -> "Tensor | dict[str, Tensor]":
        """Return the mask (B, 1, Q, read) of queries at these positions, or one for each kind of layer.

        It is added to the scores: 0 where a token is seen, the least number of the type elsewhere.
        at_B_Q: position of each query. read: number of cached tokens. dtype: of the model.
        """
        import torch

        key_K, at_B_1_Q_1 = torch.arange(read, device=at_B_Q.device)[None, None, None], at_B_Q[:, None, :, None]
        made: dict[str, Tensor] = {}
        for kind, size in self.windows.items():
            seen = key_K <= at_B_1_Q_1
            if kind == SLIDING and size is not None:
                seen = seen & (key_K > at_B_1_Q_1 - size)
            elif kind == CHUNKED and size is not None:
                seen = seen & (key_K // size == at_B_1_Q_1 // size)
            shape = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
            made[kind] = shape.masked_fill(~seen, torch.finfo(dtype).min)
        return made if len(made) > 1 else next(iter(made.values()))


def unsupported(kind: str, reason: str) -> ConfigError:
    """Return the error for a model that the engine cannot sample from exactly. kind: the name of its class."""
    return ConfigError(
        f"local: cannot sample from a {kind} exactly ({reason}); use a vLLM server, as in"
        " --model vllm:MODEL or train --sampler vllm"
    )


def _unusual(kinds: set[str], *, alibi: bool) -> str:
    """Why the engine cannot compute layers of these kinds; empty when it can."""
    if other := sorted(kinds - {FULL, SLIDING, CHUNKED}):
        return f"layers of kind {', '.join(other)}"
    return "its attention uses ALiBi" if alibi else ""


def class_name(model: Any) -> str:
    """Return the name of the model's class, without peft's wrapper."""
    return type(model.get_base_model() if hasattr(model, "get_base_model") else model).__name__


def original_contexts(config: Mapping[str, Any]) -> set[int]:
    """The lengths before an extension of the context that a config names, also those of single kinds of layers."""
    found: set[int] = set()
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= original_contexts(cast("Mapping[str, Any]", value))
        elif name == "original_max_position_embeddings" and isinstance(value, int | float):
            found.add(int(value))
    return found


_ENDLESS = 1 << 60


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """A tokenizer, and what the model that is to read its tokens cannot read."""

    name: str
    encode: Callable[[str], Sequence[int]]
    lacking: Mapping[int, str]
    """The tokens of the tokenizer that the model does not know."""
    context: int | None
    """Number of tokens of a prompt and its answer; None when it is not known."""

    @classmethod
    def of_files(cls, model: str, most: int | None = None) -> Self | None:
        """Read the files of a model. most: a limit on its context. None where they do not say enough."""
        try:
            from tokenizers import Tokenizer

            source = ModelSource.find(model, ask_hub=False)
            config, read = read_config(Path(source.base)), Tokenizer.from_file(f"{source.tokenizer}/tokenizer.json")
        except Exception:  # noqa: BLE001  not there, damaged, or another format: told when the model is loaded
            return None
        texts: Any = config.get("text_config") or config
        scaled = texts.get("rope_parameters") or texts.get("rope_scaling") or {}
        longrope = scaled.get("rope_type", scaled.get("type")) in {"longrope", "su"}  # exact up to the original only
        contexts = (context_of(model), most, *(original_contexts(texts) if longrope else ()))
        context = min(filter(None, contexts), default=None)
        known = texts.get("vocab_size") or _ENDLESS
        lacking = {at: token for token, at in read.get_vocab().items() if at >= known}
        return cls(model, lambda text: read.encode(text, add_special_tokens=False).ids, lacking, context)

    @classmethod
    def of_loaded(cls, loaded: LoadedModel, most: int | None = None) -> Self:
        """Return those of a model in memory. most: a limit on its context; None: its own."""
        from agentlearn.train.engine.torch_engine import context_limit  # here: it imports torch

        network, tokenizer = cast("Any", loaded.model), cast("Any", loaded.tokenizer)
        own = network.config.get_text_config().max_position_embeddings
        context = min(filter(None, (context_limit(network), own, most)))
        known = int(network.get_input_embeddings().weight.shape[0])
        lacking = {at: token for token, at in tokenizer.get_vocab().items() if at >= known}
        return cls(loaded.name, partial(tokenizer.encode, add_special_tokens=False), lacking, context)

    @property
    def note(self) -> str:
        """A note on tokens that the tokenizer has and the model has not; empty when there are none."""
        first = min(self.lacking.items(), default=(0, ""))[1]
        what = f"{len(self.lacking):,} tokens that the model does not know (first: {first!r})"
        return f"the tokenizer of {self.name!r} has {what}; a prompt with one is refused" if self.lacking else ""

    def refuse_unreadable(self, instructions: str, problems: Mapping[str, str], lessons: Mapping[str, str]) -> None:
        """Raise ConfigError for a text with a token that the model lacks, and when its context holds no prompt.

        instructions: what stands in every prompt. problems, lessons: texts by their names in a sentence.
        """
        for what, text in {"the text of the instructions": instructions, **problems, **lessons}.items():
            if self.lacking and (foreign := self.lacking.keys() & self.encode(text)):
                raise ConfigError(
                    f"{what} has the token {self.lacking[min(foreign)]!r}, which the tokenizer of {self.name!r} knows"
                    " and the model does not; leave it out, or give the model embeddings for it",
                    code="unknown_token",
                )
        shortest = min(problems.values(), key=len, default="")
        if len(f"{instructions}{shortest}".encode()) < (most := self.context or _ENDLESS):  # a token has a byte
            return
        if (needed := len(self.encode(instructions)) + len(self.encode(shortest))) >= most:
            raise ConfigError(
                f"the context of {self.name!r} is {most:,} tokens, and the prompt of the shortest task has"
                f" more than {needed:,}; use another model, or shorter instructions (--only-instructions with"
                " --instructions sends only your own)"
            )
