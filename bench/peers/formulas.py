# SPDX-License-Identifier: MIT
"""The losses as array formulas, for the frameworks that have no function of their own for one.

A formula is written once over `xp`, a framework's functions under common names (see torch_worker, jax_worker and
mlx_worker). FORMULAS[name](xp, *inputs) gives one number, with the defaults of the loss of that name.
"""

FORMULAS = {}


def formula(*names):
    def register(function):
        for name in names:
            FORMULAS[name] = function
        return function

    return register


def pick(xp, x, index):
    """x[i, index[i]] of the last axis."""
    return xp.take_along(x, index[..., None])[..., 0]


def unit_rows(xp, x):
    return x / xp.sqrt(xp.sum(x * x, -1, True))


# ---- numbers against numbers


@formula("mse_loss", "mse")
def mse(xp, x, t):
    return xp.mean((x - t) ** 2)


@formula("l1_loss")
def l1(xp, x, t):
    return xp.mean(xp.abs(x - t))


@formula("smooth_l1_loss", "huber_loss")
def huber(xp, x, t):
    d = xp.abs(x - t)
    return xp.mean(xp.where(d < 1, 0.5 * d * d, d - 0.5))


@formula("pinball_loss")
def pinball(xp, x, t):
    d = t - x
    return xp.mean(xp.maximum(0.5 * d, -0.5 * d))


@formula("log_cosh_loss")
def log_cosh(xp, x, t):
    d = xp.abs(x - t)
    return xp.mean(d + xp.log1p(xp.exp(-2 * d)) - 0.6931471805599453)


@formula("wing_loss")
def wing(xp, x, t):
    d = xp.abs(x - t)
    constant = 10 - 10 * 1.791759469228055  # log(1 + 10/2)
    return xp.mean(xp.where(d < 10, 10 * xp.log1p(d / 2), d - constant))


@formula("poisson_nll_loss")
def poisson_nll(xp, x, t):
    return xp.mean(xp.exp(x) - t * x)


@formula("gaussian_nll_loss")
def gaussian_nll(xp, x, t, var):
    v = xp.maximum(var, 1e-6)
    return 0.5 * xp.mean(xp.log(v) + (x - t) ** 2 / v)


@formula("generalized_kl")
def generalized_kl(xp, x, t):
    return xp.mean(t * xp.log(t / x) - t + x)


# ---- one class among many


@formula("nll_loss")
def nll(xp, x, y):
    return -xp.mean(pick(xp, x, y))


@formula("cross_entropy", "softmax_cross_entropy")
def cross_entropy(xp, x, y):
    return xp.mean(xp.logsumexp(x) - pick(xp, x, y))


@formula("dft_loss")
def dft(xp, x, y):
    logp = pick(xp, x, y) - xp.logsumexp(x)
    return -xp.mean(xp.exp(xp.stop_gradient(logp)) * logp)


@formula("router_z_loss")
def router_z(xp, x):
    z = xp.logsumexp(x)
    return xp.mean(z * z)


@formula("softmax_focal_loss")
def softmax_focal(xp, x, y):
    logp = pick(xp, x, y) - xp.logsumexp(x)
    return -xp.mean((1 - xp.exp(logp)) ** 2 * logp)


@formula("poly_loss")
def poly(xp, x, y):
    logp = pick(xp, x, y) - xp.logsumexp(x)
    return xp.mean(-logp + (1 - xp.exp(logp)))


@formula("sparsemax_loss")
def sparsemax(xp, x, y):
    z = xp.sort_descending(xp.stop_gradient(x))
    k = xp.arange_like(z) + 1
    inside_sorted = xp.as_float(1 + k * z > xp.cumsum(z), z)
    size = xp.sum(inside_sorted, -1, True)
    threshold = (xp.sum(inside_sorted * z, -1, True) - 1) / size
    inside = xp.as_float(xp.stop_gradient(x) > threshold, x)
    tau = (xp.sum(inside * x, -1, True) - 1) / size
    return xp.mean(0.5 * xp.sum(inside * (x * x - tau * tau), -1) + 0.5 - pick(xp, x, y))


@formula("listnet_loss")
def listnet(xp, x, t):
    return -xp.mean(xp.sum(xp.softmax(t) * xp.log_softmax(x), -1))


