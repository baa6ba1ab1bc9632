"""The prices of input and output tokens are found from the costs of replies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.models.price import ObservedPrice

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
