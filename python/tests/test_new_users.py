# SPDX-License-Identifier: MIT
"""What people type who know PyTorch: it works, or the error says what to type instead."""

import pickle

import numpy as np
import pytest

import ebb
import ebb.nn as nn
import ebb.nn.functional as F
from ebb import _elsewhere
from ebb.data import DataLoader, Dataset, TensorDataset


def test_size_is_numpys_number_and_pytorchs_function():
    x = ebb.zeros(2, 3)
    assert x.size == 6 and x.size() == (2, 3) and x.size(0) == 2 and x.size(-1) == 3
    assert isinstance(x.size, int) and x.view(x.size(0), -1).shape == (2, 3)


def test_casts_are_methods_and_dtypes_have_pytorchs_names():
    x = ebb.tensor([0.0, 1.5])
    for name, dtype in dict(double="f64", half="f16", bfloat16="bf16", int="i32", long="i64", bool="bool").items():
        assert getattr(x, name)().dtype.name == dtype
        assert getattr(ebb, name).name == dtype
    assert x.double().float().dtype == ebb.float == ebb.float32
    assert x.type(ebb.f64).dtype == ebb.f64 and x.new_zeros((2,)).dtype == ebb.f32 and x.long().tolist() == [0, 1]


def test_functions_of_torch_agree_with_numpys():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    x, y = ebb.asarray(a), ebb.asarray(b)
    cases = [
        (ebb.tile(x, (2, 1)), np.tile(a, (2, 1))),
        (ebb.rot90(x, 3), np.rot90(a, 3, axes=(0, 1))),
        (ebb.diff(x, dim=0), np.diff(a, axis=0)),
        (ebb.trapezoid(x, dx=0.5), np.trapezoid(a, dx=0.5)),
        (ebb.cov(x), np.cov(a)),
        (ebb.corrcoef(x), np.corrcoef(a)),
        (ebb.block_diag(x, y), np.block([[a, np.zeros((3, 4))], [np.zeros((3, 4)), b]])),
        (ebb.cross(x[:, :3], y[:, :3]), np.cross(a[:, :3], b[:, :3])),
        (ebb.tensordot(x, y, dims=([0], [0])), np.tensordot(a, b, axes=([0], [0]))),
        (ebb.fmax(x, float("nan")), a),
        (ebb.sinc(x), np.sinc(a)),
        (ebb.take(x, ebb.tensor([0, -1])), a.ravel()[[0, -1]]),
        (ebb.logspace(0, 2, 3, dtype="f64"), np.logspace(0, 2, 3)),
        (ebb.diag_embed(x[0], 1), np.diag(a[0], 1)),
        (ebb.diag_embed(x[0], -2), np.diag(a[0], -2)),
        (ebb.kthvalue(x, 2).values, np.sort(a, axis=-1)[:, 1]),
        (ebb.var_mean(x, 1, correction=0).var, a.var(1)),
        (ebb.nanmean(ebb.where(x > 0, x, float("nan"))), a[a > 0].mean()),
        (ebb.masked_select(x, x > 0), a[a > 0]),
        (ebb.index_copy(x, 0, ebb.tensor([2, 0]), y[:2]), np.stack([b[1], a[1], b[0]])),
        (ebb.histc(x, 5, -1, 1), np.histogram(a, 5, (-1, 1))[0]),
        (ebb.tril_indices(3, 4, 1), np.stack(np.tril_indices(3, 1, 4))),
        (ebb.div(ebb.tensor([7, -7]), 2, rounding_mode="trunc"), [3, -3]),
    ]
    for k, (ours, numpys) in enumerate(cases):
        np.testing.assert_allclose(ours.numpy(), numpys, rtol=1e-6, atol=1e-12, err_msg=f"case {k}")
    assert ebb.bincount(ebb.tensor([1, 1, 3])).tolist() == [0, 2, 0, 1]
    assert ebb.isin(ebb.tensor([1, 2, 3]), ebb.tensor([3, 1])).tolist() == [True, False, True]
    assert [part.tolist() for part in ebb.tensor_split(ebb.arange(5), 3)] == [[0, 1], [2, 3], [4]]
    assert ebb.equal(x, x.clone()) and not ebb.equal(x, y) and not ebb.equal(x, x[0])


def test_draws_follow_their_weights():
    ebb.manual_seed(3)
    drawn = ebb.multinomial(ebb.tensor([1.0, 0.0, 3.0]), 4000, replacement=True)
    assert abs((drawn == 2).float().mean().item() - 0.75) < 0.03 and not (drawn == 1).any()
    few = ebb.multinomial(ebb.tensor([[1.0, 2.0, 0.0]]), 2).tolist()[0]
    assert sorted(few) == [0, 1]
    x = ebb.normal(2.0, 0.5, (4000,))
    assert abs(x.mean().item() - 2) < 0.05 and abs(x.std().item() - 0.5) < 0.05