@formula("multi_margin_loss")
def multi_margin(xp, x, y):
    hinge = xp.maximum(1 - xp.take_along(x, y[:, None]) + x, 0)
    # The class itself contributes a margin of exactly 1.
    return xp.mean((xp.sum(hinge, -1) - 1) / x.shape[1])


# ---- yes or no


@formula("binary_cross_entropy")
def bce(xp, p, y):
    return -xp.mean(y * xp.log(p) + (1 - y) * xp.log(1 - p))


@formula("binary_cross_entropy_with_logits", "multilabel_soft_margin_loss")
def bce_with_logits(xp, x, y):
    return xp.mean(xp.softplus(x) - y * x)


@formula("sigmoid_focal_loss")
def sigmoid_focal(xp, x, y):
    p, ce = xp.sigmoid(x), xp.softplus(x) - y * x
    pt = p * y + (1 - p) * (1 - y)
    return xp.mean((0.25 * y + 0.75 * (1 - y)) * (1 - pt) ** 2 * ce)


@formula("focal_loss_on_probabilities")
def focal_on_probabilities(xp, p, y):
    return -xp.mean(y * 0.25 * (1 - p) ** 2 * xp.log(p) + (1 - y) * 0.75 * p**2 * xp.log(1 - p))


@formula("hinge_loss")
def hinge(xp, x, y):
    return xp.mean(xp.maximum(1 - y * x, 0))


@formula("perceptron_loss")
def perceptron(xp, x, y):
    return xp.mean(xp.maximum(-y * x, 0))


@formula("hinge_embedding_loss")
def hinge_embedding(xp, x, y):
    return xp.mean(xp.where(y > 0, x, xp.maximum(1 - x, 0)))


@formula("margin_ranking_loss")
def margin_ranking(xp, a, b, y):
    return xp.mean(xp.maximum(-y * (a - b), 0))


@formula("soft_margin_loss")
def soft_margin(xp, x, y):
    return xp.mean(xp.softplus(-y * x))


# ---- distances and divergences of rows


@formula("triplet_margin_loss")
def triplet(xp, a, p, n):
    distance = lambda u, v: xp.sqrt(xp.sum((u - v + 1e-6) ** 2, -1))
    return xp.mean(xp.maximum(1 + distance(a, p) - distance(a, n), 0))


@formula("triplet_margin_with_distance_loss")
def triplet_with_distance(xp, a, p, n):
    distance = lambda u, v: xp.sqrt(xp.sum((u - v + 1e-6) ** 2, -1))
    return xp.mean(xp.maximum(1 + distance(a, p) - distance(a, n), 0))


@formula("cosine_embedding_loss")
def cosine_embedding(xp, a, b, y):
    c = xp.sum(a * b, -1) / xp.sqrt((xp.sum(a * a, -1) + 1e-12) * (xp.sum(b * b, -1) + 1e-12))
    return xp.mean(xp.where(y > 0, 1 - c, xp.maximum(c, 0)))


@formula("cosine_similarity_loss")
def cosine_similarity(xp, a, b):
    return xp.mean(1 - xp.sum(a * b, -1) / xp.sqrt(xp.sum(a * a, -1) * xp.sum(b * b, -1)))


@formula("kl_div")
def kl_div(xp, x, t):
    return xp.mean(t * (xp.log(t) - x))


@formula("kl_divergence")
def kl_divergence(xp, p, q):
    return xp.mean(xp.sum(p * xp.log(p / q), -1))


@formula("jsd_loss")
def jsd(xp, x, t):
    p, q = xp.exp(x), xp.exp(t)
    log_m = xp.log(0.5 * p + 0.5 * q)
    return xp.mean(xp.sum(0.5 * q * (t - log_m) + 0.5 * p * (x - log_m), -1))


@formula("tvd_loss")
def tvd(xp, p, q):
    return 0.5 * xp.mean(xp.sum(xp.abs(p - q), -1))


# ---- overlap


@formula("dice_loss")
def dice(xp, x, t):
    return xp.mean(1 - (2 * xp.sum(x * t, -1) + 1) / (xp.sum(x, -1) + xp.sum(t, -1) + 1))


@formula("tversky_loss")
def tversky(xp, x, t):
    return xp.mean(1 - (xp.sum(x * t, -1) + 1) / (0.5 * xp.sum(x, -1) + 0.5 * xp.sum(t, -1) + 1))


