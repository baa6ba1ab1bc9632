"""Whether a model can read the prompts of a run: tokens that it lacks, and prompts that its context cannot hold.

Known from the files of a model, without torch, and again when it is loaded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from agentlearn.errors import ConfigError
from agentlearn.train.weights.loading import LoadedModel


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """A tokenizer, and the model that is to read its tokens."""

    name: str
    """The model as the user wrote it."""
    encode: Callable[[str], Sequence[int]]
    vocabulary: Mapping[str, int]
    """The tokens of the tokenizer."""
    known: int
    """Number of tokens that the model knows."""
    context: int | None
    """Number of tokens of a prompt and its answer; None when it is not known."""

    @classmethod
    def of_files(cls, name: str, tokenizer: Path, config: Mapping[str, Any], context: int | None) -> Self | None:
        """Read a folder's tokenizer.json. config: the model's config.json. None where the files do not say enough."""
        texts: Any = config.get("text_config") or config
        known, file = texts.get("vocab_size"), tokenizer / "tokenizer.json"
        try:
            from tokenizers import Tokenizer

            read = Tokenizer.from_file(str(file))
        except Exception:  # noqa: BLE001  not there, damaged, or another format: seen when the model is loaded
            return None
        scaled = texts.get("rope_parameters") or texts.get("rope_scaling") or {}
        if scaled.get("rope_type", scaled.get("type")) in {"longrope", "su"}:  # exact up to its original context only
            shorter = scaled.get("original_max_position_embeddings", texts.get("original_max_position_embeddings"))
            context = min(filter(None, (shorter, context)), default=None)
        if not isinstance(known, int):
            return None
        return cls(name, lambda text: read.encode(text, add_special_tokens=False).ids, read.get_vocab(), known, context)

    @classmethod
    def of_loaded(cls, loaded: LoadedModel, most: int | None = None) -> Self:
        """Return those of a model in memory. most: a limit on its context; None: its own."""
        from agentlearn.train.engine.torch_engine import context_limit  # here: it imports torch

        network, tokenizer = cast("Any", loaded.model), cast("Any", loaded.tokenizer)
        known = int(network.get_input_embeddings().weight.shape[0])
        own = network.config.get_text_config().max_position_embeddings
        context = min(filter(None, (context_limit(network), own, most)))

        def encode(text: str) -> Sequence[int]:
            return tokenizer.encode(text, add_special_tokens=False)

        return cls(loaded.name, encode, tokenizer.get_vocab(), known, context)

    @property
    def note(self) -> str:
        """A note on tokens that the tokenizer has and the model has not; empty when there are none."""
        lacking = sorted((at, token) for token, at in self.vocabulary.items() if at >= self.known)
        if not lacking:
            return ""
        many = "a token" if len(lacking) == 1 else f"{len(lacking):,} tokens"
        return (
            f"the tokenizer of {self.name!r} has {many} that the model does not know (first: {lacking[0][1]!r}); a"
            " prompt with one is refused"
        )

    def refuse_unreadable(self, instructions: str, problems: Mapping[str, str], lessons: Mapping[str, str]) -> None:
        """Raise ConfigError for a text with a token that the model lacks, and when its context holds no prompt.

        instructions: what stands in every prompt. problems, lessons: texts by the name of the task or lesson.
        """
        named = (
            ("the instructions", instructions),
            *((f"task {name!r}", text) for name, text in problems.items()),
            *((f"lesson {name!r}", text) for name, text in lessons.items()),
        )
        for what, text in named if self.note else ():
            if foreign := [one for one in self.encode(text) if one >= self.known]:
                token = next((token for token, at in self.vocabulary.items() if at == foreign[0]), str(foreign[0]))
                raise ConfigError(
                    f"{what} has the token {token!r}, which the tokenizer of {self.name!r} knows and the model does"
                    " not; leave it out, or give the model embeddings for it",
                    code="unknown_token",
                )
        shortest = min(problems.values(), key=len, default="")
        if self.context is None or len(f"{instructions}{shortest}".encode()) < self.context:  # a token has a byte
            return
        if (needed := len(self.encode(instructions)) + len(self.encode(shortest))) >= self.context:
            raise ConfigError(
                f"the context of {self.name!r} is {self.context:,} tokens, and the prompt of the shortest task has"
                f" more than {needed:,}; use another model, or shorter instructions (--only-instructions with"
                " --instructions sends only your own)",
                code="context_too_long",
            )