def test_derivatives_of_sinc_are_finite_at_zero():
    at = ebb.tensor([0.0, 1e-9, 0.5], dtype="f64")
    first = ebb.grad(lambda x: ebb.sinc(x).sum())
    second = ebb.grad(lambda x: first(x).sum())
    assert abs(first(at)[0].item()) < 1e-12 and abs(second(at)[0].item() + np.pi**2 / 3) < 1e-9


@pytest.mark.parametrize(
    "call, hint",
    [
        (lambda: ebb.no_grad(), "not needed"),
        (lambda: ebb.save, "save_safetensors"),
        (lambda: ebb.autograd, "ebb.backward(loss)"),
        (lambda: ebb.fft, "complex"),
        (lambda: ebb.zeros(2).grad, "ebb.backward(loss)"),
        (lambda: ebb.zeros(2).add_(1), "x = x.add(...)"),
        (lambda: ebb.randn(2, 3).max(1).values, "argmax"),
        (lambda: nn.Sequential().register_buffer("b", 1), "nn.Buffer"),
        (lambda: nn.init.xavier_uniform_, "nn.init.xavier_uniform(layer.weight.shape)"),
        (lambda: nn.init.constant_, "ebb.full_like(layer.weight, 0.1)"),
        (lambda: nn.Sequential([nn.Linear(2, 2)]), "Sequential: layer 0 is a list, which cannot be called; use Sequential(*layers)"),
        (lambda: nn.Sequential(nn.ReLU(), dict(a=nn.ReLU())), "layer 1 is a dict, which cannot be called; use Sequential(*layers.v"),
        (lambda: nn.Sequential(3), "layer 0 is a int, which cannot be called"),
        (lambda: ebb.zeros(2).tobytes(), "x.numpy().tobytes()"),
        (lambda: ebb.zeros(2).fill(1), "full_like"),
        (lambda: ebb.optim.SGD(lr=0.1).zero_grad(), "nothing to zero"),
        (lambda: ebb.optim.Adam([ebb.zeros(2)], lr=0.1), "step(model, gradients)"),
        (lambda: ebb.optim.Adam(learning_rate=0.1), "Adam: got an unexpected keyword argument 'learning_rate'; its"),
        (lambda: ebb.value_and_grad(lambda m: 0)(nn.Linear(2, 2)), "ebb.backward(loss)"),
        (lambda: ebb.randn(2, generator=1), "ebb.manual_seed"),
        (lambda: ebb.data.random_split([1, 2], [1, 1], generator=1), "ebb.manual_seed"),
        (lambda: DataLoader(ebb.arange(3)), "a list of tensors"),
        (lambda: DataLoader([ebb.arange(3)], sampler=[1]), "there is no argument 'sampler'; choose examples by Subset"),
        (lambda: DataLoader([ebb.arange(3)], batchsize=1), "there is no argument 'batchsize'; help(ebb.data.DataLoader)"),
        (lambda: ebb.amp, "ebb.nn.cast_parameters"),
        (lambda: ebb.backends, "results are repeatable"),
        (lambda: ebb.optim.swa_utils, "ebb.optim.WeightEma"),
        (lambda: ebb.jacrev, "ebb.jacobian(f) is a function of x"),
        (lambda: ebb.random, "ebb.manual_seed(seed)"),
        (lambda: ebb.grad(lambda x: x.sum(), ebb.ones(2)), "got Tensor; grad(f) is a function of what f takes, grad(f)(x)"),
        (lambda: ebb.value_and_grad(ebb.ones(2)), "value_and_grad: takes a function, got Tensor"),
        (lambda: ebb.hessian(lambda x: x.sum(), argnums="x"), "hessian: argnums is a position or a tuple of positions, got str"),
        (lambda: ebb.gradcheck.gradcheck, "check_gradients(f, inputs)"),
        (lambda: ebb.io.save_safetensors({"x": ebb.ones(1)}, "x"), "takes a path, then tensors by name or a model, got str"),
        (lambda: ebb.io.save, "save_safetensors(path, model)"),
        (lambda: nn.utils, "ebb.optim.clip_by_norm"),
        (lambda: ebb.optim.lr_scheduler, "optimizer.lr = schedule(step)"),
        (lambda: ebb.optim.ReduceLROnPlateau, "ebb.optim.ReduceOnPlateau(lr)"),
        (lambda: ebb.optim.SGD(lr=0.1).set_lr(0.2), "use optimizer.lr = schedule(step)"),
        (lambda: ebb.optim.SGD(lr=ebb.optim.cosine_schedule(0.1, 9)), "SGD: lr is a number; with a schedule, optimizer.lr"),
        (lambda: ebb.array([1]), "use ebb.tensor(data), or ebb.asarray(array)"),
        (lambda: ebb.grad(lambda x: float(x))(ebb.ones(1)), "must return one tensor, got float, which has no history"),
        (lambda: ebb.hessian(lambda x: 3)(ebb.ones(1)), "must return one tensor, got int, which has no history"),
        (lambda: ebb.value_and_grad(lambda x: (x.sum(), x))(ebb.ones(1)), "got tuple; with has_aux=True"),
        (lambda: ebb.optim.SGD(lr=0.1).step(), "SGD.step: takes the model and its gradients"),
    ],
)
def test_what_is_not_there_says_what_is(call, hint):
    with pytest.raises((AttributeError, TypeError)) as error:
        call()
    assert hint in str(error.value)


