# SPDX-License-Identifier: MIT
"""What has one meaning and not another: axes that name nothing, cotangents of another shape, kinds of errors."""

import numpy as np
import pytest

import ebb

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def values(x):
    return x.numpy().tolist()


# ---- axes


def test_no_axes_are_no_axes():
    x = ebb.tensor(X)
    assert values(ebb.flip(x, axis=())) == X.tolist()
    assert values(ebb.flip(x)) == X[::-1, ::-1].tolist()
    one = ebb.ones((1, 3, 1))
    assert ebb.squeeze(one, axis=()).shape == (1, 3, 1)
    assert ebb.squeeze(one).shape == (3,)
    for name in ("any", "all"):
        found = getattr(ebb, name)(x, axis=())
        assert found.shape == (2, 3) and found.dtype == ebb.bool_
        assert values(found) == (X != 0).tolist()
    assert values(ebb.flip_backward(x, axis=())) == X.tolist()


def test_a_mask_without_axes_keeps_or_drops_everything():
    x = ebb.tensor(X)
    for kept in (True, False):
        for mask in (ebb.tensor(kept), np.array(kept)):
            assert x[mask].shape == X[np.array(kept)].shape
            assert values(x[mask]) == X[np.array(kept)].tolist()
    assert x[:, ebb.tensor(True)].shape == X[:, np.array(True)].shape


# ---- rules called by hand


def test_a_losses_rule_checks_the_shape_of_its_cotangent():
    a, b = ebb.tensor([1.0, 2.0, 3.0]), ebb.zeros((3,))
    with pytest.raises(ValueError, match=r"mse_loss_backward: the gradient has shape \[3\], the loss \[\]"):
        ebb.mse_loss_backward(ebb.tensor([1.0, 0.0, 0.0]), a, b)
    with pytest.raises(TypeError, match="^mse_loss_backward: grad is a tensor, got list$"):
        ebb.mse_loss_backward([1.0, 0.0, 0.0], a, b)
    assert ebb.mse_loss_backward(np.float32(1), a, b).input.shape == (3,)
    assert ebb.mse_loss_backward(ebb.tensor(1.0), a, b).input.shape == (3,)
    none = ebb.mse_loss_backward(ebb.ones((3,)), a, b, reduction="none")
    assert values(none.input) == [2.0, 4.0, 6.0]


def test_elementwise_rules_refuse_a_cotangent_that_is_too_large():
    with pytest.raises(ValueError, match=r"tanh_backward: the gradient has shape \[2, 3\], the result \[3\]"):
        ebb.tanh_backward(ebb.ones((2, 3)), ebb.ones((3,)))


@pytest.mark.parametrize("mode", ["circle", "zeros", ""])
def test_pads_rule_knows_its_modes(mode):
    with pytest.raises(ValueError, match="pad_backward: the mode is"):
        ebb.pad_backward(ebb.ones((5,)), (3,), [1, 1], mode=mode)


def test_inputs_in_a_list_are_a_clear_error():
    x = ebb.ones((2,))
    with pytest.raises(TypeError, match=r"checkpoint: input 0 is not a tensor but a list; give the tensors one by one"):
        ebb.checkpoint(lambda x: x, [x])
    with pytest.raises(TypeError, match="custom_function: input 0 is not a tensor but a list"):
        ebb.custom_function(lambda x: x, lambda g, y, inputs: [g], [x])
    assert values(ebb.checkpoint(lambda x: x * 2, x)) == [2.0, 2.0]


def test_docstrings_belong_to_their_functions():
    for name in ("stack_backward", "pad_backward", "flip_backward"):
        assert "those of the inputs along the axis" not in getattr(ebb, name).__doc__, name
    for name in ("slice_backward", "select_backward", "split_backward"):
        assert "came from position start" not in getattr(ebb, name).__doc__, name
    for name in ("scatter_add_backward", "index_select_backward", "index_add_backward"):
        assert "that a later one overwrote" not in getattr(ebb, name).__doc__, name
    assert "those of the inputs along the axis" in ebb.cat_backward.__doc__
    assert "came from position start" in ebb.narrow_backward.__doc__
    assert "that a later one overwrote" in ebb.scatter_backward.__doc__


def test_conventions_stand_beside_the_declarations():
    assert "half" in ebb.maximum.__doc__ and "half" in ebb.minimum.__doc__
    assert "equal" in ebb.max.__doc__ and "equal" in ebb.min.__doc__
    assert "0⁰" in ebb.pow.__doc__
    assert "0 at 0" in ebb.abs.__doc__ and "0 at 0" in ebb.relu.__doc__


# ---- errors


