"""The prices of input and output tokens are found from the costs of replies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.models.token_estimate import ObservedPrice

tokens = st.integers(1, 100_000)
dollars = st.floats(1e-8, 1e-3)


def observed(*replies: tuple[int, int, float]) -> ObservedPrice:
    price = ObservedPrice()
    for reply in replies:
        price.add(*reply)
    return price


@given(st.lists(st.tuples(tokens, tokens), min_size=2, max_size=30), dollars, dollars)
def test_prices_that_do_not_change_are_found(sizes: list[tuple[int, int]], price_in: float, price_out: float) -> None:
    sizes += [(1_000, 10), (10, 1_000)]
    found = observed(*((into, out, into * price_in + out * price_out) for into, out in sizes)).per_token()
    assert found == pytest.approx((price_in, price_out), rel=1e-3, abs=1e-3 * min(price_in, price_out))


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0, 10)), max_size=30))
def test_no_price_is_negative_and_none_is_needed(replies: list[tuple[int, int, float]]) -> None:
    price_in, price_out = observed(*replies).per_token()
    assert price_in >= 0
    assert price_out >= 0


def test_one_reply_leaves_room_for_dear_output() -> None:
    price_in, price_out = observed((1_000, 100, 1_000 * 1e-6 + 100 * 4e-6)).per_token()
    assert price_in == pytest.approx(1.4e-3 / 1_100)
    assert 4e-6 < price_out <= 8 * price_in


def test_free_replies_cost_nothing() -> None:
    assert observed((10, 10, 0.0), (20, 5, 0.0)).per_token() == (0.0, 0.0)