@formula("iou_loss")
def iou(xp, x, t):
    both = xp.sum(x * t, -1)
    return xp.mean(1 - (both + 1) / (xp.sum(x, -1) + xp.sum(t, -1) - both + 1))


def jaccard_steps(xp, truth):
    """The gradient of the Lovász extension: how 1 − intersection/union grows along sorted errors.

    Not as differences of neighbours: of 262144 pixels those keep two digits in f32. Every row has some foreground, so
    that union − 1 is not 0."""
    total = xp.sum(truth, -1, True)
    intersection = total - xp.cumsum(truth)
    union = total + xp.cumsum(1 - truth)
    return xp.where(truth > 0, 1.0, intersection / (union - 1)) / union


@formula("lovasz_hinge")
def lovasz_hinge(xp, x, y):
    errors = 1 - x * (2 * y - 1)
    order = xp.argsort_descending(xp.stop_gradient(errors))
    ranked, truth = xp.take_along(errors, order), xp.take_along(y, order)
    return xp.mean(xp.sum(xp.maximum(ranked, 0) * jaccard_steps(xp, truth), -1))


@formula("lovasz_softmax")
def lovasz_softmax(xp, p, y):
    truth = xp.transpose(xp.one_hot(y, p.shape[1], p))
    errors = xp.abs(truth - xp.transpose(p))
    order = xp.argsort_descending(xp.stop_gradient(errors))
    ranked, truth_ranked = xp.take_along(errors, order), xp.take_along(truth, order)
    return xp.mean(xp.sum(ranked * jaccard_steps(xp, truth_ranked), -1))


# ---- embeddings


@formula("info_nce")
def info_nce(xp, q, k):
    logits = unit_rows(xp, q) @ xp.transpose(unit_rows(xp, k)) / 0.1
    return xp.mean(xp.logsumexp(logits) - xp.diagonal(logits))


@formula("siglip_loss")
def siglip_loss(xp, a, b):
    logits = 10 * (unit_rows(xp, a) @ xp.transpose(unit_rows(xp, b))) - 10
    return xp.mean(xp.sum(xp.softplus(logits), -1) - xp.diagonal(logits))


@formula("nt_xent")
def nt_xent(xp, a, b):
    z = unit_rows(xp, xp.concatenate([a, b]))
    n = a.shape[0]
    logits = z @ xp.transpose(z) / 0.5
    others = xp.without_diagonal(logits)
    own = xp.sum(z[:n] * z[n:], -1) / 0.5
    return xp.mean(xp.logsumexp(others) - xp.concatenate([own, own]))


@formula("supcon_loss")
def supcon(xp, z, y):
    z = unit_rows(xp, z)
    logits = z @ xp.transpose(z) / 0.07
    logp = logits - xp.logsumexp(xp.without_diagonal(logits))[:, None]
    same = xp.as_float(y[:, None] == y[None, :], z) - xp.eye_like(logits)
    count = xp.sum(same, -1)
    kept = xp.as_float(count > 0, z)
    terms = -xp.sum(same * logp, -1) / xp.maximum(count, 1)
    return xp.sum(terms * kept) / xp.sum(kept)


@formula("arcface_loss")
def arcface(xp, e, w, y):
    cos = unit_rows(xp, e) @ xp.transpose(unit_rows(xp, w))
    own = pick(xp, cos, y)
    margin, c, s = 0.5, 0.8775825618903728, 0.479425538604203
    turned = xp.where(own > -c, own * c - xp.sqrt(1 - own * own) * s, own - margin * s)
    hot = xp.one_hot(y, w.shape[0], e)
    logits = 64 * (cos + hot * (turned - own)[:, None])
    return xp.mean(xp.logsumexp(logits) - 64 * turned)


@formula("cosface_loss")
def cosface(xp, e, w, y):
    cos = unit_rows(xp, e) @ xp.transpose(unit_rows(xp, w))
    logits = 64 * (cos - 0.35 * xp.one_hot(y, w.shape[0], e))
    return xp.mean(xp.logsumexp(logits) - pick(xp, logits, y))


@formula("barlow_twins_loss")
def barlow_twins(xp, a, b):
    standard = lambda z: (z - xp.mean(z, 0)) / xp.sqrt(xp.variance(z, 0) + 1e-5)
    c = xp.transpose(standard(a)) @ standard(b) / a.shape[0]
    own = xp.diagonal(c)
    return xp.sum((1 - own) ** 2) + 5e-3 * (xp.sum(c * c) - xp.sum(own * own))


