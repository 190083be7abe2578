# SPDX-License-Identifier: MIT
"""ebb.torch behind LM heads, on a GPU beside PyTorch: times in units of the products, peaks of memory, compilations.

    python3 bench/linear_heads.py                      # all sections
    python3 bench/linear_heads.py log_probs llama      # some of them: log_probs, formulas, llama, lengths
    python3 bench/linear_heads.py llama --kernels      # and the longest kernels of each way of a step
    python3 bench/linear_heads.py --tiny               # sizes for a CPU, to see that it runs

Products are timed again with each row, and contenders take turns: clocks fall while a GPU gets hot. Needs transformers.
"""

import argparse
import importlib.metadata
import statistics
import time

import torch

import ebb
import ebb.torch
from trl_formulas import FORMULAS


class Device:
    def __init__(self, tiny, kernels=False):
        self.kernels = kernels
        self.cuda = torch.cuda.is_available() and not tiny
        self.name = "cuda" if self.cuda else "cpu"
        self.rows, self.width, self.classes, self.answers = (8192, 4096, 151936, 16) if self.cuda else (64, 32, 211, 4)

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def timed(self, run, count=5, warm=2):
        """(ms, GiB beyond what was allocated before)"""
        for _ in range(warm):
            run()
        self.wait()
        before = 0
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        start = time.perf_counter()
        for _ in range(count):
            run()
        self.wait()
        ms = (time.perf_counter() - start) / count * 1e3
        return ms, (torch.cuda.max_memory_allocated() - before) / 2**30 if self.cuda else 0.0

    def operands(self):
        g = torch.Generator(self.name).manual_seed(0)
        x = torch.randn(self.rows, self.width, device=self.name, generator=g) / self.width**0.5
        head = torch.randn(self.classes, self.width, device=self.name, generator=g)
        target = torch.randint(0, self.classes, (self.rows,), device=self.name, generator=g)
        return x.bfloat16().requires_grad_(), head.bfloat16().requires_grad_(), target

    def products(self, x, head):
        """ms of one, three and four products with the head, in chunks of rows."""
        x, head, step = x.detach(), head.detach(), max(self.rows // 4, 1)

        def one():
            for i in range(0, self.rows, step):
                x[i : i + step] @ head.T

        def three():
            gradient = torch.zeros_like(head)
            for i in range(0, self.rows, step):
                z = x[i : i + step] @ head.T
                z @ head
                gradient.addmm_(z.T, x[i : i + step])

        a, b = self.timed(one)[0], self.timed(three)[0]
        return a, b, a + b


def log_probs(d):
    x, head, target = d.operands()
    for _ in range(3):  # until the clocks are those of a busy GPU
        d.products(x, head)
    print(f"\n## linear_log_probs, {d.rows}x{d.width}x{d.classes} bf16\n")
    print("| outputs | temperature | forward ms | over one product | GiB | with backward ms | over four | GiB |")
    print("|---|---|---|---|---|---|---|---|")
    both = ["log_probs", "entropy"]
    for names, temperature in ((both, 1.0), (both[:1], 1.0), (both, 0.7), (both[:1], 0.7), ([*both, "argmax"], 1.0)):

        def forward():
            return ebb.torch.linear_log_probs(x, head, target, temperature=temperature, outputs=names)

        def step():
            x.grad = head.grad = None
            sum(y.sum() for y in forward() if y.requires_grad).backward()

        one, _, four = d.products(x, head)
        with torch.no_grad():
            a, held = d.timed(forward)
        b, held_too = d.timed(step)
        print(
            f"| {'+'.join(names)} | {temperature} | {a:.2f} | {a / one:.3f} | {held:.2f} | {b:.2f} | {b / four:.3f} | {held_too:.2f} |",
            flush=True,
        )
    x.grad = head.grad = None
    some = slice(0, 256)
    exact = (x[some].detach().double() @ head.detach().double().T).log_softmax(-1).gather(1, target[some, None])[:, 0]
    rounded = (x[some].detach() @ head.detach().T).float().log_softmax(-1).gather(1, target[some, None])[:, 0]
    ours = ebb.torch.linear_log_probs(x[some].detach(), head.detach(), target[some])
    errors = [(y - exact).abs().max().item() for y in (ours, rounded)]
    print(f"\nLargest error of log p, 256 rows against f64: {errors[0]:.1e}; of logits rounded to bf16: {errors[1]:.1e}")


def formulas(d):
    x, head, target = d.operands()
    tokens = d.rows // d.answers
    hidden, labels = x.detach().reshape(d.answers, tokens, d.width).requires_grad_(), target.reshape(d.answers, tokens)
    with torch.no_grad():
        old = ebb.torch.linear_log_probs(hidden, head, labels)
    mask, reference = torch.ones_like(old), old - 0.01
    given = dict(old=old, reference=reference, advantage=torch.linspace(-1, 1, d.answers, device=d.name), mask=mask, weight=mask / mask.sum())
    desirable = torch.arange(d.answers, device=d.name) % 2 == 0
    given.update(reference_sum=reference.sum(-1), desirable=desirable, kl=torch.tensor(0.1, device=d.name))
    print(f"\n## linear_loss, {d.answers} answers of {tokens} tokens\n")
    print("| formula | Ebb's ms | over three products | GiB | torch's ms | over four | GiB |\n|---|---|---|---|---|---|---|")
    for name, (formula, names, options) in FORMULAS.items():
        others = [given[each] for each in names]

        def step_in(kind):
            m = {"ebb": ebb, "torch": torch}[kind]
            f, more = formula(m), {option: value for option, value in options.items() if option != "sides" or kind == "ebb"}

            def step():
                hidden.grad = head.grad = None
                ebb.torch.linear_loss(hidden, head, labels, f, *others, tensors=kind, **more).backward()

            return step

        steps, turns = {kind: step_in(kind) for kind in ("ebb", "torch")}, []
        for _ in range(3):
            _, three, four = d.products(x, head)
            turns.append((three, four, *(d.timed(step, count=3, warm=1) for step in steps.values())))
        three, four = (statistics.median(turn[k] for turn in turns) for k in (0, 1))
        (a, held), (b, held_too) = (sorted(turn[k] for turn in turns)[1] for k in (2, 3))
        print(f"| {name} | {a:.2f} | {a / three:.3f} | {held:.2f} | {b:.2f} | {b / four:.3f} | {held_too:.2f} |", flush=True)


def llama_of(d, tiny, layers):
    import transformers

    sizes = dict(hidden_size=2048, intermediate_size=8192, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256)
    if tiny:
        sizes = dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, vocab_size=511)
    config = transformers.LlamaConfig(
        num_hidden_layers=layers, max_position_embeddings=8192, use_cache=False, tie_word_embeddings=False, **sizes
    )
    torch.manual_seed(0)
    with torch.device(d.name):
        return transformers.LlamaForCausalLM(config).to(torch.bfloat16 if d.cuda else torch.float32).train()


