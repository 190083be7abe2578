# SPDX-License-Identifier: MIT
"""ebb.torch on a GPU against PyTorch: the same numbers, no synchronisation, less memory, graphs and torch.compile.

python3 torch_cuda.py [NAME...]        those checks whose name contains one of these; exits with 1 where one failed
"""

import gc
import sys
import time
import traceback

import torch
import torch.nn.functional as F

import ebb
import ebb.torch
from ebb.torch._losses import wide_linear_cross_entropy

DEVICE = torch.device("cuda:0")
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def close(ours, theirs, tolerance, what=""):
    ours, theirs = ours.detach().double(), theirs.detach().double()
    assert ours.shape == theirs.shape, f"{what}: shape {tuple(ours.shape)} instead of {tuple(theirs.shape)}"
    error = ((ours - theirs).abs() / (theirs.abs() + theirs.abs().max().clamp_min(1e-30))).max().item()
    assert error <= tolerance, f"{what}: differs by {error:.3g}, more than {tolerance:g}"
    return error


def value_and_grad(loss, x, *others, cotangent=None, **options):
    x = x.detach().requires_grad_()
    y = loss(x, *others, **options)
    y.backward(cotangent)
    return y.detach(), x.grad


def logits_and_labels(rows=64, classes=1000, dtype=torch.float32, seed=0):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    x = torch.randn(rows, classes, device=DEVICE, generator=generator).to(dtype)
    return x, torch.randint(classes, (rows,), device=DEVICE, generator=generator)


# ---- numbers


@check
def losses_and_gradients():
    x, labels = logits_and_labels()
    y = torch.randn_like(x)
    p = torch.rand_like(x)
    weights = torch.rand(1000, device=DEVICE)
    holes = torch.where(torch.arange(64, device=DEVICE) % 3 == 0, -100, labels)
    cases = {
        "cross_entropy": (x, labels, {}),
        "cross_entropy weighted, smoothed": (x, holes, {"weight": weights, "label_smoothing": 0.1}),
        "cross_entropy sum": (x, holes, {"reduction": "sum"}),
        "cross_entropy none": (x, holes, {"reduction": "none"}),
        "mse_loss": (x, y, {}),
        "l1_loss": (x, y, {}),
        "smooth_l1_loss": (x, y, {"beta": 0.7}),
        "huber_loss": (x, y, {"delta": 1.3}),
        "binary_cross_entropy_with_logits": (x, p, {}),
        "kl_div": (torch.log_softmax(x, 1), torch.softmax(y, 1), {"reduction": "batchmean"}),
        "soft_margin_loss": (x, torch.sign(y), {}),
        "poisson_nll_loss": (x, p, {}),
    }
    worst = 0.0
    for name, (input, target, options) in cases.items():
        for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, 1e-12), (torch.bfloat16, 1.6e-2)):
            if dtype != torch.float32 and "weight" in options:
                continue
            given = target if not target.is_floating_point() else target.to(dtype)
            cotangent = None
            if options.get("reduction") == "none":
                cotangent = torch.rand(64, device=DEVICE).to(dtype)
            function = name.split()[0]
            ours = value_and_grad(getattr(ebb.torch, function), input.to(dtype), given, cotangent=cotangent, **options)
            theirs = value_and_grad(getattr(F, function), input.to(dtype), given, cotangent=cotangent, **options)
            for a, b, what in zip(ours, theirs, ("value", "gradient")):
                error = close(a, b, tolerance, f"{name} {dtype} {what}")
                worst = max(worst, error) if dtype == torch.float32 else worst
                assert a.device == b.device and a.dtype == b.dtype
    return f"{len(cases)} cases, largest difference in f32 {worst:.2g}"


