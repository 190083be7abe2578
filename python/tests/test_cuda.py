# SPDX-License-Identifier: MIT
"""Tensors on cuda:0, a GPU or the emulated device: where they are, how they are read, and DLPack with streams."""

import copy
import ctypes
import enum
import gc
import pickle

import cuda_device
import numpy as np
import pytest

import ebb
from capsules import NAMES, Array, Deleter, Managed, int64s, new_capsule

EMULATED = cuda_device.find()


def on_gpu(numbers, **options):
    return ebb.tensor(numbers, device="cuda", **options)


def test_tensors_are_made_and_moved():
    x = on_gpu([[1.0, 2.0], [3.0, 4.0]])
    assert x.device == "cuda:0" and x.is_cuda and not x.cpu().is_cuda
    assert x.tolist() == x.cpu().tolist() == x.to("cpu").cuda().to("cuda:0").cuda(0).tolist() == [[1, 2], [3, 4]]
    assert x.to(ebb.device("cpu")).device == "cpu" and x.cpu().to(x).device == "cuda:0"
    assert x.to("cuda", ebb.float64, non_blocking=True).dtype == ebb.float64
    assert x.to(device="cpu").device == "cpu" and x.to_device("cpu").device == "cpu"
    assert ebb.zeros(2, device="cuda").device == "cuda:0"
    with pytest.raises(ValueError, match="there is no cuda:7"):
        x.cuda(7)
    with pytest.raises(ValueError, match="operands on cuda:0 and cpu"):
        (x + ebb.tensor([1.0, 2.0])).eval()


def test_a_device_scope_is_the_default_within_it():
    with ebb.device("cuda") as device:
        assert device == "cuda:0" and device.type == "cuda" and device.index == 0 and str(device) == "cuda:0"
        x = ebb.tensor([1.0, 2.0])
        assert ebb.default_device() == x.device == "cuda:0" and ebb.cuda.current_device() == 0
    assert ebb.default_device() == "cpu" and ebb.tensor([1.0]).device == "cpu"
    assert ebb.device("cuda", 0) == ebb.device("cuda:0") != ebb.device("cpu") and ebb.device("cpu").index is None


def test_numbers_are_read_through_the_host():
    x = on_gpu([[1.0, 2.0], [3.0, 4.0]])
    assert float(x[1, 0]) == 3 and x[0].tolist() == [1, 2] and x[:, 1].tolist() == [2, 4]
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]] and x.sum().item() == 10
    assert "device='cuda:0'" in repr(x) and "2" in str(x) and "cuda:0" in x._repr_html_()
    for read in (x.numpy, lambda: np.asarray(x), lambda: memoryview(x)):
        with pytest.raises(TypeError, match=r"the tensor is on cuda:0; copy it .* with \.cpu\(\)"):
            read()
    assert x.cpu().numpy().tolist() == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="cannot be assigned to"):
        x[0] = 1


