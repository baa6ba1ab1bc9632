"""From scenes to tensors: a scene's conversations share one prefix, so that long libraries are read once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentlearn.lab.contract import Doubt, Scene, Talk
from agentlearn.serving import chatml
from agentlearn.serving.chat_request import Message

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SHELF = 64
"""Scenes that are sorted by the length of their prefix, so that those of a batch are alike."""
OPTIONS = 6
"""Most ways to go on that one place is taught."""
PARTS = 4
"""Into how many parts of similar length a batch's conversations are split."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedConversation:
    """One conversation as tokens. T of them."""

    ids_T: NDArray[np.int64]
    said_T: NDArray[np.bool_]
    """Whether the assistant says this token; those alone are learned."""
    options_TC: NDArray[np.int64]
    """Tokens that may stand there."""
    shares_TC: NDArray[np.float32]
    """How probable the teacher finds each; 1 for the token itself where there is no doubt."""
    doubted_T: NDArray[np.bool_]
    looks: tuple[tuple[int, tuple[int, ...]], ...]
    """Where a doubt stands, and behind which lessons it is decided, by their place in the scene."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A scene as tokens."""

    prefix_P: NDArray[np.int64]
    lines: tuple[EncodedConversation, ...]
    ends_K: NDArray[np.int64]
    """Places in the prefix behind each of K lessons."""
    sayings_KS: NDArray[np.float32]
    """Which of all S sayings each lesson holds: 1 or 0."""

    @property
    def tokens(self) -> int:
        """All of them, the prefix once."""
        return len(self.prefix_P) + sum(len(line.ids_T) for line in self.lines)


@dataclass(frozen=True, slots=True, eq=False)
class ConversationPart:
    """Conversations of similar length. N of them, padded to T tokens."""

    scene_N: Tensor
    """Which scene of the batch each belongs to."""
    ids_NT: Tensor
    real_NT: Tensor
    said_NT: Tensor
    options_NTC: Tensor
    shares_NTC: Tensor
    doubted_NT: Tensor
    looks_D2: Tensor
    """Conversation and place of each of D doubts."""
    aims_DP: Tensor
    """Where in the prefix to look for what decides it, in shares that sum to 1: at its start where nothing does."""


@dataclass(frozen=True, slots=True, eq=False)
class SceneBatch:
    """B scenes, their prefixes padded to P tokens; the conversations in parts, short ones apart from long ones."""

    prefix_BP: Tensor
    real_BP: Tensor
    parts: tuple[ConversationPart, ...]
    ends_K2: Tensor
    """Scene and place of each lesson's end."""
    sayings_KS: Tensor
    tokens: int
    """Without padding."""


class Encoder:
    """Turns scenes into tokens."""

    def __init__(self, tokenizer: "Tokenizer", sayings: Sequence[str]) -> None:
        self._sayings = {saying: at for at, saying in enumerate(sayings)}
        self._tokenizer = tokenizer
        self._texts = [tokenizer.decode([token]) for token in range(tokenizer.get_vocab_size())]
        self._tokens = {text: token for token, text in enumerate(self._texts)}

    def scene(self, scene: Scene) -> Encoded:
        """A scene as tokens."""
        opening = chatml.opening([Message("system", scene.system)], scene.tools)
        prefix = self._tokenizer.encode(opening)
        start = opening.index(scene.system)
        sayings_KS = np.zeros((len(scene.heard), len(self._sayings)), np.float32)
        for at, heard in enumerate(scene.heard):
            sayings_KS[at, [self._sayings[saying] for saying in heard.sayings]] = 1
        return Encoded(
            prefix_P=np.array(prefix.ids, np.int64),
            lines=tuple(map(self._line, scene.talks)),
            ends_K=np.array([prefix.char_to_token(start + heard.end) for heard in scene.heard], np.int64),
            sayings_KS=sayings_KS,
        )

    def _line(self, talk: Talk) -> EncodedConversation:
        ids: list[int] = []
        said: list[bool] = []
        for message in talk.messages:
            head, tail = f"{chatml.START}{message.role}\n", "\n"
            for text, speaks in ((head, False), (chatml.spoken(message) + chatml.END, True), (tail, False)):
                new = self._tokenizer.encode(text).ids
                ids += new
                said += [speaks and message.role == "assistant"] * len(new)
        options_TC, shares_TC = np.zeros((len(ids), OPTIONS), np.int64), np.zeros((len(ids), OPTIONS), np.float32)
        options_TC[:, 0], shares_TC[:, 0] = ids, 1.0
        doubted_T = np.zeros(len(ids), np.bool_)
        looks: list[tuple[int, tuple[int, ...]]] = []
        for at, options, lessons in self._places(ids, talk.doubts):
            looks.append((at, lessons))
            options_TC[at, : len(options)] = [token for token, _ in options]
            shares_TC[at, : len(options)] = [share for _, share in options]
            doubted_T[at] = True
        return EncodedConversation(
            np.array(ids, np.int64), np.array(said, np.bool_), options_TC, shares_TC, doubted_T, tuple(looks)
        )

    def _places(
        self, ids: Sequence[int], doubts: Sequence[Doubt]
    ) -> Iterator[tuple[int, list[tuple[int, float]], tuple[int, ...]]]:
        """Where each doubt stands, its options as tokens, and its lessons; one that is no single token is left out."""
        at = 0
        for doubt in doubts:
            for place in range(at, len(ids)):
                text = self._texts[ids[place]]
                written = next((words for words, _ in doubt.options if text.endswith(words)), None)
                if written is not None:
                    at, before = place + 1, text.removesuffix(written)
                    options = [(self._tokens.get(before + words), share) for words, share in doubt.options]
                    known = [(token, share) for token, share in options if token is not None]
                    if len(known) == len(options) <= OPTIONS:
                        yield place, known, doubt.lessons
                    break


