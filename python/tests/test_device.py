# SPDX-License-Identifier: MIT
"""Devices by name, on a machine that may have the CPU only."""

import numpy as np
import pytest

import ebb


def test_tensors_know_their_device():
    x = ebb.tensor([1.0, 2.0])
    assert x.device == "cpu" and ebb.default_device() == "cpu" and ebb.is_available("cpu")
    assert x.to("cpu").tolist() == [1, 2] and x.to(ebb.float64).dtype == ebb.float64
    ebb.synchronize()


def test_a_device_that_is_not_there_is_an_error_that_names_it():
    missing = "cuda:15"
    assert not ebb.is_available(missing)
    for attempt in (
        lambda: ebb.ones(2).to(missing),
        lambda: ebb.set_default_device(missing),
        lambda: ebb.synchronize(missing),
        lambda: ebb.memory_stats(missing),
    ):
        with pytest.raises(Exception, match="there is no cuda:15 on this machine"):
            attempt()
    with pytest.raises(Exception, match="'gpu' is not a device; use cpu, cuda or cuda:N"):
        ebb.ones(2).to("gpu")


def test_tensors_are_made_where_device_says():
    assert ebb.tensor([1.0, 2.0], device="cpu").tolist() == [1, 2]
    assert ebb.zeros(2, device=ebb.device("cpu")).device == "cpu"
    with ebb.device("cpu") as device:
        assert str(device) == ebb.default_device() == ebb.ones(2).device
    with pytest.raises(Exception, match="there is no cuda:15 on this machine"):
        ebb.tensor([1.0], device="cuda:15").eval()
    with pytest.raises(Exception, match="there is no cuda:15 on this machine"), ebb.device("cuda:15"):
        pass
    assert ebb.default_device() == "cpu"


def test_readers_that_cannot_take_strides_get_the_elements_in_a_row():
    x = ebb.arange(6).reshape(2, 3).T.eval()
    there = np.asarray(x)
    assert np.array_equal(np.frombuffer(x, there.dtype), there.ravel())
