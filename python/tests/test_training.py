# SPDX-License-Identifier: MIT
"""Models, optimisers, data and files."""

import inspect

import numpy as np
import pytest

import ebb
from ebb import nn, optim


class Net(nn.Module):
    def __init__(self):
        self.layers = [nn.Linear(4, 16), nn.Linear(16, 3)]
        self.scale = nn.Parameter([1.0])
        self.count = nn.Buffer(ebb.tensor(0))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.layers[1](self.drop(ebb.relu(self.layers[0](x)))) * self.scale


def problem(n=300):
    ebb.manual_seed(1)
    x = ebb.randn((n, 4)).eval()
    return x, (x[:, :3]).argmax(1).eval()


def test_names_and_states():
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert names == ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias", "scale"]
    assert [name for name, _ in net.named_buffers()] == [
        "count"
    ] and net.parameter_count() == 4 * 16 + 16 + 16 * 3 + 3 + 1
    other = Net()
    other.load_state_dict(net.state_dict())
    x, _ = problem(10)
    assert bool((net.eval()(x) == other.eval()(x)).all())
    with pytest.raises(ValueError, match="missing \\['scale'\\]"):
        other.load_state_dict({k: v for k, v in net.state_dict().items() if k != "scale"})
    with pytest.raises(ValueError, match="scale has shape"):
        other.load_state_dict({**net.state_dict(), "scale": ebb.zeros(2)})


def test_training_mode_reaches_layers():
    net, x = Net(), problem(50)[0]
    assert bool((net.eval()(x) == net(x)).all())
    net.train()
    assert not bool((net(x) == net(x)).all())


OPTIMISERS = [
    optim.SGD(0.1, momentum=0.9),
    optim.Adam(0.02),
    optim.AdamW(0.02, decays="matrices"),
    optim.RAdam(0.02),
    optim.RMSprop(0.01),
    optim.Adagrad(0.1),
    optim.Lion(0.005),
    optim.Lamb(0.02),
    optim.Lars(10.0),
]


def test_optimisers_are_those_of_the_registry():
    assert {type(o) for o in OPTIMISERS} <= {optim.make_optimizer(e["name"]).__class__ for e in optim.optimizer_registry}
    for entry in optim.optimizer_registry:
        made = optim.make_optimizer(entry["name"], {"lr": 0.25})
        signature = inspect.signature(type(made))
        assert made.lr == 0.25 and isinstance(made, optim.Optimizer)
        for name, default, meaning in entry["options"]:
            argument = signature.parameters.get(name)
            assert argument.default == default if argument else default in signature.parameters["betas"].default
            assert meaning in type(made).__doc__
    assert optim.Adam(betas=(0.5, 0.6)).lr == 1e-3
    with pytest.raises(ValueError, match="did you mean 'adamw'"):
        optim.make_optimizer("adamv")
    with pytest.raises(ValueError, match="it has no option 'speed'"):
        optim.make_optimizer("sgd", {"speed": 1.0})
    with pytest.raises(TypeError):
        optim.SGD(speed=1.0)
    with pytest.raises(ValueError, match="betas are 2 numbers, got 3"):
        optim.Adam(betas=(0.1, 0.2, 0.3))


@pytest.mark.parametrize("optimizer", OPTIMISERS, ids=[type(o).__name__ for o in OPTIMISERS])
def test_optimisers_learn(optimizer):
    x, y = problem()
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 3))
    first = None
    for _ in range(40):
        loss = ebb.cross_entropy(net(x), y)
        gradients, norm = optim.clip_by_norm(ebb.backward(loss), 5.0)
        optimizer.step(net, gradients)
        first = first or float(loss)
    assert float(loss) < 0.8 * first and float(norm) > 0
    assert int(net.state_dict()["2.num_batches_tracked"]) == 40
    assert len(optimizer.state()) > 0
    optimizer.load_state(optimizer.state())


def test_a_step_on_a_dict_with_gradients_of_a_function():
    params = {"w": ebb.variable(ebb.tensor([1.0, 2.0])), "b": ebb.variable(ebb.tensor(0.0))}
    gradients = ebb.grad(lambda p: (p["w"] ** 2).sum() + p["b"])(params)
    optim.SGD(0.5).step(params, gradients)
    assert params["w"].tolist() == [0, 0] and params["b"].item() == -0.5


