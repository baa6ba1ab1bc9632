"""Whether a model can read the prompts of a run: tokens that it lacks, and prompts that its context cannot hold.

Known from the files of a model, without torch, and again when it is loaded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

from agentlearn.errors import ConfigError
from agentlearn.models.call_settings import context_of
from agentlearn.train.engine.attention import original_contexts
from agentlearn.train.weights.loading import LoadedModel, ModelSource, read_config

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