@check
def ctc_and_linear():
    generator = torch.Generator(DEVICE).manual_seed(3)
    log_probs = torch.randn(30, 4, 20, device=DEVICE, generator=generator).log_softmax(2)
    targets = torch.randint(1, 20, (4, 8), device=DEVICE, generator=generator)
    lengths = [30, 28, 25, 30], [8, 5, 7, 3]
    ours = value_and_grad(ebb.torch.ctc_loss, log_probs, targets, *lengths)
    theirs = value_and_grad(F.ctc_loss, log_probs, targets, *(torch.tensor(n, device=DEVICE) for n in lengths))
    close(ours[0], theirs[0], 1e-5, "ctc value")
    hidden = torch.randn(300, 64, device=DEVICE, generator=generator)
    head = torch.randn(500, 64, device=DEVICE, generator=generator) / 8
    labels = torch.randint(500, (300,), device=DEVICE, generator=generator)
    results = []
    for ours in (True, False):
        h, w = hidden.clone().requires_grad_(), head.clone().requires_grad_()
        loss = ebb.torch.linear_cross_entropy(h, w, labels) if ours else F.cross_entropy(h @ w.T, labels)
        loss.backward()
        results.append((loss, h.grad, w.grad))
    for a, b, what in zip(*results, ("value", "dx", "dW")):
        close(a, b, 1e-5, f"linear_cross_entropy {what}")


@check
def scaled_and_second_gradients():
    x, labels = logits_and_labels(32, 100)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for factor in (1.0, 0.25, 1024.0):
            ours = value_and_grad(lambda z, y: ebb.torch.cross_entropy(z, y) * factor, x.to(dtype), labels)
            theirs = value_and_grad(lambda z, y: F.cross_entropy(z, y) * factor, x.to(dtype), labels)
            close(ours[1], theirs[1], 2e-6 if dtype == torch.float32 else 2e-2, f"{dtype} scaled by {factor}")
    results = []
    for loss in (ebb.torch.cross_entropy, F.cross_entropy):
        z = x.double().requires_grad_()
        (g,) = torch.autograd.grad(loss(z, labels), z, create_graph=True)
        results.append(torch.autograd.grad((g * g).sum(), z)[0])
    close(*results, 1e-10, "second gradient")


@check
def views_of_any_kind():
    """Slices that begin anywhere, transposed and repeated tensors are read where they lie."""
    generator = torch.Generator(DEVICE).manual_seed(2)
    labels = torch.randint(120, (64,), device=DEVICE, generator=generator)
    for dtype, tolerance in ((torch.float32, 2e-6), (torch.bfloat16, 1.6e-2)):
        flat = torch.randn(64 * 120 + 9, device=DEVICE, generator=generator).to(dtype)
        views = {
            "shifted": flat[1 : 64 * 120 + 1].view(64, 120),
            "shifted by 3": flat[3 : 64 * 120 + 3].view(64, 120),
            "transposed": flat[: 64 * 120].view(120, 64).T,
            "columns": torch.randn(64, 240, device=DEVICE, generator=generator).to(dtype)[:, 1::2],
            "repeated": flat[:120].expand(64, 120),
        }
        for name, view in views.items():
            results = []
            for loss in (ebb.torch.cross_entropy, F.cross_entropy):
                x = view.detach().requires_grad_()
                y = loss(x, labels)
                (gradient,) = torch.autograd.grad(y, x)
                results.append((y, gradient))
            for a, b in zip(*results):
                close(a, b, tolerance, f"{name} {dtype}")


@check
def autocast():
    x, labels = logits_and_labels(32, 100)
    layer = torch.nn.Linear(100, 100, device=DEVICE)
    with torch.autocast("cuda", torch.bfloat16):
        z = layer(x)
        ours, theirs = ebb.torch.cross_entropy(z, labels), F.cross_entropy(z, labels)
    assert ours.dtype == theirs.dtype == torch.float32
    close(ours, F.cross_entropy(z.double(), labels), 1e-6, "autocast")  # PyTorch's own has errors of bf16