@pytest.mark.parametrize("name", sorted(_elsewhere.INIT))
def test_what_is_said_of_first_values_runs_as_it_is_said(name):
    layer = nn.Linear(3, 2)
    with pytest.raises(AttributeError) as error:
        getattr(nn.init, name)
    call = str(error.value).split("use ")[1]
    exec(call, {"ebb": ebb, "nn": nn, "layer": layer})
    assert layer.weight.shape == (2, 3) and layer.weight.requires_grad


def test_first_values_have_pytorchs_defaults():
    ebb.manual_seed(0)
    normal, uniform = nn.init.normal(4000), nn.init.uniform(4000)
    assert abs(normal.mean().item()) < 0.06 and abs(normal.std().item() - 1) < 0.05
    assert 0 <= uniform.min().item() < 0.01 and 0.99 < uniform.max().item() <= 1


def test_lists_of_arrays_are_stacked():
    rows = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    assert ebb.tensor(rows).tolist() == ebb.asarray(rows).tolist() == [[1, 2], [3, 4]] and ebb.tensor(rows).dtype == ebb.f64
    assert ebb.tensor(rows, dtype="f32").dtype == ebb.f32
    assert ebb.tensor([[*rows], [*rows]]).shape == (2, 2, 2) and ebb.tensor((ebb.ones(2), ebb.zeros(2))).tolist() == [[1, 1], [0, 0]]
    assert ebb.tensor([np.float64(1), 2.5]).dtype == ebb.f32 and ebb.tensor([np.array(1.5), np.array(2)]).tolist() == [1.5, 2]
    assert ebb.tensor([np.array(3), np.int32(2)]).dtype == ebb.i64
    assert ebb.tensor(range(3)).tolist() == [0, 1, 2] and ebb.tensor([range(2), range(2)]).tolist() == [[0, 1], [0, 1]]
    assert ebb.zeros(3)[[np.array([0, 1])]].shape == (1, 2) and ebb.tensor([np.zeros((0, 2))]).shape == (1, 0, 2)
    x = ebb.variable(ebb.tensor([1.0, 2.0]))
    assert ebb.backward((ebb.tensor([x, x * x]) * ebb.tensor([[1.0], [10.0]])).sum())[x].tolist() == [21, 41]


def test_lists_that_are_no_arrays_say_why():
    endless = []
    endless.append(endless)
    for data, why in (
        (endless, "nested more than 8 deep"),
        ([np.ones(2), np.ones(3)], "stack"),
        ([np.ones(2), 1.0], "stack"),
        ([1.0, np.ones(2)], "cannot make a number of ndarray"),
        ([1.0, ebb.ones(2)], "only one element can be read"),
        ([np.array(["a"])], "no dtype for text"),
        (np.array([1.5, None], object), "no dtype for Python objects"),
        (np.array([1j]), "no dtype for complex numbers"),
        (np.array([1], np.uint16), "no dtype for elements of format 'H'"),
        (np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), "no dtype for records"),
    ):
        with pytest.raises((TypeError, ValueError), match=why):
            ebb.tensor(data)


def test_sorted_values_and_positions_have_their_names():
    x = ebb.tensor([[3.0, 1.0, 2.0]])
    assert x.sort().values.tolist() == [[1, 2, 3]] and ebb.sort(x, dim=-1, descending=True).indices.tolist() == [[0, 2, 1]]
    assert x.topk(2).indices.tolist() == [[0, 2]] and ebb.topk(ebb.tensor(5.0), 1).values.item() == 5
    values, places = x.topk(1)
    assert values.item() == 3 and places.item() == 0


def test_numbers_are_rounded_to_digits():
    x = ebb.tensor([1.234, 5.675, 1234.5], dtype="f64")
    for rounded in (x.round(1), ebb.round(x, 1), x.round(decimals=1), round(x, 1)):
        np.testing.assert_allclose(rounded.numpy(), [1.2, 5.7, 1234.5])
    assert x.round(-2).tolist() == [0, 0, 1200] and round(x[0]).item() == x.round()[0].item() == 1
    assert f"{round(x.mean(), 2).item()}" == "413.8"
    assert ebb.tensor([1e30, float("inf"), 0.25]).round(20).tolist() == ebb.tensor([1e30, float("inf"), 0.25]).tolist()
    with pytest.raises(ValueError, match="round: decimals must lie between -30 and 30, got 31"):
        x.round(31)