def test_running_out_of_memory_is_a_memory_error():
    before = ebb.memory_stats()["limit"]
    ebb.set_memory_limit(ebb.memory_stats()["live"] + (1 << 20))
    try:
        for look in (memoryview, np.asarray, lambda x: x.numpy(), lambda x: x.eval()):
            with pytest.raises(MemoryError):
                look(ebb.rand((1 << 20,)) + 1)
    finally:
        ebb.set_memory_limit(before)


def test_a_model_without_parameters_is_an_error():
    class Plain:  # not a Module
        def __init__(self):
            self.w = ebb.nn.Parameter(ebb.ones((2,)))

    model = Plain()
    gradients = ebb.backward(model.w.sum())
    with pytest.raises(ValueError, match="a Plain has no parameters; derive the model from ebb.nn.Module"):
        ebb.optim.Adam(lr=0.1).step(model, gradients)
    with pytest.raises(ValueError, match="no parameters"):
        ebb.optim.WeightEma(0.9).update(ebb.nn.ReLU())


# ---- numbers


def test_casts_to_u8_wrap_whatever_the_size():
    wide = np.array([300.0, 3e9, -1.0, 255.9])
    assert values(ebb.tensor(wide).cast("u8")) == wide.astype(np.int64).astype(np.uint8).tolist()


def test_zero_to_the_zero_has_gradient_zero_to_the_exponent():
    found = ebb.grad(lambda p: ebb.pow(ebb.zeros((3,)), p).sum())(ebb.tensor([0.0, 1.0, 2.0]))
    assert values(found) == [0.0, 0.0, 0.0]


def test_inverses_of_batches_have_the_batchs_shape():
    assert ebb.inv(ebb.zeros((0, 0, 0))).shape == (0, 0, 0)
    a = np.random.default_rng(0).normal(size=(3, 3, 3)) + 3 * np.eye(3)
    np.testing.assert_allclose(ebb.inv(ebb.tensor(a)).numpy(), np.linalg.inv(a), rtol=1e-10)


def test_cosines_of_large_vectors_are_numbers():
    a = ebb.full((2,), 1e30)
    assert abs(float(ebb.cosine_similarity_loss(a, a))) < 1e-6


# ---- shared memory


def test_exported_memory_is_read_only_where_the_protocol_can_say_so():
    x = ebb.tensor([1.0, 2.0])
    assert not np.from_dlpack(x).flags.writeable
    assert not np.asarray(x).flags.writeable
    with pytest.raises(ValueError):
        np.asarray(x)[0] = 5


def test_the_older_protocol_cannot_say_so_and_gives_a_copy():
    class Older:  # a consumer from before version 1 of DLPack asks without max_version
        def __init__(self, x):
            self.capsule = x.__dlpack__()

        def __dlpack__(self, **kwargs):
            if kwargs:
                raise TypeError("an older producer")
            return self.capsule

        def __dlpack_device__(self):
            return (1, 0)

    x = ebb.tensor([1.0, 2.0])
    taken = ebb.from_dlpack(Older(x))
    assert values(taken) == [1.0, 2.0]
    assert np.asarray(taken).ctypes.data != np.asarray(x).ctypes.data


def test_from_dlpack_says_that_the_memory_is_shared():
    array = np.array([1.0, 2.0], dtype=np.float32)
    shared, copied = ebb.from_dlpack(array), ebb.from_dlpack(array, copy=True)
    array[0] = 7
    assert values(shared) == [7.0, 2.0] and values(copied) == [1.0, 2.0]
    assert "must not be changed" in ebb.from_dlpack.__doc__


def test_arguments_of_a_wrong_type_are_type_errors():
    x = ebb.ones((1,))
    for call in (
        lambda: ebb.eval(x, None),
        lambda: ebb.interpolate(x, ebb.ones((2, 3, 4)), ebb.ones((3, 3))),
        lambda: ebb.bilinear(x, None, -1e308),
        lambda: ebb.upsample_bilinear(ebb.ones((2, 0)), float("inf")),
    ):
        with pytest.raises(TypeError):
            call()


def test_axes_of_matrix_norms_do_not_wrap_around():
    x = ebb.ones((2, 3, 4))
    assert ebb.linalg.matrix_norm(x, dim=(-3, -1)).shape == (3,)
    for dim in ((5, 6), (-4, 0), (0, 3)):
        with pytest.raises(IndexError, match="matrix_norm: axis"):
            ebb.linalg.matrix_norm(x, dim=dim)
    for y in (ebb.ones(()), ebb.ones((3,))):
        with pytest.raises(IndexError, match="matrix_norm: axis"):
            ebb.linalg.matrix_norm(y)
    with pytest.raises(ValueError, match="named twice"):
        ebb.linalg.matrix_norm(x, dim=(1, -2))


def test_channels_are_not_dealt_out_from_no_piles():
    for groups in (0, -1, 2):
        with pytest.raises(ValueError, match="channel_shuffle: 3 channels"):
            ebb.channel_shuffle(ebb.ones((2, 3, 4)), groups)