@formula("vicreg_loss")
def vicreg(xp, a, b):
    n, width = a.shape

    def spread(z):
        centred = z - xp.mean(z, 0)
        covariance = xp.transpose(centred) @ centred / (n - 1)
        own = xp.diagonal(covariance)
        hinge = xp.mean(xp.maximum(1 - xp.sqrt(own + 1e-4), 0))
        return 25 * hinge / 2 + (xp.sum(covariance * covariance) - xp.sum(own * own)) / width

    return 25 * xp.mean((a - b) ** 2) + spread(a) + spread(b)


# ---- preferences


@formula("dpo_loss")
def dpo(xp, c, r, ref_c, ref_r):
    return xp.mean(xp.softplus(-0.1 * ((c - r) - (ref_c - ref_r))))


@formula("ipo_loss")
def ipo(xp, c, r, ref_c, ref_r):
    return xp.mean(((c - r) - (ref_c - ref_r) - 5.0) ** 2)


@formula("kto_loss")
def kto(xp, policy, reference, desirable):
    h = 0.1 * (policy - reference)
    return xp.mean(1 - xp.sigmoid(xp.where(desirable, h, -h)))


def log_odds(xp, logp):
    return logp - xp.log(-xp.expm1(logp))


@formula("orpo_loss")
def orpo(xp, c, r):
    return xp.mean(-c + 0.1 * xp.softplus(log_odds(xp, r) - log_odds(xp, c)))


@formula("simpo_loss")
def simpo(xp, c, r):
    return xp.mean(xp.softplus(-(2 * (c - r) - 1)))


@formula("cpo_loss")
def cpo(xp, c, r):
    return xp.mean(xp.softplus(-0.1 * (c - r)) - c)


@formula("grpo_loss")
def grpo(xp, policy, advantages, old, reference):
    ratio, a = xp.exp(policy - old), advantages[:, None]
    surrogate = xp.minimum(ratio * a, xp.clip(ratio, 0.8, 1.2) * a)
    d = reference - policy
    return xp.mean(xp.mean(-surrogate + 0.04 * (xp.exp(d) - d - 1), -1))


# ---- from hidden states and an LM head: these frameworks make the logits


@formula("linear_cross_entropy")
def linear_cross_entropy(xp, x, head, y):
    return cross_entropy(xp, x @ xp.transpose(head), y)


def token_log_probs(xp, x, head, target):
    logits = x @ xp.transpose(head)
    return pick(xp, logits, target) - xp.logsumexp(logits)


def halves(x):
    n = x.shape[0] // 2
    return x[:n], x[n:]


@formula("linear_dpo_loss")
def linear_dpo(xp, x, head, target, reference):
    return dpo(xp, *halves(xp.sum(token_log_probs(xp, x, head, target), -1)), *halves(reference))


@formula("linear_ipo_loss")
def linear_ipo(xp, x, head, target, reference):
    return ipo(xp, *halves(xp.sum(token_log_probs(xp, x, head, target), -1)), *halves(reference))


@formula("linear_cpo_loss")
def linear_cpo(xp, x, head, target):
    return cpo(xp, *halves(xp.sum(token_log_probs(xp, x, head, target), -1)))


@formula("linear_orpo_loss")
def linear_orpo(xp, x, head, target):
    return orpo(xp, *halves(xp.mean(token_log_probs(xp, x, head, target), -1)))


@formula("linear_simpo_loss")
def linear_simpo(xp, x, head, target):
    return simpo(xp, *halves(xp.mean(token_log_probs(xp, x, head, target), -1)))


@formula("linear_kto_loss")
def linear_kto(xp, x, head, target, reference, desirable):
    return kto(xp, xp.sum(token_log_probs(xp, x, head, target), -1), reference, desirable)


@formula("linear_grpo_loss")
def linear_grpo(xp, x, head, target, advantages):
    logp = token_log_probs(xp, x, head, target)
    ratio, a = xp.exp(logp - xp.stop_gradient(logp)), advantages[:, None]
    return xp.mean(xp.mean(-xp.minimum(ratio * a, xp.clip(ratio, 0.8, 1.2) * a), -1))


