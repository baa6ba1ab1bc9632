# ruff: noqa: E501  a text of the source stands on one line
"""Faults in sampling from a model in this process: batch, key-value cache, queue, chat template."""

from tests.bench.planted_faults.fault import planted

_ENGINE = "unit/train/test_torch_engine.py"
_ROWS = "unit/train/test_kv_cache_rows.py"
_ROUNDS = "unit/train/test_request_rounds.py"
_SAMPLE = "unit/train/test_sample_tokens.py"
_TEMPLATE = "unit/train/test_chat_template.py"

_BATCH = planted(
    "engine/active_batch.py",
    "unit/train/test_served_limits.py",
    "unit/train/test_engine_requests.py",
    _ENGINE,
    faults={
        "stop tokens are ignored": ("stopped = request.ids[-1] in self._stop_ids", "stopped = False"),
        "the limit of tokens is one too high": (
            ">= request.sampling.max_tokens or",
            "> request.sampling.max_tokens or",
        ),
        "the context is ignored": ("or len(request.ids) >= self._context", ""),
        "the context is one too high": ("len(request.ids) >= self._context", "len(request.ids) > self._context"),
        "the temperature of the first request holds for all": (
            "[one.sampling.temperature for one in wanted]",
            "[wanted[0].sampling.temperature for one in wanted]",
        ),
        "top-p is ignored": ("[one.sampling.top_p for one in wanted]", "[1.0 for one in wanted]"),
        "top-k is ignored": ("[one.sampling.top_k for one in wanted]", "[0 for one in wanted]"),
        "all requests draw from one generator": (
            "[one.rng.random() for one in wanted]",
            "[wanted[0].rng.random() for one in wanted]",
        ),
        "logits that are not finite are sampled from": ("if not np.isfinite(numbers).all():", "if False:"),
        "a row's keys are one position off": (
            "at = self._rows.known[:count, None]",
            "at = self._rows.known[:count, None] + 1",
        ),
        "padding is written into the cache": (
            "at_B_Q if real_B_Q is None else np.where",
            "at_B_Q if True else np.where",
        ),
        "positions count padding": (
            "at = np.where(real, known[:, None] + places, 0)",
            "at = np.where(real, known[:, None] + places + 1, 0)",
        ),
        "cancelled requests stay": ("if self.requests[row].cancelled:", "if False:"),
        "the last request is lost when another leaves": (
            "if row < len(self.requests):",
            "if row < len(self.requests) - 1:",
        ),
        "keys and values are kept over a change of weights": ("        self._rows.forget()\n", "        pass\n"),
        "no request waits for another's prompt": (
            "if any(_shared(ids, other) >= known + WORTH_WAITING for other in joined):",
            "if False:",
        ),
        "memory counts keys without values": ("return 2 * model.dtype.itemsize", "return model.dtype.itemsize"),
    },
)

_CACHE = planted(
    "engine/kv_cache.py",
    "unit/train/test_kv_cache.py",
    _ENGINE,
    _ROWS,
    faults={
        "a swap through a view loses a row": (
            "store[[one, other]] = store[[other, one]]",
            "store[one], store[other] = store[other], store[one]",
        ),
        "a swap leaves the values": ("for store in (*self._keys, *self._values):", "for store in self._keys:"),
        "a copy leaves the values": ("for one in (*self._keys, *self._values):", "for one in self._keys:"),
        "a copy is of the whole row": ("one[target, :length] = one[source, :length]", "one[target] = one[source]"),
        "chosen rows are read from the first on": (
            "            self._rows_B = rows\n",
            "            self._rows_B = slice(0, len(rows))\n",
        ),
        "keys are read as values": ("self._values[layer_idx][self._rows_B]", "self._keys[layer_idx][self._rows_B]"),
        "every layer reads the first one": (
            "keys, values = self._keys[layer_idx][self._rows_B], self._values[layer_idx]",
            "keys, values = self._keys[0][self._rows_B], self._values[0]",
        ),
        "a new size forgets what is cached": ("        new[:rows, :width] = old[:rows, :width]\n", ""),
        "a new size loses the last column": (
            "min(old.shape[1] - 1, self.width)",
            "min(old.shape[1] - 1, self.width - 1)",
        ),
        "a new size keeps the column of padding": (
            "min(old.shape[1] - 1, self.width)",
            "min(old.shape[1], self.width)",
        ),
        "new memory of the cache has any values": ("return torch.zeros(shape,", "return torch.empty(shape,"),
        "memory of a larger cache has any values": ("new = old.new_zeros(", "new = old.new_empty("),
        "the copy of a prefix lacks its last column": (
            "one[target, :length] = one[source, :length]",
            "one[target, : length - 1] = one[source, : length - 1]",
        ),
    },
    equivalent={
        "a new size keeps the column of padding": (
            "the column lies behind the end of every row, so it is never read before it is overwritten"
        ),
    },
)