def test_arrays_of_numbers_index_it():
    x = on_gpu([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert x[on_gpu([2, 0])].tolist() == [[5, 6], [1, 2]]
    assert x[[2, 0]].tolist() == [[5, 6], [1, 2]] and x[np.array([1])].tolist() == [[3, 4]]
    assert x[np.array([True, False, True])].tolist() == [[1, 2], [5, 6]]


def test_variables_are_variables_there():
    x = on_gpu([1.0, 2.0, 3.0], requires_grad=True)
    gradient = ebb.backward((x * x).sum())[x]
    assert gradient.device == "cuda:0" and gradient.tolist() == [2, 4, 6]


def test_models_are_moved_and_trained():
    ebb.manual_seed(0)
    points = ebb.randn((16, 3))
    model = ebb.nn.Sequential(ebb.nn.Linear(3, 4), ebb.nn.Tanh(), ebb.nn.Linear(4, 1))
    there = copy.deepcopy(model).to("cuda")
    assert {p.device for p in there.parameters()} == {"cuda:0"} and all(p.requires_grad for p in there.parameters())
    losses = []
    for each in (model, there):
        x = points.to(each.parameters()[0].device)
        y = x.sum(1, keepdim=True)
        optimizer = ebb.optim.AdamW(lr=0.05)
        for _ in range(4):
            loss = ebb.mse_loss(each(x), y)
            optimizer.step(each, ebb.backward(loss))
        losses.append(float(loss))
    assert abs(losses[0] - losses[1]) < 1e-5 * abs(losses[0])
    assert there.cpu() is there and {p.device for p in there.parameters()} == {"cpu"}
    half = ebb.nn.Linear(2, 2).to("f16")
    assert half.weight.dtype == "f16" and ebb.nn.Linear(2, 2).to("cuda", "bf16").weight.dtype == "bf16"


def test_files_and_pickles_hold_its_numbers(tmp_path):
    x = on_gpu([[1.0, 2.0], [3.0, 4.0]])
    ebb.io.save_npz(str(tmp_path / "x.npz"), {"x": x})
    ebb.io.save_safetensors(str(tmp_path / "x.safetensors"), {"x": x})
    for loaded in (ebb.io.load_npz(str(tmp_path / "x.npz")), ebb.io.load_safetensors(str(tmp_path / "x.safetensors"))):
        assert loaded["x"].tolist() == x.tolist() and loaded["x"].to("cuda").tolist() == x.tolist()
    same = pickle.loads(pickle.dumps(x))
    assert same.device == "cuda:0" and same.tolist() == x.tolist()


def test_a_loader_gives_batches_where_it_was_made():
    with ebb.device("cuda"):
        loader = ebb.data.DataLoader([ebb.arange(12).cast("f32").reshape(6, 2)], 2, shuffle=False, workers=1)
    batches = [batch[0] for batch in loader]
    assert [b.device for b in batches] == ["cuda:0"] * 3
    assert [b.tolist() for b in batches] == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]


def test_memory_is_counted():
    ebb.cuda.synchronize()
    gc.collect()
    before = ebb.cuda.memory_allocated()
    ebb.cuda.reset_peak_memory_stats()
    x = on_gpu([0.0] * 1000).eval()
    assert ebb.cuda.memory_allocated() >= before + 4000
    del x
    assert ebb.cuda.memory_allocated() == before and ebb.cuda.max_memory_allocated() >= before + 4000
    assert ebb.cuda.memory_reserved() >= 4000
    ebb.cuda.empty_cache()
    assert ebb.cuda.memory_reserved() == ebb.cuda.memory_allocated()
    assert ebb.cuda.device_count() >= 1 and "compute capability" in ebb.cuda.get_device_name(0)
    with pytest.raises(ValueError, match="cpu is not a GPU"):
        ebb.cuda.synchronize("cpu")


def test_errors_of_the_data_are_raised_by_whoever_reads():
    loss = ebb.cross_entropy(on_gpu([[0.0] * 4] * 3), on_gpu([0, 9, 1]))
    with pytest.raises(IndexError, match=r"target\[1\] = 9 is outside \[0, 4\)"):
        loss.item()


# ---- DLPack


def test_dlpack_says_where_it_is_and_shares_memory():
    x = on_gpu([[1.0, 2.0], [3.0, 4.0]]).eval()
    assert x.__dlpack_device__() == (2, 0)
    live = ebb.cuda.memory_allocated()
    y = ebb.from_dlpack(x)
    assert y.device == "cuda:0" and y.tolist() == x.tolist() and ebb.cuda.memory_allocated() == live
    view = ebb.from_dlpack(x[:, 1])  # strides are followed, not copied
    assert ebb.cuda.memory_allocated() == live and view.tolist() == [2, 4]
    assert (view + y[0]).tolist() == [3, 6]
    copied = ebb.from_dlpack(x, copy=True).eval()
    assert ebb.cuda.memory_allocated() > live and copied.tolist() == x.tolist()
    assert ebb.from_dlpack(x, device="cpu").device == "cpu"
    assert np.from_dlpack(HostCopy(x)).tolist() == x.tolist()
    with pytest.raises(BufferError, match="copied only to the CPU"):
        x.__dlpack__(dl_device=(2, 5))
    with pytest.raises(ValueError, match="by a copy only"):
        ebb.from_dlpack(x, device="cpu", copy=False)
    for stream in (0, -5):
        with pytest.raises(ValueError, match="is not a stream"):
            x.__dlpack__(stream=stream)
    with pytest.raises(TypeError, match="a stream is a number"):
        x.__dlpack__(stream="default")


class HostCopy:
    """Asks for a copy in the host's memory, as numpy.from_dlpack(x, device="cpu") does."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **arguments):
        return self.x.__dlpack__(**{**arguments, "dl_device": (1, 0), "copy": None})

    def __dlpack_device__(self):
        return (1, 0)


def test_layers_are_made_where_they_are_told():
    nn = ebb.nn
    for layer in (
        nn.Linear(3, 2, device="cuda"),
        nn.BatchNorm2d(3, device="cuda:0"),
        nn.Conv2d(1, 2, 3, device=ebb.device("cuda")),
        nn.LSTM(3, 4, device="cuda"),
        nn.MultiheadAttention(4, 2, device="cuda"),
        nn.GRUCell(3, 4, device="cuda"),
    ):
        assert all(tensor.is_cuda for tensor in layer.state_dict().values())
    assert all(tensor.requires_grad for tensor in nn.Linear(3, 2, device="cuda").parameters())


def test_the_memory_of_a_capsule_is_kept_and_given_back():
    ebb.cuda.synchronize()
    live = ebb.cuda.memory_allocated()
    x = (on_gpu([1.0, 2.0, 3.0]) * 2).eval()
    capsule = x.__dlpack__(max_version=(1, 0))
    del x
    gc.collect()
    assert ebb.cuda.memory_allocated() > live
    y = ebb.from_dlpack(capsule)
    del capsule
    assert y.tolist() == [2, 4, 6]
    del y
    ebb.cuda.synchronize()
    gc.collect()
    assert ebb.cuda.memory_allocated() == live


if EMULATED:  # what the streams of a GPU are asked for cannot be seen

    def test_the_consumers_stream_waits_and_is_waited_for():
        x = (on_gpu([1.0, 2.0]) + 1).eval()
        stream = EMULATED.new_stream()
        there = cuda_device.number(stream)
        EMULATED.stream_calls()
        capsule = x.__dlpack__(stream=stream, max_version=(1, 0))
        assert EMULATED.stream_calls()[-2:] == ["record 1", f"wait {there}"]
        del x, capsule
        gc.collect()
        assert EMULATED.stream_calls() == [f"record {there}", "wait 1"]  # before the block is used again
        capsule = on_gpu([1.0]).eval().__dlpack__(stream=-1)
        EMULATED.stream_calls()
        del capsule
        assert EMULATED.stream_calls() == []

    def test_the_producer_is_told_our_stream():
        asked = []

        class Producer:
            def __init__(self, x):
                self.x = x

            def __dlpack__(self, *, stream, max_version=None):
                asked.append(stream)
                return self.x.__dlpack__(stream=-1, max_version=max_version)

            def __dlpack_device__(self):  # PyTorch's kind is of an enumeration
                kind, index = self.x.__dlpack_device__()
                return enum.IntEnum("Kind", {"gpu": kind}).gpu, index

        x = on_gpu([1.0, 2.0]).eval()
        assert ebb.from_dlpack(Producer(x)).tolist() == [1, 2]
        stream = EMULATED.new_stream()
        with ebb._core._OnStream(0, stream):
            ebb.from_dlpack(Producer(x))
        with ebb._core._OnStream(0, 0):  # the default stream
            ebb.from_dlpack(Producer(x))
        assert [cuda_device.number(asked[0]), asked[1], asked[2]] == [1, stream, 1]

    def test_a_scope_computes_on_its_stream_with_the_librarys_memory():
        blocks = {}

        def allocate(size):
            block = ctypes.create_string_buffer(size + 256)
            address = (ctypes.addressof(block) + 255) // 256 * 256
            blocks[address] = block
            return address

        x = on_gpu([[0.5, 1.0, 2.0]] * 4).eval()
        stream = EMULATED.new_stream()
        memory = ebb._core._library_memory(allocate, blocks.pop)
        ebb.cuda.synchronize()
        EMULATED.stream_calls()
        with ebb._core._OnStream(0, stream, memory):
            y = ebb.softmax(x, 1).eval()
            assert ebb._core._memory_of(y)[0] in blocks
        launches = {call for call in EMULATED.stream_calls() if call.startswith(("launch", "synchronize"))}
        assert len(blocks) == 1 and launches == {f"launch {cuda_device.number(stream)}"}
        assert y.sum().item() == pytest.approx(4)
        del y
        gc.collect()
        assert not blocks

    def test_what_a_library_cannot_allocate_is_its_own_error():
        def refuse(size):
            raise KeyError("nothing left")

        x = on_gpu([1.0, 2.0]).eval()
        memory = ebb._core._library_memory(refuse, print)
        with pytest.raises(KeyError, match="nothing left"), ebb._core._OnStream(0, EMULATED.new_stream(), memory):
            (x * 3).eval()
        assert (x * 3).tolist() == [3, 6]


def test_gradients_of_others_are_scaled_where_they_lie():
    for dtype in ("f32", "bf16", "f16", "f64"):
        g = (ebb.arange(19).cast(dtype).to("cuda") + 0).eval()
        ebb._core._scale(g, on_gpu(1.0))
        assert g.tolist() == list(range(19))
        ebb._core._scale(g, on_gpu(0.5, dtype="f64"))
        assert g.tolist() == [i / 2 for i in range(19)]
        ebb._core._scale(g, on_gpu(float("inf")))
        assert g.tolist() == [0] + [float("inf")] * 18


# ---- capsules that lie


KEPT = []  # what capsules point to


def capsule(shape=(2,), strides=None, data=256, device=(2, 0), rank=None, bits=32):
    sizes, steps = int64s(shape), int64s(strides)
    array = Array(data, *device, len(shape) if rank is None else rank, 2, bits, 1, sizes, steps, 0)
    managed = Managed(array, None, Deleter())
    KEPT.append((managed, sizes, steps))
    return new_capsule(ctypes.addressof(managed), NAMES[Managed], None)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"device": (2, 9)}, "there is no cuda:9"),
        ({"device": (2, -1)}, "is not a device"),
        ({"device": (2, 99)}, "is not a device"),
        ({"device": (10, 0)}, "device of type 10"),
        ({"rank": -1}, "-1 dimensions"),
        ({"rank": 40}, "40 dimensions"),
        ({"shape": (-2,)}, "is negative"),
        ({"shape": (1 << 62, 4)}, "more elements than memory"),
        ({"shape": (3, 3), "strides": (1 << 62, 1 << 62)}, "lead out of memory"),
        ({"data": None}, "has no memory"),
        ({"data": 258}, "not a multiple"),
        ({"bits": 24}, "there is no dtype"),
    ],
)
def test_capsules_that_lie_are_errors(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ebb.from_dlpack(capsule(**arguments))


def test_pinned_and_empty_arrays_are_taken():
    numbers = (ctypes.c_float * 2)(1.5, 2.5)
    assert ebb.from_dlpack(capsule(data=ctypes.addressof(numbers), device=(3, 0))).tolist() == [1.5, 2.5]
    assert ebb.from_dlpack(capsule(shape=(0, 3), data=None)).shape == (0, 3)