@check
def hundred_steps_of_training():
    curves = []
    for loss_of in (ebb.torch.cross_entropy, F.cross_entropy):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1000)).to(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        generator = torch.Generator(DEVICE).manual_seed(1)
        losses = []
        for _ in range(100):
            x = torch.randn(128, 64, device=DEVICE, generator=generator)
            y = torch.randint(1000, (128,), device=DEVICE, generator=generator)
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        curves.append(torch.stack(losses))
    difference = ((curves[0] - curves[1]).abs() / curves[1].abs()).max().item()
    assert difference <= 1e-6, f"losses of 100 steps differ by {difference:.3g}"
    return f"losses of 100 steps differ by {difference:.2g} at most"


# ---- no waiting


def milliseconds_of_a_cycle():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.cuda._sleep(10_000_000)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 10_000_000


@check
def nothing_synchronises():
    x, labels = logits_and_labels(256, 5000)
    weights = torch.rand(5000, device=DEVICE)
    factor = torch.tensor(0.5, device=DEVICE)

    def step():
        z = x.detach().requires_grad_()
        loss = ebb.torch.cross_entropy(z, labels, weight=weights) + ebb.torch.mse_loss(z, x * factor)
        (loss * factor).backward()
        return z.grad

    for _ in range(3):
        step()
    cycles = int(300 / milliseconds_of_a_cycle())
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(cycles)
        begun = time.perf_counter()
        gradient = step()
        host = time.perf_counter() - begun
        done = torch.cuda.Event()
        done.record()
        assert not done.query(), "the GPU was done before the host: something waited"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert host < 0.1, f"two losses and their backward took the host {host * 1e3:.1f} ms behind a kernel of 300 ms"
    assert torch.isfinite(gradient).all()
    return f"host {host * 1e6:.0f} us behind a kernel of 300 ms"


@check
def side_streams():
    x, labels = logits_and_labels(512, 4000)
    want = value_and_grad(F.cross_entropy, x * 2, labels)
    cycles = int(20 / milliseconds_of_a_cycle())
    streams = [torch.cuda.Stream() for _ in range(3)]
    for turn in range(6):
        stream = streams[turn % 3]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(cycles)
            got = value_and_grad(ebb.torch.cross_entropy, x * 2, labels)
            total = got[1].double().sum()
        torch.cuda.current_stream().wait_stream(stream)
        close(got[0], want[0], 1e-6, "value on a side stream")
        close(got[1], want[1], 2e-6, "gradient on a side stream")
        assert abs(total.item()) < 1e-4
        for t in (*got, total):
            t.record_stream(torch.cuda.current_stream())


@check
def memory_is_not_used_too_early():
    """Blocks go back to PyTorch while kernels that use them wait behind a sleeping one."""
    cycles = int(2 / milliseconds_of_a_cycle())
    generator = torch.Generator(DEVICE).manual_seed(5)
    pairs = []
    for turn in range(40):
        x = torch.randn(200 + 10 * (turn % 4), 1000, device=DEVICE, generator=generator)
        labels = torch.randint(1000, (len(x),), device=DEVICE, generator=generator)
        torch.cuda._sleep(cycles)
        ours = value_and_grad(ebb.torch.cross_entropy, x + 0, labels)
        junk = torch.full_like(x, float("nan"))
        del junk
        theirs = value_and_grad(F.cross_entropy, x + 0, labels)
        pairs.append([(a - b).abs().max() for a, b in zip(ours, theirs)])
    torch.cuda.synchronize()
    worst = max(d.item() for pair in pairs for d in pair)
    assert worst < 1e-5, f"largest difference {worst:.3g}"


# ---- memory


def peak_of(loss, x, labels):
    value_and_grad(loss, x, labels)
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = value_and_grad(loss, x, labels)
    torch.cuda.synchronize()
    del result
    return torch.cuda.max_memory_allocated() - before


@check
def peak_memory():
    x, labels = logits_and_labels(8192, 32768, torch.bfloat16)
    own = ebb.cuda.memory_reserved()
    ours, theirs = peak_of(ebb.torch.cross_entropy, x, labels), peak_of(F.cross_entropy, x, labels)
    assert ours < theirs, f"{ours} bytes, F.cross_entropy {theirs}"
    assert ebb.cuda.memory_reserved() == own, "Ebb allocated beside PyTorch's allocator"
    return f"{ours / 2**20:.0f} MiB, F.cross_entropy {theirs / 2**20:.0f} MiB, logits {x.nbytes / 2**20:.0f} MiB"


@check
def nothing_leaks():
    x, labels = logits_and_labels(64, 1000)
    for _ in range(10):
        value_and_grad(ebb.torch.cross_entropy, x, labels)
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(1000):
        value_and_grad(ebb.torch.cross_entropy, x, labels)
    gc.collect()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before, f"{torch.cuda.memory_allocated() - before} bytes in 1,000 steps"


@check
def out_of_memory_is_pytorchs_error():
    x = torch.zeros(1, device=DEVICE).expand(1 << 38)
    try:
        ebb.torch.mse_loss(x, x, reduction="none")
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("a terabyte was there")
    small, labels = logits_and_labels(4, 10)
    close(ebb.torch.cross_entropy(small, labels), F.cross_entropy(small, labels), 1e-6)


# ---- graphs and compilers


@check
def captured_graphs():
    x, labels = logits_and_labels(256, 3000)
    weight = (torch.randn(3000, 3000, device=DEVICE) / 50).requires_grad_()
    static, target = x.clone(), labels.clone()

    def step(loss_of):
        weight.grad = None
        loss = loss_of(static @ weight, target) * 0.5
        loss.backward()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(ebb.torch.cross_entropy)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(ebb.torch.cross_entropy)
    gradient = weight.grad
    for seed in range(1, 6):
        new, new_labels = logits_and_labels(256, 3000, seed=seed)
        static.copy_(new)
        target.copy_(new_labels)
        graph.replay()
        # Work done in between must not touch the graph's memory.
        junk = [torch.full((256, 3000), float("nan"), device=DEVICE) for _ in range(4)]
        eager = value_and_grad(ebb.torch.cross_entropy, x, labels)
        graph.replay()
        got = loss.clone(), gradient.clone()
        del junk, eager
        want = step(F.cross_entropy), weight.grad
        close(got[0], want[0], 1e-6, "captured value")
        close(got[1], want[1], 1e-5, "captured gradient")
    target[3] = 5000  # what a graph's kernels complain of is told by synchronize
    graph.replay()
    try:
        ebb.cuda.synchronize()
    except IndexError as error:
        assert "target[3] = 5000" in str(error), error
    else:
        raise AssertionError("a wrong label in a graph was not reported")


@check
def captured_without_warming_up():
    x, labels = logits_and_labels(96, 777)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = ebb.torch.cross_entropy(x, labels, label_smoothing=0.2)
    graph.replay()
    close(got, F.cross_entropy(x, labels, label_smoothing=0.2), 1e-6)


@check
def compiled():
    x, labels = logits_and_labels(128, 2000)

    def model(z, y):
        return ebb.torch.cross_entropy(torch.tanh(z) * 3, y) + ebb.torch.mse_loss(z, torch.zeros_like(z))

    def reference(z, y):
        return F.cross_entropy(torch.tanh(z) * 3, y) + F.mse_loss(z, torch.zeros_like(z))

    want = value_and_grad(reference, x, labels)
    for options in ({"fullgraph": True}, {"fullgraph": True, "mode": "reduce-overhead"}):
        function = torch.compile(model, **options)
        for _ in range(4):
            got = value_and_grad(function, x, labels)
            close(got[0], want[0], 2e-6, f"value {options}")
            close(got[1], want[1], 2e-6, f"gradient {options}")


@check
def patched_language_model():
    try:
        import transformers
    except ImportError:
        return "transformers is not installed"
    config = transformers.LlamaConfig(
        vocab_size=5000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4
    )
    tokens = torch.randint(5000, (4, 128), device=DEVICE)
    results, peaks = [], []
    for patched in (True, False):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config).to(DEVICE).train()
        if patched:
            ebb.torch.patch(model)
        model(input_ids=tokens, labels=tokens).loss.backward()
        model.zero_grad()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        peaks.append(torch.cuda.max_memory_allocated() - before)
        results.append((loss, model.lm_head.weight.grad))
    close(results[0][0], results[1][0], 2e-6, "loss")
    close(results[0][1], results[1][1], 1e-4, "gradient of the head")
    return f"peak {peaks[0] / 2**20:.0f} MiB, unpatched {peaks[1] / 2**20:.0f} MiB"


