"""Random streams: named, fixed, and independent of each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.base.rng import STREAM, stream


def test_a_stream_depends_on_its_name_and_numbers_alone():
    first = stream(7, "shadowing", 3, 5).random(4)
    stream(7, "fading").random(100)
    assert np.array_equal(first, stream(7, "shadowing", 3, 5).random(4))


def test_every_part_of_the_key_counts():
    keys = [(1, "fading", 0, 0), (2, "fading", 0, 0), (1, "shadowing", 0, 0), (1, "fading", 1, 0), (1, "fading", 0, 1)]
    assert len({stream(*key).random() for key in keys}) == len(keys)


def test_is_the_seed_sequence_that_the_design_names():
    expected = np.random.default_rng(np.random.SeedSequence(11, spawn_key=(STREAM["budget"], 2, 3))).random(3)
    assert np.array_equal(stream(11, "budget", 2, 3).random(3), expected)


def test_no_two_names_share_a_number():
    assert len(set(STREAM.values())) == len(STREAM)


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(KeyError, match='did you mean \\\\?"shadowing'):
        stream(1, "shadwing")


@given(seed=st.integers(0, 2**200), round_=st.integers(0, 2**40), device=st.integers(0, 2**70))
def test_a_stream_is_numpys_seed_sequence_with_its_key(seed, round_, device):
    key = (STREAM["fading"], round_, device)
    theirs = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
    assert stream(seed, "fading", round_, device).random(4).tolist() == theirs.random(4).tolist()


def test_numbers_below_zero_are_no_seeds():
    with pytest.raises(ValueError, match="below 0"):
        stream(-1, "fading")