def test_gradients_do_not_know_what_a_step_has_made():
    model, x = nn.Linear(2, 1), ebb.ones((3, 2))
    before, grads = model.weight, ebb.backward(model(x).sum())
    ebb.optim.SGD(lr=0.1).step(model, grads)
    assert grads[before].tolist() == [[3, 3]] and model.weight not in grads
    with pytest.raises(ValueError, match="made after these gradients, by a step or an update; read its gradient before"):
        grads[model.weight]


def test_optimisers_print_their_numbers():
    optimizer = ebb.optim.Adam(3e-4, betas=(0.8, 0.99))
    assert repr(optimizer).startswith("Adam(lr=0.0003, betas=(0.8, 0.99), eps=1e-08")
    optimizer.lr = 0.5
    assert repr(optimizer).startswith("Adam(lr=0.5, betas=")
    assert repr(ebb.optim.make_optimizer("sgd", {"momentum": 0.9})).startswith("SGD(lr=")
    assert "momentum=0.9" in repr(ebb.optim.make_optimizer("sgd", {"momentum": 0.9}))


def test_integers_beyond_64_bits_are_named():
    for data in (2**63, [1, -(2**63) - 1]):
        with pytest.raises(ValueError, match="tensor: -?92233720368547758[0-9]* does not fit an integer of 64 bits"):
            ebb.tensor(data)
    assert ebb.tensor(2**63 - 1).item() == 2**63 - 1


@pytest.mark.parametrize("module, name, near", [(ebb, "sgimoid", "sigmoid"), (nn, "Liner", "Linear"), (ebb.optim, "Adamm", "Adam")])
def test_mistyped_names_of_modules_are_proposed(module, name, near):
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute '{name}'; did you mean {near}\\?$"):
        getattr(module, name)


def test_numpys_small_words():
    x = ebb.ones((2, 3), dtype="f64")
    assert x.copy().tolist() == x.tolist() and x.itemsize == 8 and x.nbytes == 48


def test_a_part_of_a_stack_of_layers_is_one():
    ebb.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    x = ebb.ones((1, 2))
    assert net[:2](x).shape == (1, 3) and ebb.allclose(net[2:](net[:2](x)), net(x)) and net[0].weight.shape == (3, 2)


def test_hints_do_not_make_attributes():
    for module in (ebb.io, ebb.optim, ebb.nn, ebb.gradcheck):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nothing'$"):
            module.nothing
    assert not hasattr(ebb, "no_grad") and not hasattr(ebb.zeros(1), "grad")
    with pytest.raises(AttributeError, match="no attribute 'nothing'$"):
        ebb.nothing
    with pytest.raises(AttributeError, match="no attribute 'nothing'$"):
        ebb.zeros(1).nothing


def test_functional_has_the_functions_of_the_package():
    assert F.relu is ebb.relu and F.cross_entropy is ebb.cross_entropy and nn.functional is F


def test_requires_grad_makes_a_variable():
    x = ebb.randn(3, requires_grad=True)
    assert x.requires_grad and ebb.backward((x**2).sum())[x].tolist() == (2 * x).tolist()


class Net(nn.Module):
    def __init__(self):
        self.layers = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 2)])
        self.named = nn.ModuleDict({"last": nn.Linear(2, 1)})
        self.scale = nn.Parameter(ebb.ones(1))

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.named["last"](x) * self.scale


def test_modules_are_found_and_visited():
    net = Net()
    assert [name for name, _ in net.named_modules()] == ["", "layers.0", "layers.1", "named.last"]
    assert [name for name, _ in net.named_parameters()][0] == "layers.0.weight" and len(net.parameters()) == 7
    assert len(list(net.children())) == 3
    seen = []
    assert net.apply(lambda layer: seen.append(type(layer).__name__)) is net
    assert seen == ["Linear", "Linear", "Linear", "Net"]
    assert net.half().layers[0].weight.dtype == ebb.f16 and net.float()(ebb.ones(1, 2)).shape == (1, 1)


def test_a_layers_tensor_can_be_replaced_by_one_of_its_shape():
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(ebb.zeros(2, 2))
    assert layer.weight.tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ValueError, match=r"weight has shape \(2, 2\), got \(3, 3\)"):
        layer.weight = ebb.ones(3, 3)
    with pytest.raises(AttributeError, match="no tensor 'wieght'"):
        layer.wieght = ebb.ones(2, 2)