@check
def f16_gradients_wait_for_their_factor():
    """The mean over many rows makes gradients too small for f16 until a GradScaler's factor reaches them, the sum too large."""
    rows, classes = 4096, 50
    generator = torch.Generator(DEVICE).manual_seed(3)
    x = torch.randn(rows, 16, generator=generator, device=DEVICE).half()
    head = 0.01 * torch.randn(classes, 16, generator=generator, device=DEVICE).half()
    target = torch.randint(0, 3, (rows,), generator=generator, device=DEVICE)
    losses = {
        "linear": lambda x, w, how: wide_linear_cross_entropy(x, w, target, reduction=how),
        "formula": lambda x, w, how: ebb.torch.linear_loss(x, w, target, lambda log_probs: -log_probs, reduction=how),
        "log_probs": lambda x, w, how: getattr(-ebb.torch.linear_log_probs(x, w, target), how)(),
    }
    for how, factor, size in (("mean", 4096.0, 1), ("sum", 1 / rows, 100)):
        scaled = (x.abs() * 100).half() if size > 1 else x
        wide = [t.double().requires_grad_() for t in (scaled, head)]
        expected = torch.autograd.grad(factor * F.cross_entropy(wide[0] @ wide[1].T, target, reduction=how), wide)
        for name, loss in losses.items():
            for compiled in (False, True):
                torch._dynamo.reset()
                function = torch.compile(loss, backend="aot_eager") if compiled else loss
                given = [t.clone().requires_grad_() for t in (scaled, head)]
                found = torch.autograd.grad(factor * function(*given, how), given)
                for ours, theirs in zip(found, expected):
                    off = (ours.double() - theirs).abs().max().item()
                    assert off <= 2e-3 * theirs.abs().max().item() + 2**-25, f"{name} {how} compiled={compiled}: {off:.3g}"


