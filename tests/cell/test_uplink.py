"""The uplink leases the band and never oversells it."""

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.cell.uplink import Uplink
from netsim.trace.rows import Recorder


def test_who_finds_no_room_waits_for_who_came_before(world):
    first = world.device(0, bandwidth_hz=6e5)                  # 1 s computing, 1 s upload
    second = world.device(1, bandwidth_hz=6e5)
    assert world.play(first, second) == [
        ("compute", 0.0, 1.0), ("compute", 0.0, 1.0),
        ("upload", 1.0, 2.0), ("wait", 1.0, 2.0), ("upload", 2.0, 3.0),
    ]


def test_two_that_fit_upload_side_by_side(world):
    assert world.play(world.device(0, bandwidth_hz=5e5), world.device(1, bandwidth_hz=5e5)) == [
        ("compute", 0.0, 1.0), ("compute", 0.0, 1.0), ("upload", 1.0, 2.0), ("upload", 1.0, 2.0)]


@pytest.mark.parametrize("bandwidth_hz", [0.0, -1.0, 1.1e6, float("nan")])
def test_a_lease_that_can_never_fit_is_refused(world, bandwidth_hz):
    with pytest.raises(ValueError, match="does not fit a band"):
        world.uplink.lease(bandwidth_hz)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.lists(st.tuples(
    st.floats(0, 10), st.floats(0.001, 5), st.floats(1.0, 100.0), st.one_of(st.none(), st.floats(0, 10))), max_size=30))
def test_the_band_is_never_oversold_and_comes_back_whole(leases):
    env = simpy.Environment()
    recorder = Recorder()
    uplink = Uplink(env, 100.0, recorder)

    def use(start, seconds, bandwidth_hz, patience):
        yield env.timeout(start)
        lease = uplink.lease(bandwidth_hz)
        yield lease if patience is None else lease | env.timeout(patience)
        if lease.triggered:
            yield env.timeout(seconds)
        uplink.release(lease)

    for lease in leases:
        env.process(use(*lease))
    env.run()
    in_use = recorder.take().rows["value"]
    assert max(in_use, default=0.0) <= 100.0 * (1 + 1e-9)
    assert min(in_use, default=0.0) >= -1e-9
    assert uplink.in_use_hz == 0.0