@pytest.mark.parametrize(
    "layer, shape",
    [
        (nn.Linear(4, 3), (2, 4)),
        (nn.Conv2d(4, 3, 2, groups=1), (2, 4, 3, 3)),
        (nn.BatchNorm2d(4), (2, 4, 3, 3)),
        (nn.GRU(4, 3, 2), (2, 2, 4)),
        (nn.TransformerBlock(4, 2), (2, 3, 4)),
        (nn.TransformerBlock(4, 2, 6, norm_first=False, activation="relu", layer_norm_eps=0.5), (2, 3, 4)),
        (nn.TransformerBlock(4, 2, recompute_activation=True), (2, 3, 4)),
        (nn.Sequential(nn.Linear(4, 3), nn.ReLU()), (2, 4)),
    ],
)
def test_layers_are_pickled_with_their_numbers(layer, shape):
    x = ebb.randn(shape)
    layer.eval()
    again, before = pickle.loads(pickle.dumps(layer)), layer(x)
    after = again(x)
    first = lambda y: y[0] if isinstance(y, tuple) else y  # noqa: E731
    assert repr(again) == repr(layer) and ebb.equal(first(before), first(after))


def test_cells_are_steps_of_the_layers():
    for name in ("RNN", "LSTM", "GRU"):
        layer, cell = getattr(nn, name)(3, 4), getattr(nn, name + "Cell")(3, 4)
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(cell, part, dict(layer.named_parameters())[part + "_l0"])
        x, state = ebb.randn(5, 2, 3), None
        for step in range(5):
            state = cell(x[step], state)
        last = state[0] if name == "LSTM" else state
        assert ebb.allclose(last, layer(x)[0][4], atol=1e-6)


def test_further_layers_compute_their_functions():
    x, volume = ebb.randn(2, 4, 6, 6), ebb.randn(1, 2, 4, 4, 4)
    conv = nn.Conv3d(2, 4, 3, stride=2, padding=1, groups=2)
    assert ebb.equal(conv(volume), F.conv3d(volume, conv.weight, conv.bias, 2, 1, 1, 2))
    back = nn.ConvTranspose3d(2, 3, 2, stride=2, output_padding=1)
    assert ebb.equal(back(volume), F.conv_transpose3d(volume, back.weight, back.bias, 2, 0, 1))
    assert ebb.equal(nn.CircularPad2d(1)(x), F.pad(x, (1, 1, 1, 1), "circular"))
    assert nn.ConstantPad1d((1, 2), 5.0)(ebb.zeros(1, 2)).tolist() == [[5, 0, 0, 5, 5]]
    assert ebb.equal(nn.Upsample(scale_factor=2, mode="bilinear")(x), F.interpolate(x, scale_factor=2, mode="bilinear"))
    assert ebb.equal(nn.PixelShuffle(2)(x), F.pixel_shuffle(x, 2)) and ebb.equal(nn.Identity(3)(x), x)
    assert ebb.equal(nn.Unflatten(1, (2, 2))(x), x.reshape(2, 2, 2, 6, 6))
    assert ebb.equal(nn.MaxPool3d(2)(volume), F.max_pool3d(volume, 2))
    assert ebb.equal(nn.CosineSimilarity(1)(x, x + 1), F.cosine_similarity(x, x + 1, 1))
    bilinear = nn.Bilinear(3, 4, 2)
    assert bilinear(ebb.randn(5, 3), ebb.randn(5, 4)).shape == (5, 2) and len(bilinear.parameters()) == 2
    drop = nn.Dropout2d(0.5)
    assert not ebb.equal(drop(x), x) and ebb.equal(drop.eval()(x), x)
    bags = nn.EmbeddingBag(5, 3, mode="sum")
    assert ebb.allclose(bags(ebb.tensor([[0, 1]])), (bags.weight[0] + bags.weight[1])[None])


class Squares(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, k):
        return np.float32(k), k * k


def test_loaders_take_data_sets():
    batches = [(x.tolist(), y.tolist()) for x, y in DataLoader(Squares(), batch_size=2, shuffle=False, num_workers=2)]
    assert batches == [([0, 1], [0, 1]), ([2, 3], [4, 9]), ([4], [16])]
    rows = TensorDataset(ebb.arange(4), ebb.arange(4) * 2)
    assert [y.tolist() for _, y in DataLoader(rows, 2, shuffle=False)] == [[0, 2], [4, 6]] and rows[1][1].item() == 2
    joined = DataLoader(Squares(), 5, shuffle=False, collate_fn=lambda rows: ebb.tensor([float(x) for x, _ in rows]))
    assert next(iter(joined)).tolist() == [0, 1, 2, 3, 4]


class Named(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, k):
        return {"x": ebb.ones(2) * k, "pair": (k, [float(k)])}