def batches(scenes: Iterator[Scene], encoder: Encoder, size: int, seed: int) -> Iterator[SceneBatch]:
    """Batches of so many scenes, without end."""
    rng = Random(f"lab batches {seed}")
    while True:
        library_store = sorted((encoder.scene(one) for one in islice(scenes, SHELF)), key=lambda one: len(one.prefix_P))
        taken = [library_store[at : at + size] for at in range(0, SHELF, size)]
        rng.shuffle(taken)
        yield from map(batch_of, taken)


def batch_of(scenes: Sequence[Encoded]) -> SceneBatch:
    """The scenes as one batch."""
    prefix_BP, real_BP = _padded([one.prefix_P for one in scenes])
    lines = sorted(
        ((at, line) for at, one in enumerate(scenes) for line in one.lines), key=lambda one: len(one[1].ids_T)
    )
    cut = -(-len(lines) // PARTS)
    return SceneBatch(
        prefix_BP=prefix_BP,
        real_BP=real_BP,
        parts=tuple(_part(lines[at : at + cut], scenes, prefix_BP.shape[1]) for at in range(0, len(lines), cut)),
        ends_K2=torch.tensor([(at, int(end)) for at, one in enumerate(scenes) for end in one.ends_K]).reshape(-1, 2),
        sayings_KS=torch.from_numpy(np.concatenate([one.sayings_KS for one in scenes])),
        tokens=sum(one.tokens for one in scenes),
    )


def _part(lines: Sequence[tuple[int, EncodedConversation]], scenes: Sequence[Encoded], width: int) -> ConversationPart:
    ids_NT, real_NT = _padded([line.ids_T for _, line in lines])
    looks = [(at, place, scene, lessons) for at, (scene, line) in enumerate(lines) for place, lessons in line.looks]
    aims_DP = np.zeros((len(looks), width), np.float32)
    for row, (_, _, scene, lessons) in enumerate(looks):
        aims_DP[row, scenes[scene].ends_K[list(lessons)] if lessons else 0] = 1 / max(1, len(lessons))
    return ConversationPart(
        scene_N=torch.tensor([at for at, _ in lines]),
        ids_NT=ids_NT,
        real_NT=real_NT,
        said_NT=_padded([line.said_T for _, line in lines])[0],
        options_NTC=_padded([line.options_TC for _, line in lines])[0],
        shares_NTC=_padded([line.shares_TC for _, line in lines])[0],
        doubted_NT=_padded([line.doubted_T for _, line in lines])[0],
        looks_D2=torch.tensor([(at, place) for at, place, _, _ in looks], dtype=torch.int64).reshape(-1, 2),
        aims_DP=torch.from_numpy(aims_DP),
    )


def _padded(rows: Sequence[NDArray[Any]]) -> tuple[Tensor, Tensor]:
    """The rows one above the other, filled up with zeros, and which of it is real."""
    longest = max(len(row) for row in rows)
    padded = np.zeros((len(rows), longest, *rows[0].shape[1:]), rows[0].dtype)
    real = np.zeros((len(rows), longest), np.bool_)
    for at, row in enumerate(rows):
        padded[at, : len(row)] = row
        real[at, : len(row)] = True
    return torch.from_numpy(padded), torch.from_numpy(real)