def test_scaler_average_accumulator_and_schedules():
    net = nn.Linear(2, 1)
    x, y = ebb.randn((8, 2)), ebb.randn((8, 1))
    scaler, average, optimizer = optim.LossScaler(scale=8.0), optim.WeightEma(0.5), optim.SGD(0.1)
    average.update(net)
    before = net.weight.numpy().copy()
    assert scaler.step(optimizer, net, ebb.backward(scaler.scale(ebb.mse_loss(net(x), y)))) and scaler.steps == 1
    average.update(net)
    after = net.weight.numpy().copy()
    halfway = average.averaged(net)
    assert net.weight.tolist() == after.tolist()
    np.testing.assert_allclose(halfway.weight.numpy(), (before + after) / 2, rtol=1e-6)
    average.assign_to(net)
    np.testing.assert_allclose(net.weight.numpy(), (before + after) / 2, rtol=1e-6)
    total = optim.GradientAccumulator()
    for _ in range(2):
        total.add(ebb.backward(ebb.mse_loss(net(x), y)))
    assert total.count == 2 and len(total.take_mean()) == 2
    schedule = optim.warm_up(optim.cosine_schedule(1.0, steps=10), 2)
    assert schedule(0) == 0 and schedule(2) == 1 and schedule(12) == pytest.approx(0)
    assert optim.one_cycle_schedule(0.1, 100)(30) == pytest.approx(0.1, rel=0.1)
    plateau = optim.ReduceOnPlateau(1.0, patience=0)
    assert [plateau(m) for m in (1.0, 1.0)] == [1.0, 0.1]


def test_mixed_precision_keeps_wide_weights():
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm(4), nn.Linear(4, 1))
    x, scaler, optimizer = ebb.randn((8, 2)), optim.LossScaler(scale=4.0), optim.SGD(0.1)
    half = nn.cast_parameters(net, "f16")
    loss = half(x.cast("f16")).cast("f32").square().mean()
    gradients = ebb.backward(scaler.scale(loss))
    assert "sweep" in optimizer.print_step(net, scaler.unscale(gradients))
    before = net[0].weight.numpy().copy()
    assert scaler.step(optimizer, net, gradients)
    assert net[0].weight.dtype == ebb.f32 and not np.array_equal(net[0].weight.numpy(), before)
    nn.take_buffers(net, half)
    assert int(net.state_dict()["1.num_batches_tracked"]) == 1
    scaler.load_state(scaler.state())
    assert scaler.state() == (4.0, 1, 1, 0)


def test_minimisers():
    rosenbrock = lambda p: (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2  # noqa: E731
    for minimise in (optim.minimize_lbfgs, optim.minimize_newton_cg):
        found = minimise(rosenbrock, ebb.tensor([-1.0, 1.0], "f64"))
        assert found.converged and found.x.tolist() == pytest.approx([1, 1], abs=1e-5)


def test_minimisers_take_what_functions_take():
    x = ebb.linspace(-1, 1, 20, dtype="f64")
    y = 3 * x - 2
    loss = lambda p: ((p["line"][0] * x + p["line"][1] - y) ** 2).sum()  # noqa: E731
    for minimise in (optim.minimize_lbfgs, optim.minimize_newton_cg):
        start = {"line": [ebb.tensor(0.0, "f64"), ebb.zeros((1,), dtype="f64")]}
        found = minimise(loss, start)
        slope, offset = found.x["line"]
        assert slope.shape == () and offset.shape == (1,) and start["line"][0].item() == 0
        assert (slope.item(), offset.item()) == pytest.approx((3, -2), abs=1e-6)
        assert found.converged and "converged=True" in repr(found)


def test_a_minimiser_of_a_model():
    x = ebb.randn((50, 3), "f64")
    y = x @ ebb.tensor([[1.0], [2.0], [3.0]], "f64") + 0.5
    net = nn.Linear(3, 1, dtype="f64")
    found = optim.minimize_lbfgs(lambda: ebb.mse_loss(net(x), y), net)
    assert found.converged and net.weight.tolist()[0] == pytest.approx([1, 2, 3], abs=1e-5)
    assert net.bias.tolist() == pytest.approx([0.5], abs=1e-5) and found.x.size == 4


def test_layers_of_sequences_and_images():
    x = ebb.randn((2, 5, 8))
    assert nn.MultiheadAttention(8, 2, batch_first=True)(x)[0].shape == (2, 5, 8)
    assert nn.TransformerBlock(8, 2)(x, causal=True).shape == (2, 5, 8)
    with pytest.raises(ValueError, match="the activation is 'gelu' or 'relu', got 'silu'"):
        nn.TransformerBlock(8, 2, activation="silu")
    output, h = nn.GRU(8, 6, num_layers=2, bidirectional=True, batch_first=True)(x)
    assert output.shape == (2, 5, 12) and h.shape == (4, 2, 6)
    output, (h, c) = nn.Lstm(8, 6)(x)
    assert output.shape == (2, 5, 6) and c.shape == (1, 2, 6)
    image = ebb.randn((1, 3, 8, 8))
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding="same"),
        nn.GroupNorm(2, 4),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 2),
    )
    assert net(image).shape == (1, 2)
    assert nn.init.kaiming_normal((4, 3)).shape == (4, 3) and nn.init.fans((4, 3)) == (3, 4)
    with pytest.raises(TypeError, match="missing \\['kernel_size'\\]"):
        nn.MaxPool2d()


