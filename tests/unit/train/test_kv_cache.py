# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""The tensors of the key-value cache: what is written, read, copied, swapped and kept when the size changes."""

from collections.abc import Generator

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import Tensor

from agentlearn.train.engine.kv_cache import KVCache

HEADS, SIZE, LAYERS = 2, 3, 2


def states(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def filled(rows: int = 3, width: int = 4) -> tuple[KVCache, list[Tensor]]:
    """A cache with random content. Returns also keys and values of each layer, (rows, heads, width, size)."""
    cache, wanted = KVCache(), list[Tensor]()
    cache.resize(rows, width)
    cache.aim(rows, torch.arange(width).expand(rows, width), width)
    for layer in range(LAYERS):
        keys, values = (states(rows, HEADS, width, SIZE, seed=2 * layer + n) for n in (0, 1))
        cache.update(keys, values, layer)
        wanted += [keys, values]
    return cache, wanted


def held(cache: KVCache) -> list[Tensor]:
    """Keys and values of each layer, read without changing any of them."""
    cache.aim(cache.rows, torch.full((cache.rows, 1), cache.width), cache.width)
    padding = torch.full((cache.rows, HEADS, 1, SIZE), 99.0)
    return [one.clone() for layer in range(LAYERS) for one in cache.update(padding, padding, layer)]


def equal(found: list[Tensor], wanted: list[Tensor]) -> bool:
    return len(found) == len(wanted) and all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))


def test_keys_and_values_of_each_layer_are_read_as_they_were_written() -> None:
    cache, wanted = filled()
    assert equal(held(cache), wanted)


def test_padding_is_written_nowhere_that_is_read() -> None:
    cache, wanted = filled()
    held(cache)  # writes padding
    assert equal(held(cache), wanted)


@pytest.mark.parametrize("rows", [2, [2, 0]])
def test_chosen_rows_are_written_and_read_in_their_order(rows: int | list[int]) -> None:
    cache, wanted = filled()
    index = list(range(rows)) if isinstance(rows, int) else rows
    fresh = states(2, HEADS, 1, SIZE, seed=9)
    cache.aim(rows if isinstance(rows, int) else torch.tensor(rows), torch.tensor([[1], [2]]), 3)
    keys, values = cache.update(fresh, -fresh, 1)
    for place, (row, column) in enumerate(zip(index, (1, 2), strict=True)):
        wanted[2][row, :, column], wanted[3][row, :, column] = fresh[place, :, 0], -fresh[place, :, 0]
    assert torch.equal(keys, wanted[2][index, :, :3])
    assert torch.equal(values, wanted[3][index, :, :3])
    assert equal(held(cache), wanted)


def test_a_copy_is_the_beginning_of_keys_and_values_in_every_layer() -> None:
    cache, wanted = filled()
    cache.copy(2, 0, 3)
    for one in wanted:
        one[0, :, :3] = one[2, :, :3]
    assert equal(held(cache), wanted)


def test_a_swap_exchanges_two_whole_rows() -> None:
    cache, wanted = filled()
    cache.swap(0, 2)
    assert equal(held(cache), [one[[2, 1, 0]] for one in wanted])
    cache.swap(1, 1)
    assert equal(held(cache), [one[[2, 1, 0]] for one in wanted])


@pytest.mark.parametrize(("rows", "width"), [(3, 4), (5, 9), (2, 4), (3, 2), (1, 7), (6, 3)])
def test_what_fits_into_a_new_size_is_kept(rows: int, width: int) -> None:
    cache, wanted = filled()
    held(cache)  # writes padding
    cache.resize(rows, width)
    assert (cache.rows, cache.width) == (rows, width)
    kept_rows, kept_width = min(rows, 3), min(width, 4)
    for found, one in zip(held(cache), wanted, strict=True):
        assert found.shape == (rows, HEADS, width, SIZE)
        assert torch.equal(found[:kept_rows, :, :kept_width], one[:kept_rows, :, :kept_width])


@pytest.fixture
def filled_with_nan() -> Generator[None]:
    """Memory that torch allocates without values holds NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("filled_with_nan")
def test_what_was_never_written_is_finite() -> None:
    """Attention multiplies masked values by 0, which does not remove a NaN."""
    assert torch.empty(1).isnan().all()
    cache = KVCache()
    cache.resize(2, 3)
    one = states(1, HEADS, 1, SIZE, seed=0)
    for width in (3, 6):
        cache.resize(2, width)
        cache.aim(torch.tensor([0]), torch.tensor([[0]]), width)
        for found in cache.update(one, one, 0):
            assert found.isfinite().all()