_CACHE_ROWS = planted(
    "engine/kv_cache_rows.py",
    "unit/train/test_served_limits.py",
    _ROWS,
    _ENGINE,
    faults={
        "a prefix may be the whole prompt": (
            "width = min(len(ids) - 1, self._ids.shape[1])",
            "width = min(len(ids), self._ids.shape[1])",
        ),
        "a prefix is one token too long": (
            "np.where(same.all(axis=1), width, same.argmin(axis=1))",
            "np.where(same.all(axis=1), width, np.minimum(width, same.argmin(axis=1) + 1))",
        ),
        "tokens that are not computed count as known": (
            "        same &= np.arange(width) < self.known[: self.filled, None]\n",
            "",
        ),
        "no prefix is reused": ("return (row, int(shared[row])) if shared[row] else (-1, 0)", "return -1, 0"),
        "the shortest prefix is taken": ("row = int(shared.argmax())", "row = int(shared.argmin())"),
        "a row in use is taken over": ("if source >= self.used and self.known", "if source >= 0 and self.known"),
        "forgetting keeps parked rows": ("        self.filled = self.used\n", ""),
        "forgetting keeps what is computed": ("        self.known[:] = 0\n", ""),
        "the row used last is overwritten": ("target = min(parked", "target = max(parked"),
        "parking does not move the last row": (
            "        self.used -= 1\n        self._swap(row, self.used)",
            "        self.used -= 1",
        ),
        "the memory limit is ignored": (
            "return max(1, min(2 * self._max_rows, self._tokens // max(1, width)))",
            "return 2 * self._max_rows",
        ),
        "a swap leaves the token ids": (
            "for table in (self._ids, self.known, self._touched):",
            "for table in (self.known, self._touched):",
        ),
        "a swap leaves what is known": (
            "for table in (self._ids, self.known, self._touched):",
            "for table in (self._ids, self._touched):",
        ),
        "a prefix is recorded but not copied": (
            "                self.kv_cache.copy(source, row, shared)",
            "                pass",
        ),
    },
    equivalent={
        "forgetting keeps parked rows": (
            "a parked row of which nothing is known shares nothing with any prompt, so it is never read; only which free"
            " row is overwritten first changes"
        ),
    },
)

_QUEUE = planted(
    "engine/request_queue.py",
    "unit/train/test_request_queue.py",
    _ROUNDS,
    _ENGINE,
    faults={
        "a step runs inside a pause": ("(not self._pauses and self._has_work(busy))", "self._has_work(busy)"),
        "a pause does not wait for the running step": (
            "            self._changed.wait_for(lambda: not self._stepping)\n",
            "",
        ),
        "the cache is valid after a pause": (
            "                self._pauses -= 1\n                self._cache_is_stale = True\n",
            "                self._pauses -= 1\n",
        ),
        "the cache is valid at the start of rounds": (
            "self._barrier, self._cache_is_stale = barrier, True",
            "self._barrier = barrier",
        ),
        "a round is in the order of arrival": (
            "sorted(here, key=lambda request: (request.sampling.seed, request.ids))",
            "here",
        ),
        "a round starts with the first request": ("if not here or len(here) < self._barrier.expected:", "if not here:"),
        "requests that had to wait go to the end": (
            "self._ready().extendleft(reversed(requests))",
            "self._ready().extend(requests)",
        ),
        "requests of the last round are lost": (
            "                self._waiting.extendleft(reversed(self._round))\n",
            "",
        ),
        "closing leaves requests without an answer": (
            "requests = [*self._round, *self._waiting]",
            "requests = list(self._round)",
        ),
    },
)