def test_batches_look_like_the_examples():
    batches = list(DataLoader(Named(), 2, shuffle=False, num_workers=2, persistent_workers=True))
    assert [b["x"].tolist() for b in batches] == [[[0, 0], [1, 1]], [[2, 2], [3, 3]], [[4, 4]]]
    assert [b["pair"][0].tolist() for b in batches] == [[0, 1], [2, 3], [4]] and batches[2]["pair"][1][0].tolist() == [4]
    loader = DataLoader([ebb.tensor([1.0]), ebb.tensor([2.0])], 2, shuffle=False, collate_fn=ebb.stack)
    assert loader.next().tolist() == [[1], [2]] and loader.next() is None
    changing = iter(DataLoader(Squares(), 1, shuffle=False, collate_fn=lambda rows: [rows[0][0]] * (1 + rows[0][1])))
    next(changing)
    with pytest.raises(ValueError, match="every batch must have the structure of the first"):
        next(changing)
    with pytest.raises(TypeError, match="cannot make a tensor of str; leave it out, or pass collate_fn="):
        next(DataLoader(["a", "b"], 2, collate_fn=ebb.data.default_collate))
    with pytest.raises(ValueError):  # tuples of several lengths
        next(DataLoader([(1,), (1, 2)], 2, collate_fn=ebb.data.default_collate))


def test_random_split_and_subsets():
    ebb.manual_seed(0)
    rows = TensorDataset(ebb.arange(10), ebb.arange(10) * 2)
    train, test = ebb.data.random_split(rows, [7, 3])
    assert sorted(train.indices + test.indices) == list(range(10)) and train.indices != sorted(train.indices)
    assert [len(part) for part in ebb.data.random_split(Squares(), [0.5, 0.25, 0.25])] == [3, 1, 1]
    (x, y), *rest = DataLoader(ebb.data.Subset(rows, [5, 1, 4]), 2, shuffle=False)
    assert x.tolist() == [5, 1] and y.tolist() == [10, 2] and len(rest) == 1 and rest[0][0].tolist() == [4]
    by_example = DataLoader(ebb.data.Subset(Squares(), np.array([4, 2])), 2, shuffle=False)
    assert [part.tolist() for part in next(by_example)] == [[4, 2], [16, 4]]
    for lengths in ([7, 2], [0.5, 0.4], [10.0], [11, -1][:1]):
        with pytest.raises(ValueError, match="random_split: lengths must add up to 10"):
            ebb.data.random_split(rows, lengths)


def test_weights_that_do_not_fit_can_be_left_out():
    net, other = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), nn.Sequential(nn.Linear(2, 3))
    state = {**other.state_dict(), "more": ebb.ones(1)}
    kept = net[1].weight.tolist()
    found = net.load_state_dict(state, strict=False)
    assert found.missing_keys == ["1.bias", "1.weight"] and found.unexpected_keys == ["more"]
    assert net[0].weight.tolist() == other[0].weight.tolist() and net[1].weight.tolist() == kept
    assert net.load_state_dict(net.state_dict()) == ([], [])
    with pytest.raises(ValueError, match="0.weight has shape"):
        net.load_state_dict({"0.weight": ebb.ones(1)}, strict=False)
    with pytest.raises(TypeError, match="takes tensors by name, got str; ebb.io.load_safetensors"):
        net.load_state_dict("net.safetensors")


