"""A method and its options in one word."""

import pytest

from netsim.base.errors import InputError
from netsim.base.method_options import with_options


@pytest.mark.parametrize(("text", "found"), [
    ("sao", ("sao", {})),
    ("fedl:lambda=2", ("fedl", {"lambda": 2})),
    ("fedl:lambda=tuned", ("fedl", {"lambda": "tuned"})),
    ("rra:deadline=300ms,weight=1e-3", ("rra", {"deadline": "300ms", "weight": 1e-3})),
    ("package.module:function", ("package.module:function", {})),
])
def test_methods_with_and_without_options(text, found):
    assert with_options(text) == found


@pytest.mark.parametrize("text", ["fedl:lambda=2,", "fedl:lambda=2,tuned", "fedl:=2"])
def test_what_is_no_option_is_named(text):
    with pytest.raises(InputError, match="is no option; write fedl:key=value"):
        with_options(text)
