"""A run's state goes through a checkpoint unchanged."""

import numpy as np
import pytest

from netsim.state import RunState


def test_arrays_and_back():
    state = RunState.fresh(3)
    state.used_j[1] = 0.1 + 0.2
    state.round, state.dropped, state.last_row, state.next_seq = 4, 1, 17, 40
    state.time_s, state.energy_j = 1 / 3, 2 / 3
    state.trace_sha256 = "a1b2"
    state.accuracy = [0.5, float("nan"), 0.75]
    state.weights = np.array([1.5, -2.0], np.float32)
    state.server = {"velocity": np.array([0.25])}
    state.selection = {"clusters": np.array([0, 1, 1])}
    back = RunState.of(state.arrays(), devices=3, parameters=2)
    for name, array in state.arrays().items():
        np.testing.assert_array_equal(back.arrays()[name], array, strict=True)
    assert (back.time_s, back.energy_j, back.trace_sha256, back.round) == (1 / 3, 2 / 3, "a1b2", 4)


def test_a_fresh_state_has_no_model():
    assert RunState.of(RunState.fresh(2).arrays(), 2, None).weights is None


@pytest.mark.parametrize(("devices", "parameters"), [(2, 4), (3, 5), (3, None)])
def test_arrays_of_another_run_are_refused(devices, parameters):
    state = RunState.fresh(3)
    state.weights = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match=f"{devices} devices|no model of {parameters} parameters"):
        RunState.of(state.arrays(), devices, parameters)
