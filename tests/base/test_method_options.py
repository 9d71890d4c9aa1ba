"""A method and its options in one word."""

import pytest

from netsim.base.options import with_options


@pytest.mark.parametrize(("text", "found"), [
    ("sao", ("sao", {})),
    ("fedl:lambda=2", ("fedl", {"lambda": 2})),
    ("fedl:lambda=tuned", ("fedl", {"lambda": "tuned"})),
    ("rra:deadline=300ms,weight=1e-3", ("rra", {"deadline": "300ms", "weight": 1e-3})),
    ("package.module:function", ("package.module:function", {})),
])
def test_methods_with_and_without_options(text, found):
    assert with_options(text) == found