def llama_ways(d, backend="inductor"):
    """{name: (model, what is called)} of the steps that are compared."""
    models = {name: llama_of(d, not d.cuda, 4 if d.cuda else 1) for name in ("plain", "patched", "patched, rounding")}
    ebb.torch.patch(models["patched"])
    ebb.torch.patch(models["patched, rounding"], round_logits=True, round_sums=True)
    ways = {name: (model, model) for name, model in models.items()}
    for name, model in models.items():
        ways[f"{name}, compiled"] = model, torch.compile(model, backend=backend, dynamic=False)
    return ways


def llama_step(model, run, ids):
    model.zero_grad(set_to_none=True)
    run(input_ids=ids, labels=ids).loss.backward()


def longest_kernels(d, step, count=15):
    """Rows of a table: kernels of a step, the longest first; on a CPU operations."""
    from torch.profiler import ProfilerActivity, profile

    step()
    with profile(activities=[ProfilerActivity.CUDA if d.cuda else ProfilerActivity.CPU]) as run:
        step()
        d.wait()
    kind = "device" if d.cuda else "cpu"
    found = [(getattr(e, f"self_{kind}_time_total") / 1e3, e.count, e.key) for e in run.key_averages()]
    found = sorted((row for row in found if row[0] > 0), reverse=True)
    rest = (sum(ms for ms, *_ in found[count:]), sum(n for _, n, _ in found[count:]), "the others")
    return [*found[:count], rest, (sum(ms for ms, *_ in found), sum(n for _, n, _ in found), "all of them")]


