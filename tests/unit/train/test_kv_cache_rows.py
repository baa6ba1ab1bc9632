"""Rows of the key-value cache: a row always holds the keys of its own tokens."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import numpy as np  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from agentlearn.train.engine.active_batch import KVCache, KVCacheRows  # noqa: E402

BEGIN = [[7] * 40, [7] * 30 + [8] * 30, [9] * 3]
PROMPTS = st.tuples(st.sampled_from(BEGIN), st.lists(st.integers(1, 3), min_size=1, max_size=20)).map(
    lambda parts: [*parts[0], *parts[1]]
)


def compute(rows, row, ids):
    """What a model would do: write a key for each token that is not known yet. Keys are the tokens themselves."""
    known = int(rows.known[row])
    fresh = torch.tensor(ids[known:], dtype=torch.float32)
    at = torch.arange(known, len(ids))[None]
    rows.kv_cache.aim(torch.tensor([row]), at, len(ids))
    states = fresh[None, None, :, None].expand(1, 2, -1, 4)
    keys, values = rows.kv_cache.update(states, -states, 0)
    rows.known[row] = len(ids)
    return keys[0, 0, :, 0].tolist(), values[0, 1, :, 3].tolist()


def held(rows, row, length):
    rows.kv_cache.aim(torch.tensor([row]), torch.full((1, 1), rows.kv_cache.width), length)
    keys, _ = rows.kv_cache.update(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 1, 4), 0)
    return keys[0, 0, :, 0].tolist()


@given(st.lists(st.tuples(st.integers(0, 3), PROMPTS), max_size=30), st.integers(1, 6), st.sampled_from([1, 200, 9999]))
def test_a_row_holds_its_own_tokens_whatever_happened_before(events, max_rows, tokens):
    rows = KVCacheRows(KVCache(), max_rows=max_rows, bytes_per_token=1, cache_bytes=tokens)
    active: list[list[int]] = []
    for kind, ids in events:
        if kind == 0 and active:
            row = len(ids) % len(active)
            rows.park(row)
            last = active.pop()
            if row < len(active):
                active[row] = last
        elif rows.room or not active:
            known = rows.take(np.array(ids))
            row = rows.used - 1
            assert known < len(ids)
            active.append(ids)
            keys, values = compute(rows, row, ids)
            assert keys == ids
            assert values == [-one for one in ids]
        assert rows.used == len(active) <= max(1, max_rows)
        assert rows.filled <= max(rows.kv_cache.rows, 1)
        for row, own in enumerate(active):
            assert held(rows, row, len(own)) == own
            assert rows.read(row, 0, len(own)).tolist() == own


def test_bytes_bound_what_is_parked_but_one_row_always_fits():
    rows = KVCacheRows(KVCache(), max_rows=8, bytes_per_token=1, cache_bytes=400)
    for at in range(6):
        rows.take(np.array([at] * 50))
        compute(rows, 0, [at] * 50)
        rows.park(0)
    assert rows.kv_cache.rows * rows.kv_cache.width <= 400
    rows.take(np.arange(1_000))
    assert rows.used == 1
    assert rows.room == 0