# ---- losses of nobody's library


@formula("barron")
def barron(xp, x, t):
    a, c = 1.3, 0.7
    b = abs(a - 2)
    d = (x - t) / c
    return xp.mean(b / a * ((d * d / b + 1) ** (a / 2) - 1))


@formula("student_t")
def student_t(xp, x, t, s):
    z = (x - t) * xp.exp(-s)
    return xp.mean(2.5 * xp.log1p(z * z / 4) + s)


@formula("asymmetric_focal")
def asymmetric_focal(xp, x, y):
    p = xp.sigmoid(x)
    shifted = xp.clip(p - 0.1, 0.0, 1.0)
    positive = (1 - p) ** 1.5 * xp.softplus(-x)
    negative = shifted**3 * -xp.log(1 - shifted + 1e-6)
    return xp.mean(y * positive + (1 - y) * negative)


@formula("hardness_huber")
def hardness_huber(xp, x, t):
    d = x - t
    a = xp.abs(d)
    terms = xp.where(a <= 1, 0.5 * d * d, a - 0.5)
    return xp.mean(xp.sum(xp.softmax(a / 0.5) * terms, -1))


@formula("margin_entropy")
def margin_entropy(xp, x, y):
    lse = xp.logsumexp(x)[:, None]
    logp = x - lse
    own = xp.take_along(x, y[:, None])
    return xp.mean(xp.softplus(1 + lse - 2 * own) + 0.1 * xp.sum(xp.exp(logp) * logp, -1, True))


@formula("log cosh")
def plain_log_cosh(xp, x, t):
    return xp.mean(xp.log(xp.cosh(x - t)))


@formula("smooth focal")
def smooth_focal(xp, x, y):
    p = xp.sigmoid(x)
    right = p * y + (1 - p) * (1 - y)
    return -xp.mean((1 - right) * (1 - right) * xp.log(right + 1e-6))


@formula("huber by where")
def huber_by_where(xp, x, t):
    d = x - t
    a = xp.abs(d)
    return xp.mean(xp.where(a <= 0.7, 0.5 * d * d, 0.7 * (a - 0.35)))


@formula("tempered")
def tempered(xp, x, y):
    """Logistic loss whose logarithm is tempered: −(p^0.3 − 1) / 0.3 of the probability of the right answer."""
    p = xp.sigmoid(x * (2 * y - 1))
    return xp.mean((1 - p**0.3) / 0.3)


@formula("two gaussians")
def two_gaussians(xp, x, t):
    """−log of a mixture of a narrow and a wide normal density around the target."""
    d = (x - t) * (x - t)
    return -xp.mean(xp.log(0.9 * xp.exp(-0.5 * d) + 0.1 * xp.exp(-0.02 * d) / 5))


# ---- the engine's figures


@formula("user_focal")
def user_focal(xp, x, y):
    p = xp.sigmoid(x)
    pt = xp.where(y > 0.5, p, 1 - p)
    return xp.mean(-0.25 * (1 - pt) ** 2 * xp.log(pt))


@formula("add_mul_sum")
def add_mul_sum(xp, a, b, c):
    return xp.sum((a + b) * c)


@formula("chain of 400 nodes")
def chain(xp, x, m, a):
    for _ in range(200):
        x = x * m + a
    return xp.sum(x)


def is_product(case):
    """"[m,k]x[k,n]" or "[m,k]x[n,k]^T"."""
    return case.startswith("[")


def product(case):
    return (lambda a, b: a @ b.T) if case.endswith("^T") else (lambda a, b: a @ b)


def smooth(xp, x):
    return xp.sum(xp.softplus(x) * xp.sin(x))


def energy(xp, a, x):
    return xp.logsumexp(a @ x) + xp.sum(x**4)


def layers(xp, x, weights, segments=1, checkpoint=None):
    """gelu(x·w) for every w; with `checkpoint`, in so many recomputed segments."""

    def run(x, ws):
        for k in range(ws.shape[0]):
            x = xp.gelu(x @ ws[k])
        return x

    length = weights.shape[0] // segments
    for s in range(segments):
        part = weights[s * length : (s + 1) * length]
        x = checkpoint(run)(x, part) if checkpoint else run(x, part)
    return xp.mean(x * x)


FORMULAS["16 layers"] = layers