def llama(d):
    rows, length, turns = (4, 4096, 4) if d.cuda else (2, 32, 1)
    ways = llama_ways(d)
    vocabulary = ways["plain"][0].config.vocab_size
    ids = torch.randint(0, vocabulary, (rows, length), device=d.name)
    times, peaks = {name: [] for name in ways}, {}
    for name in ways:
        llama_step(*ways[name], ids)
        ways[name][0].zero_grad(set_to_none=True)
    sizes = {name: sum(p.numel() * p.element_size() for p in model.parameters()) for name, (model, run) in ways.items() if run is model}
    for _ in range(turns):
        for name, (model, run) in ways.items():
            if d.cuda:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            others = sum(sizes.values()) - sizes[name.removesuffix(", compiled")]
            times[name].append(d.timed(lambda model=model, run=run: llama_step(model, run, ids), count=4, warm=1)[0])
            peaks[name] = (torch.cuda.max_memory_allocated() - others) / 1e9 if d.cuda else 0.0
            model.zero_grad(set_to_none=True)
    print(f"\n## A step of a Llama with V = {vocabulary}, {rows}x{length} tokens, {turns} turns\n")
    print("| way | ms, median | ms, all | peak GB |\n|---|---|---|---|")
    for name, found in times.items():
        print(f"| {name} | {statistics.median(found):.1f} | {' '.join(f'{t:.1f}' for t in found)} | {peaks[name]:.2f} |", flush=True)
    for name, (model, run) in ways.items() if d.kernels else ():
        print(f"\n### {name}\n\n| ms | calls | kernel |\n|---|---|---|")
        for ms, count, kernel in longest_kernels(d, lambda model=model, run=run: llama_step(model, run, ids)):
            print(f"| {ms:.3f} | {count} | {kernel[:110]} |", flush=True)
        model.zero_grad(set_to_none=True)


def lengths(d):
    from torch._dynamo.testing import CompileCounterWithBackend

    print("\n## 20 sequence lengths\n")
    for name in ("plain", "patched"):
        model = llama_of(d, True, 1)
        if name == "patched":
            ebb.torch.patch(model)
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        run = torch.compile(model, backend=counter)
        for k in range(20):
            ids = torch.arange(2 * (16 + 3 * k), device=d.name).reshape(2, -1) % model.config.vocab_size
            run(input_ids=ids, labels=ids).loss.backward()
        print(f"{name}: {counter.frame_count} compilations")


def main():
    sections = {f.__name__: f for f in (log_probs, llama, formulas, lengths)}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(sections)}")
    parser.add_argument("--tiny", action="store_true", help="sizes for a CPU")
    parser.add_argument("--kernels", action="store_true", help="llama: the longest kernels of each way, too")
    options = parser.parse_args()
    unknown = set(options.sections) - set(sections)
    if unknown:
        parser.error(f"there is no section {', '.join(unknown)}; there are {', '.join(sections)}")
    device = Device(options.tiny, options.kernels)
    versions = f"PyTorch {torch.__version__}, transformers {importlib.metadata.version('transformers')}"
    print(f"{versions}, {torch.cuda.get_device_name() if device.cuda else 'a CPU'}")
    for name in options.sections or sections:
        sections[name](device)
        if device.cuda:
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