@check
def a_patched_model_trains_in_f16_with_a_scaler():
    try:
        import transformers
    except ImportError:
        return "transformers is not installed"
    config = transformers.LlamaConfig(
        vocab_size=5000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4
    )
    tokens = torch.randint(5000, (8, 200), device=DEVICE)
    curves = []
    for patched in (True, False):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config).to(DEVICE).train()
        if patched:
            ebb.torch.patch(model)
        optimizer, scaler, curve = torch.optim.AdamW(model.parameters(), 1e-3), torch.amp.GradScaler("cuda"), []
        for _ in range(20):
            with torch.autocast("cuda", torch.float16):
                loss = model(input_ids=tokens, labels=tokens).loss
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            curve.append(loss.detach().double())
        curves.append(torch.stack(curve))
    return f"largest difference of 20 losses {close(curves[0], curves[1], 5e-3, 'losses'):.2g}"


# ---- exchange


@check
def exchange_without_copies():
    cycles = int(20 / milliseconds_of_a_cycle())
    torch.cuda._sleep(cycles)
    x = torch.arange(6.0, device=DEVICE).reshape(2, 3) * 2  # behind the sleeping kernel
    y = ebb.torch.from_torch(x)
    assert y.device == "cuda:0" and y.__dlpack_device__() == (2, 0)
    assert ((y + 1) * 3).tolist() == ((x + 1) * 3).tolist()
    z = (y.T * 2).eval()
    back = ebb.torch.to_torch(z)
    assert back.device == DEVICE and (back == x.T * 2).all()
    assert torch.from_dlpack(z).data_ptr() == back.data_ptr()
    assert ebb.torch.to_torch(y).data_ptr() == x.data_ptr()
    assert ebb.from_dlpack(x[:, 1]).tolist() == [2, 8] and ebb.tensor(x).device == "cuda:0"
    assert ebb.asarray(x.to(torch.bfloat16)).dtype == "bf16"