def test_loaders_give_every_row_once():
    images, labels = ebb.data.make_digits(50)
    loader = ebb.data.DataLoader([images, labels], 16, seed=4)
    assert len(loader) == 4
    position = None
    seen = []
    for k, (_, batch) in enumerate(loader):
        if k == 1:
            position = loader.position
        seen.append(batch.tolist())
    assert sorted(sum(seen, [])) == sorted(labels.tolist())
    loader.position = position
    assert [b.tolist() for _, b in loader] == seen[2:]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_calls_python(workers):
    made = ebb.data.DataLoader(10, lambda items: [ebb.tensor(items) * 2], 4, shuffle=False, workers=workers)
    assert [batch.tolist() for batch, in made] == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]

    def fails(items):
        raise RuntimeError("no such picture")

    with pytest.raises(RuntimeError, match="no such picture"):
        next(ebb.data.DataLoader(10, fails, 4, workers=workers))


def test_text(tmp_path):
    pairs = ebb.data.BytePairs.train("low lower lowest low low", 260)
    tokens = pairs.encode("lowest")
    assert pairs.decode(tokens) == b"lowest" and len(tokens) < 6
    pairs.save(str(tmp_path / "pairs.json"))
    assert ebb.data.BytePairs.load(str(tmp_path / "pairs.json")).encode("lowest") == tokens
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\n")
    names, values = ebb.data.read_csv(str(tmp_path / "t.csv"))
    assert names == ["a", "b"] and values.shape == (2, 2)
    (tmp_path / "t.csv").write_text("when;colour;x\n2.1.1970;red;1,5\n3.1.1970;blue;2\n")
    names, values = ebb.data.read_csv(str(tmp_path / "t.csv"))
    assert names == ["when", "colour=blue", "colour=red", "x"]
    assert values.tolist() == [[1, 0, 1, 1.5], [2, 1, 0, 2]]
    assert ebb.data.read_csv(str(tmp_path / "t.csv"), columns=["x"], decimal=",", separator=";")[1].tolist() == [[1.5], [2]]


def test_files(tmp_path):
    x = {"a": ebb.arange(6).reshape(2, 3), "b": ebb.tensor([1.5])}
    path = str(tmp_path / "x")
    ebb.io.save_npz(path, x, compress=True)
    assert np.load(path)["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and ebb.io.load_npz(path)["b"].tolist() == [1.5]
    ebb.io.save_safetensors(path, x, {"made": "today"})
    file = ebb.io.Safetensors(path)
    assert sorted(file.keys()) == ["a", "b"] and file.metadata["made"] == "today" and file["b"].tolist() == [1.5]
    net, optimizer = nn.Linear(2, 2), optim.Adam()
    optimizer.step(net, ebb.backward(net(ebb.ones((1, 2))).sum()))
    ebb.manual_seed(5)
    checkpoint = ebb.io.Checkpoint(net.state_dict(), optimizer.state(), step=7, metadata={"note": "x"})
    checkpoint.loader = (1, 2, 3)
    ebb.io.save_checkpoint(path, checkpoint)
    back = ebb.io.load_checkpoint(path)
    assert back.step == 7 and back.random == (5, 0) and back.loader == (1, 2, 3)
    net.load_state_dict(back.parameters)
    optimizer.load_state(back.optimizer)