_SAMPLING = planted(
    "engine/sampling.py",
    "unit/train/test_served_limits.py",
    _SAMPLE,
    _ENGINE,
    faults={
        "the sampler ignores the temperature": ("logits_B_V / scale_B[:, None]", "logits_B_V"),
        "log-probabilities are at temperature 1": (
            "return ids_B, logprobs_B_V.gather",
            "return ids_B, torch.log_softmax(logits_B_V, dim=-1).gather",
        ),
        "temperature 0 samples": (
            "torch.where(greedy_B, logits_B_V.argmax(dim=-1), _inverse(probs_B_V, uniform_B))",
            "_inverse(probs_B_V, uniform_B)",
        ),
        "top-p keeps one token too few": (
            "before_B_V < share_B[:, None]",
            "before_B_V + sorted_B_V < share_B[:, None]",
        ),
        "top-k keeps one token too many": ("rank_V[None] < limit_B[:, None]", "rank_V[None] <= limit_B[:, None]"),
        "tokens of probability 0 are sampled": ("right=True", "right=False"),
        "the number beyond the last token": (
            "at_B = torch.minimum(uniform_B * whole_B, below_B)",
            "at_B = uniform_B * whole_B",
        ),
        "top-p is a share of all tokens": ("top_p_B.double() * sorted_B_V.sum(dim=-1)", "top_p_B.double()"),
        "top-p 1 loses tokens to rounding": (" | (top_p_B >= 1)[:, None]", ""),
    },
    equivalent={
        "the number beyond the last token": (
            "the product of a sum and a double below 1 is below the sum, so the limit only guards against draws in a"
            " shorter number format"
        ),
    },
)

_REQUEST = planted(
    "engine/sampling_request.py",
    _ENGINE,
    faults={
        "the seed of a request is ignored": ("np.random.default_rng(sampling.seed)", "np.random.default_rng(0)"),
        "the prompt's last token is part of the answer": (
            "self.ids[self.prompt_tokens :]",
            "self.ids[self.prompt_tokens - 1 :]",
        ),
        "every answer is complete": ('"stop" if stopped else "length"', '"stop"'),
    },
)

_TORCH_ENGINE = planted(
    "engine/torch_engine.py",
    "unit/train/test_served_limits.py",
    _ENGINE,
    faults={
        "the model is sampled in training mode": ("if self._model.training:", "if False:"),
        "a change of weights keeps the cache": ('if start == "step_after_change":', "if False:"),
        "a failed step leaves its requests waiting": (
            "failed = [*self._batch.requests, *self._queue.drain()]",
            "failed = [*self._queue.drain()]",
        ),
        "the next batch starts with the failed one": (
            "        self._batch = self._empty_batch()\n        for request",
            "        for request",
        ),
    },
)

_CHAT = planted(
    "engine/chat_template.py",
    "unit/train/test_served_limits.py",
    _TEMPLATE,
    faults={
        "the template's own end of an answer is not found": ("(set(after[:1]) & added))", "set())"),
        "the tokenizer's end of text is not a stop token": (
            "ends = {self._tokenizer.eos_token_id} - {None}",
            "ends = set()",
        ),
        "special tokens are added to each text": ("add_special_tokens=False", "add_special_tokens=True"),
        "special tokens are left out of answers": ("skip_special_tokens=False", "skip_special_tokens=True"),
        "the prompt does not open an answer": ("add_generation_prompt=answer", "add_generation_prompt=False"),
        "tools are not shown": ("tools=_definitions(tools) or None,", "tools=None,"),
        "texts are rendered again instead of inserted": (
            "        for mark, text in marks.items():\n            prompt = prompt.replace(mark, text)\n        return prompt",
            "        return self._rendered(messages, tools, style)",
        ),
        "a system message that does not fit is sent": ("if self.abilities.fold_system else", "if False else"),
        "a model without a stop token is served": ("if not self.stop_ids:", "if False:"),
    },
)

_ATTENTION = planted(
    "engine/attention.py",
    "unit/train/test_torch_engine.py",
    "unit/train/test_attention_and_head.py",
    faults={
        "a token does not attend to itself": ("seen = key_K <= at_B_1_Q_1", "seen = key_K < at_B_1_Q_1"),
        "a token attends to what follows": ("seen = key_K <= at_B_1_Q_1", "seen = key_K <= at_B_1_Q_1.max()"),
        "a window is ignored": ("if kind == SLIDING and size is not None:", "if False:"),
    },
)

_CHECK = planted(
    "engine/engine_check.py",
    "unit/train/test_attention_and_head.py",
    faults={
        "rows that change each other are computed together": (
            "        if not _rows_change_each_other(model, context):\n",
            "        if True:\n",
        ),
    },
)

_BARRIER = planted(
    "engine/round_barrier.py",
    "unit/train/test_request_rounds.py",
    faults={
        "a round waits for conversations that have ended": ("            self._left -= 1\n", "            pass\n"),
    },
)

ENGINE_FAULTS = (
    *_CHECK,
    *_BARRIER,
    *_ATTENTION,
    *_BATCH,
    *_CACHE,
    *_CACHE_ROWS,
    *_QUEUE,
    *_SAMPLING,
    *_REQUEST,
    *_TORCH_ENGINE,
    *_CHAT,
)
