# SPDX-License-Identifier: MIT
"""The networks of the suite `train`, written once: `p` are parameters by name, `xp` is a framework's own way to do each
layer. Hyperparameters are those of worker/train.cc."""


def mlp(xp, p, x, y):
    for layer in ("first", "second"):
        x = xp.relu(xp.linear(x, p[f"{layer}.weight"], p[f"{layer}.bias"]))
    return xp.cross_entropy(xp.linear(x, p["third.weight"], p["third.bias"]), y)


def norm(xp, p, name, x):
    return xp.batch_norm(x, p[f"{name}.weight"], p[f"{name}.bias"])


def basic_block(xp, p, name, x):
    has_shortcut = f"{name}.shortcut.weight" in p
    stride = 2 if has_shortcut else 1
    h = xp.relu(norm(xp, p, f"{name}.norm1", xp.conv(x, p[f"{name}.conv1.weight"], stride, 1)))
    h = norm(xp, p, f"{name}.norm2", xp.conv(h, p[f"{name}.conv2.weight"], 1, 1))
    if has_shortcut:
        x = norm(xp, p, f"{name}.shortcut_norm", xp.conv(x, p[f"{name}.shortcut.weight"], stride, 0))
    return xp.relu(h + x)


def resnet(xp, p, x, y):
    h = xp.relu(norm(xp, p, "norm", xp.conv(x, p["stem.weight"], 1, 1)))
    k = 0
    while f"blocks.{k}.conv1.weight" in p:
        h = basic_block(xp, p, f"blocks.{k}", h)
        k += 1
    return xp.cross_entropy(xp.linear(xp.mean_of_pictures(h), p["head.weight"], p["head.bias"]), y)


def transformer_block(xp, heads, p, x):
    """`p` by name within the block."""
    batch, time, width = x.shape
    h = xp.layer_norm(x, p["norm1.weight"], p["norm1.bias"])
    qkv = xp.linear(h, p["self_attn.in_proj_weight"], p["self_attn.in_proj_bias"])
    qkv = qkv.reshape(batch, time, 3, heads, width // heads)
    h = xp.causal_attention(qkv).reshape(batch, time, width)
    x = x + xp.linear(h, p["self_attn.out_proj.weight"], p["self_attn.out_proj.bias"])
    h = xp.layer_norm(x, p["norm2.weight"], p["norm2.bias"])
    h = xp.gelu(xp.linear(h, p["linear1.weight"], p["linear1.bias"]))
    return x + xp.linear(h, p["linear2.weight"], p["linear2.bias"])


def gpt(xp, p, x, y, checkpointed=False):
    heads = 4
    h = xp.rows(p["tokens.weight"], x) + p["positions.weight"]
    block = lambda p, h: transformer_block(xp, heads, p, h)
    if checkpointed:
        block = xp.checkpoint(block)
    k = 0
    while f"blocks.{k}.norm1.weight" in p:
        name = f"blocks.{k}."
        h = block({n[len(name):]: w for n, w in p.items() if n.startswith(name)}, h)
        k += 1
    h = xp.layer_norm(h, p["norm.weight"], p["norm.bias"])
    logits = xp.linear(h, p["head.weight"], None)
    return xp.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


# The network of a case, by the first word of its name, and how it is trained.
NETWORKS = {"MLP": mlp, "ResNet-20": resnet, "GPT": gpt}
RULES = {"MLP": "adam", "ResNet-20": "sgd", "GPT": "adamw"}
RATES = {"adam": 1e-3, "adamw": 1e-3, "sgd": 1e-2}


def loss_and_rule(xp, case):
    """(parameters by name, x, y) -> loss, and the name of the optimiser."""
    word = case.split()[0]
    network, options = NETWORKS[word], {"checkpointed": True} if case.endswith("checkpointed") else {}
    return lambda p, x, y: network(xp, p, x, y, **options), RULES[word]


def updated(xp, rule, p, g, state, step):
    """One parameter's new value and state, for frameworks whose arrays are values. `step` counts from 1."""
    rate = RATES[rule]
    if rule == "sgd":
        (b,) = state
        b = 0.9 * b + g  # from zero, so the first b is g
        return p - rate * b, (b,)
    m, v = state
    if rule == "adamw":
        p = p * (1 - rate * 1e-2)
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    c1, c2 = 1 - 0.9**step, 1 - 0.999**step
    return p - (rate / c1) * m / (xp.sqrt(v) / xp.sqrt(c2) + 1e-8), (m, v)


def states(rule):
    return 1 if rule == "sgd" else 2