def test_files_are_named_by_paths(tmp_path):
    net, x = nn.Linear(2, 1), ebb.tensor([1.0, 2.0])
    io, data = ebb.io, ebb.data
    io.save_safetensors(tmp_path / "net", net)
    assert net.load_state_dict(io.load_safetensors(tmp_path / "net")) == ([], [])
    assert set(io.Safetensors(tmp_path / "net").keys()) == {"weight", "bias"}
    io.save_npy(tmp_path / "x.npy", x)
    io.save_npz(tmp_path / "x.npz", {"x": x})
    io.save_checkpoint(tmp_path / "run", io.Checkpoint({"x": x}, step=3))
    assert io.load_npy(tmp_path / "x.npy").tolist() == io.load_npz(tmp_path / "x.npz")["x"].tolist() == [1, 2]
    assert io.load_checkpoint(tmp_path / "run").step == 3
    assert io.previous_checkpoint(tmp_path / "run.safetensors") == str(tmp_path / "run.previous.safetensors")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    assert data.read_csv(tmp_path / "rows.csv")[1].tolist() == [[1, 2]] and data.read_text(tmp_path / "rows.csv").shape == (8,)
    pairs = data.BytePairs.train("the cat and the cat", 260)
    pairs.save(tmp_path / "pairs")
    assert data.BytePairs.load(tmp_path / "pairs").tokens == pairs.tokens
    for name, size in (("disc", 4), ("cross", 4)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        (tmp_path / "pictures" / name / "0.pgm").write_bytes(b"P5 %d %d 255\n" % (size, size) + bytes(size * size))
    pictures = data.read_image_folder(tmp_path / "pictures", channels=1)
    assert pictures["images"].shape == (2, 1, 4, 4) and pictures["classes"] == ["cross", "disc"]
    for read in (data.read_idx, data.read_image, data.read_image_folder, data.Tokenizer.load, ebb.models.load_llama):
        with pytest.raises(OSError, match="nothing"):
            read(tmp_path / "nothing")
    for read in (data.read_cifar10, data.read_cifar100):
        with pytest.raises(OSError, match="nothing"):
            read([tmp_path / "nothing"])


def test_schedules_take_numbers_by_position():
    optim = ebb.optim
    for by_position, by_name in (
        (optim.cosine_schedule(0.1, 90, 0.01), optim.cosine_schedule(lr=0.1, steps=90, min_lr=0.01)),
        (optim.step_schedule(0.1, 30, 0.5), optim.step_schedule(0.1, step_size=30, gamma=0.5)),
        (optim.linear_schedule(0.1, 1.0, 0.0, 50), optim.linear_schedule(0.1, start_factor=1.0, end_factor=0.0, steps=50)),
    ):
        rates = [by_position(step) for step in range(100)]
        assert rates == [by_name(step) for step in range(100)] and rates[0] == 0.1 and rates[99] < 0.05


def test_adaptive_pools_say_where():
    x = ebb.randn(2, 3, 7, 5)
    values, at = F.adaptive_max_pool2d(x, (3, 2), return_indices=True)
    assert ebb.equal(values, F.adaptive_max_pool2d(x, (3, 2)))
    assert ebb.equal(x.reshape(2, 3, -1).gather(2, at.reshape(2, 3, -1)).reshape(2, 3, 3, 2), values)
    values, at = F.adaptive_max_pool1d(x[0], 3, return_indices=True)
    assert ebb.equal(x[0].gather(2, at), values)
    volume = ebb.randn(1, 2, 5, 4, 3)
    values, at = F.adaptive_max_pool3d(volume, (2, 3, 2), return_indices=True)
    assert ebb.equal(volume.reshape(2, -1).gather(1, at.reshape(2, -1)).reshape(values.shape), values)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_pictures_keep_their_mean_and_linear_functions(mode):
    # A filter that grows with the step sees every pixel: the mean of a picture that is halved stays, point sampling's not.
    x = ebb.zeros(1, 1, 16, 16, dtype="f64") + (ebb.arange(16) % 4 == 0).double()
    smooth = F.interpolate(x, (4, 4), mode=mode, antialias=True)
    assert abs(smooth[..., 1:3].mean().item() - 0.25) < 0.02
    ramp = (ebb.zeros(8, 1, dtype="f64") + ebb.arange(8).double())[None, None]
    inner = F.interpolate(ramp, (8, 4), mode=mode, antialias=True)[0, 0, 0, 1:3]
    assert ebb.allclose(inner, ebb.tensor([2.5, 4.5], dtype="f64"), atol=0.05)
    with pytest.raises(ValueError, match="antialias is for the modes bilinear and bicubic"):
        F.interpolate(x, (4, 4), mode="nearest", antialias=True)


def test_conv_tbc_is_conv1d_with_axes_in_another_order():
    x, weight, bias = (ebb.randn(*shape, dtype="f64") for shape in ((7, 2, 3), (4, 3, 5), (5,)))
    for pad in (0, 2):
        expected = F.conv1d(x.permute((1, 2, 0)), weight.permute((2, 1, 0)), bias, padding=pad).permute((2, 0, 1))
        assert ebb.allclose(F.conv_tbc(x, weight, bias, pad), expected, atol=1e-12)
    assert F.conv_tbc(x, weight[:1], bias).shape == (7, 2, 5)


def test_grids_of_volumes_and_bicubic_grids_at_pixels_give_the_pixels():
    picture, volume = ebb.randn(1, 2, 4, 5, dtype="f64"), ebb.randn(1, 2, 3, 4, 5, dtype="f64")
    eye = ebb.eye(3, dtype="f64")[:2][None]
    grid = F.affine_grid(eye, (1, 2, 4, 5), align_corners=True)
    assert ebb.allclose(F.grid_sample(picture, grid, mode="bicubic", align_corners=True), picture, atol=1e-9)
    grid = F.affine_grid(ebb.eye(4, dtype="f64")[:3][None], (1, 2, 3, 4, 5), align_corners=False)
    for mode in ("bilinear", "nearest", "bicubic"):
        assert ebb.allclose(F.grid_sample(volume, grid, mode=mode, align_corners=False), volume, atol=1e-9)
    with pytest.raises(ValueError, match="mode is"):
        F.grid_sample(volume, grid, mode="cubic")


def test_kthvalue_of_every_k():
    x = ebb.tensor([[3, 1, 2, 1, 5], [9, 9, 9, 9, 9]])
    for k in range(1, 6):
        values, places = ebb.kthvalue(x, k)
        assert values.tolist() == [sorted([3, 1, 2, 1, 5])[k - 1], 9]
        assert ebb.take_along(x, places.unsqueeze(1), 1).squeeze(1).tolist() == values.tolist()
        assert ebb.kthvalue(x.T, k, 0, keepdim=True).values.tolist() == [values.tolist()]
    long = ebb.tensor(np.random.default_rng(5).permutation(4001).astype(np.float32))
    for k in (1, 700, 4000, 4001):
        found = ebb.kthvalue(long, k)
        assert found.values.item() == k - 1 and long[found.indices].item() == k - 1


def test_of_slices_copied_to_one_place_the_last_stays_and_gets_the_gradient():
    for n in (30, 3):  # three slices are compared with one another, or numbered
        x, s = (ebb.variable(ebb.randn(*shape, dtype="f64")) for shape in ((2, n), (2, 3)))
        weight = ebb.arange(2.0 * n, dtype="f64").reshape((2, n)) + 1
        y = ebb.index_copy(x, 1, ebb.tensor([2, 0, 2]), s)
        assert ebb.allclose(y[:, 2], s[:, 2]) and ebb.allclose(y[:, 0], s[:, 1])
        d = ebb.backward((y * weight).sum())
        assert d[s].numpy().tolist() == [[0, 1, 3], [0, n + 1, n + 3]]
        left = weight.numpy().copy()
        left[:, [0, 2]] = 0
        assert (d[x].numpy() == left).all()


def test_an_affine_grid_is_a_product_with_coordinates_and_one():
    theta = ebb.randn(2, 3, 4, dtype="f64")
    grid = F.affine_grid(theta, (2, 1, 3, 4, 5), align_corners=True)
    x, y, z = -1 + 2 * 3 / 4, -1 + 2 * 1 / 3, 1.0  # of element [2, 1, 3]
    expected = theta @ ebb.tensor([x, y, z, 1.0], dtype="f64")
    assert ebb.allclose(grid[:, 2, 1, 3], expected, atol=1e-12)
    half = F.affine_grid(theta[:, :2, :3].cast("bf16"), (2, 1, 3, 4), align_corners=False)
    assert half.dtype == ebb.bf16 and half.shape == (2, 3, 4, 2)


@pytest.mark.parametrize("dtype", ["bool", "u8", "f16", "bf16", "i32", "f32", "i64", "f64"])
def test_rows_of_any_few_bytes_are_copied_whole(dtype):
    for width in [*range(1, 20), 31, 32, 33, 63, 64, 65, 130]:
        a, b = (np.arange(5 * n).reshape(5, n) % 2 + k for k, n in ((0, width), (0, 3)))
        joined = ebb.cat([ebb.tensor(b).to(dtype), ebb.tensor(a).to(dtype)], 1)
        assert (np.asarray(joined.to("i64")) == np.concatenate([b, a], 1)).all(), width


def test_slices_are_replaced_along_every_axis():
    a = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    x = ebb.tensor(a)
    for axis in (0, 1, 2, -1):
        for start, end, step in ((0, 1, 1), (1, 4, 1), (0, a.shape[axis], 1), (-2, None, 1), (0, 4, 2), (2, 2, 1)):
            at = [slice(None)] * 3
            at[axis] = slice(start, end, step)
            expected = a.copy()
            expected[tuple(at)] = -expected[tuple(at)] - 1
            source = ebb.tensor(np.ascontiguousarray(expected[tuple(at)]))
            if source.numel():
                assert (np.asarray(ebb.slice_scatter(x, source, axis, start, end, step)) == expected).all(), (axis, start)
        row = ebb.ones([n for k, n in enumerate(a.shape) if k != axis % 3])
        expected = a.copy()
        np.moveaxis(expected, axis, 0)[2] = 1
        assert (np.asarray(ebb.select_scatter(x, row, axis, 2)) == expected).all()
    value, gradient = ebb.value_and_grad(lambda x: ebb.sum(ebb.slice_scatter(x, x[1:3] * 2, 0, 0, 2) * ebb.tensor(a)))(x)
    expected = a.copy()
    expected[:2] = 0
    expected[1:3] += 2 * a[:2]
    assert (np.asarray(gradient) == expected).all()
    assert value.item() == pytest.approx((np.concatenate([2 * a[1:3], a[2:]]) * a).sum())


@pytest.mark.parametrize("offset", [0, 1, -1, 4, -7])
def test_diagonals_of_batches(offset):
    for shape in ((5,), (2, 3), (3, 1), (2, 2, 4)):
        a = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
        n = shape[-1] + abs(offset)
        expected = np.stack([np.diag(row, offset) for row in a.reshape(-1, shape[-1])]).reshape(*shape[:-1], n, n)
        assert (np.asarray(ebb.diag_embed(ebb.tensor(a), offset)) == expected).all()
        assert (np.asarray(ebb.grad(lambda x: ebb.sum(ebb.diag_embed(x, offset) * 3))(ebb.tensor(a))) == 3).all()