@check
def exchange_across_streams():
    """Ebb's own stream and PyTorch's, each reading what the other is still computing, with blocks given back at once."""
    cycles = int(2 / milliseconds_of_a_cycle())
    for turn in range(50):
        torch.cuda._sleep(cycles)
        x = torch.full((1000, 257), float(turn), device=DEVICE)
        y = ebb.torch.from_torch(x)
        del x
        junk = torch.full((1000, 257), -1.0, device=DEVICE)  # PyTorch must not have the block back yet
        z = (y * 2 + 1).eval()
        del y
        back = ebb.torch.to_torch(z)
        del z
        torch.cuda._sleep(cycles)
        total = back.double().sum()
        del back
        more = (ebb.ones((1000, 257), device="cuda") * -7).eval()  # nor must Ebb
        assert total.item() == (2 * turn + 1) * 257000, (turn, total.item())
        del junk, more


@check
def wrong_labels_are_reported():
    x, labels = logits_and_labels(8, 10)
    labels[5] = 99
    ebb.torch.cross_entropy(x, labels)
    torch.cuda.synchronize()
    try:
        ebb.torch.cross_entropy(x, labels.clamp(max=9))
    except IndexError as error:
        assert "target[5] = 99 is outside [0, 10)" in str(error), error
    else:
        raise AssertionError("a wrong label was not reported by the next call")
    close(ebb.torch.cross_entropy(x, labels.clamp(max=9)), F.cross_entropy(x, labels.clamp(max=9)), 1e-6)


# ---- speed, for information


def timed(function, *arguments, seconds=0.3):
    for _ in range(5):
        function(*arguments)
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begun, times = time.perf_counter(), []
    while time.perf_counter() - begun < seconds:
        start.record()
        function(*arguments)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2] * 1e3


def host_time(function, *arguments, times=300):
    for _ in range(10):
        function(*arguments)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        function(*arguments)
    taken = time.perf_counter() - begun
    torch.cuda.synchronize()
    return taken / times * 1e6


@check
def speed():
    rows = []
    for shape, dtype in (((64, 1000), torch.float32), ((8192, 32768), torch.bfloat16), ((4096, 128256), torch.bfloat16)):
        x, labels = logits_and_labels(*shape, dtype)
        x.requires_grad_()

        def step(loss_of):
            x.grad = None
            loss_of(x, labels).backward()

        ours, theirs = (timed(step, f) for f in (ebb.torch.cross_entropy, F.cross_entropy))
        rows.append(f"{list(shape)} {str(dtype)[6:]}: {ours:.0f} us, PyTorch {theirs:.0f} us ({theirs / ours:.2f}x)")
    x, labels = logits_and_labels(8, 100)
    x.requires_grad_()
    host = [host_time(lambda f: f(x, labels).backward(), f) for f in (ebb.torch.cross_entropy, F.cross_entropy)]
    rows.append(f"host, forward and backward: {host[0]:.0f} us, PyTorch {host[1]:.0f} us")
    return "\n    " + "\n    ".join(rows)


def main(wanted):
    failed = []
    print(f"PyTorch {torch.__version__}, Ebb {ebb.__version__}, {ebb.cuda.get_device_name()}")
    for function in CHECKS:
        if wanted and not any(w in function.__name__ for w in wanted):
            continue
        begun = time.perf_counter()
        try:
            said = function()
            print(f"ok      {function.__name__} ({time.perf_counter() - begun:.1f} s){': ' + said if said else ''}", flush=True)
        except BaseException as error:  # the others are wanted, too
            failed.append(function.__name__)
            print(f"FAILED  {function.__name__}: {error}", flush=True)
            traceback.print_exc()
            if isinstance(error, KeyboardInterrupt):
                break
    print("failed: " + ", ".join(failed) if failed else "all good")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
