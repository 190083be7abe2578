# SPDX-License-Identifier: MIT
"""Linear algebra under the names of torch.linalg and of the array API's extension linalg."""

from collections import namedtuple as _namedtuple

from . import _core, _formula

EighResult = _namedtuple("EighResult", ["eigenvalues", "eigenvectors"])
QRResult = _namedtuple("QRResult", ["Q", "R"])
SlogdetResult = _namedtuple("SlogdetResult", ["sign", "logabsdet"])
SVDResult = _namedtuple("SVDResult", ["U", "S", "Vh"])
LstsqResult = _namedtuple("LstsqResult", ["solution", "residuals", "rank", "singular_values"])

matmul, outer = _core.matmul, _core.outer


def det(A):
    """The determinant."""
    return _core.det(A)


def inv(A):
    """The inverse."""
    return _core.inv(A)


def cholesky(A, *, upper=False):
    """L with L·Lᵀ = A, or (upper) its transpose."""
    lower = _core.cholesky(A)
    return lower.mT if upper else lower


def solve(A, B, *, left=True):
    """X with A·X = B, or (left=False) X·A = B. B is a batch of vectors where its rank is one less."""
    return _core.solve(A, B) if left else _core.solve(A.mT, B.mT).mT


def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """X with A·X = B, or (left=False) X·A = B, of which one triangle of A counts."""
    if left:
        return _core.triangular_solve(A, B, upper=upper, unit_diagonal=unitriangular)
    return _core.triangular_solve(A, B.mT, upper=upper, transposed=True, unit_diagonal=unitriangular).mT


def slogdet(A):
    """The sign of the determinant and the logarithm of its size."""
    return SlogdetResult(*_core.slogdet(A))


def eigh(A, UPLO="L"):
    """Eigenvalues in ascending order and eigenvectors in the columns, of symmetric matrices."""
    return EighResult(*_core.eigh(A if UPLO == "L" else A.mT))


def eigvalsh(A, UPLO="L"):
    """Eigenvalues of symmetric matrices in ascending order."""
    return _core.eigvalsh(A if UPLO == "L" else A.mT)


def qr(A, mode="reduced"):
    """A = Q·R; mode is 'reduced', 'complete' (a square Q) or 'r' (R alone)."""
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode is 'reduced', 'complete' or 'r', got {mode!r}")
    q, r = _core.qr(A)
    if mode == "complete" and A.shape[-2] > A.shape[-1]:
        q = _completed(q)
        r = _core.cat([r, _core.zeros((*r.shape[:-2], A.shape[-2] - A.shape[-1], r.shape[-1]), r.dtype)], -2)
    return QRResult(_core.zeros((0,), A.dtype) if mode == "r" else q, r)


def _completed(q):
    """Orthonormal columns with others beside them that make the matrix square."""
    rows, columns = q.shape[-2:]
    identity = _core.eye(rows, dtype=q.dtype).broadcast_to((*q.shape[:-2], rows, rows))
    rest = _core.qr(_core.cat([q, identity], -1))[0].narrow(-1, columns, rows - columns)
    return _core.cat([q, _core.stop_gradient(rest)], -1)


def svd(A, full_matrices=True, *, driver=None):
    """A = U·diag(S)·Vh, S in descending order; with full_matrices U and Vh are square."""
    u, s, vh = _core.svd(A)
    if full_matrices:
        if u.shape[-1] < u.shape[-2]:
            u = _completed(u)
        if vh.shape[-2] < vh.shape[-1]:
            vh = _completed(vh.mT).mT
    return SVDResult(u, s, vh)


def svdvals(A, *, driver=None):
    """Singular values in descending order."""
    return _core.svdvals(A)


def _symmetric(A):
    """The symmetric matrix with this lower triangle: what hermitian=True says a matrix is."""
    return _core.tril(A) + _core.tril(A, -1).mT


def _cut(A, atol, rtol):
    """Up to where singular values [..., k] count as 0: the larger of atol and rtol times the largest, as in PyTorch."""
    if rtol is None:
        epsilon = 2.0**-52 if A.dtype == _core.f64 else 2.0**-23
        rtol = 0.0 if atol is not None else max(A.shape[-2:], default=0) * epsilon
    rtol, atol = (t.unsqueeze(-1) if isinstance(t, _core.Tensor) and t.ndim else t for t in (rtol, atol))
    s = svdvals(A)
    largest = _core.max(s, -1, True) if s.shape[-1] else _core.zeros((*s.shape[:-1], 1), s.dtype)
    cut = largest * rtol
    return s, cut if atol is None else _core.maximum(cut, atol)


@_formula.rounded_once
def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    """The pseudo-inverse; singular values up to atol, or rtol (also called rcond) times the largest, count as 0."""
    rtol = rcond if rtol is None else rtol
    A = _symmetric(A) if hermitian else A
    if atol is None and not isinstance(rtol, _core.Tensor):
        return _core.pinv(A, rtol)
    s, cut = _cut(A, atol, rtol)
    u, _, vh = _core.svd(A)
    kept = _core.where(s > cut, 1.0 / _core.where(s > cut, s, 1.0), 0.0)
    return (vh.mT * kept.unsqueeze(-2)) @ u.mT


def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """How many singular values are larger than atol (also called tol) and than rtol times the largest."""
    s, cut = _cut(_symmetric(A) if hermitian else A, tol if atol is None else atol, rtol)
    return (s > cut).sum(-1)


@_formula.rounded_once
def lstsq(A, B, rcond=None, *, driver=None):
    """The X of least size that minimizes ‖A·X − B‖, with the squares that are left, the rank and the singular values."""
    return LstsqResult(*_core._least_squares(A, B, rcond))


def vector_norm(x, ord=2, dim=None, keepdim=False, *, axis=None, keepdims=False, dtype=None):
    """(Σ |x|^ord)^(1/ord) over the axes, or over everything."""
    x = x if dtype is None else x.cast(dtype)
    return _core.norm(x, float(ord), dim if axis is None else axis, keepdim or keepdims)


def _axes_of(name, x, axes):
    """Axes of x counted from 0, each of them once."""
    found = []
    for a in (axes,) if isinstance(axes, int) else axes:
        if not -x.ndim <= a < x.ndim:
            raise IndexError(f"{name}: axis {a} does not exist in a tensor of shape {tuple(x.shape)}")
        if a % x.ndim in found:
            raise ValueError(f"{name}: axis {a} is named twice")
        found.append(a % x.ndim)
    return found


@_formula.rounded_once
def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, keepdims=False, dtype=None):
    """The norm of matrices: 'fro', 'nuc', 2, -2 (singular values), 1, -1 (columns), inf or -inf (rows)."""
    A = A if dtype is None else A.cast(dtype)
    rows, columns = _axes_of("matrix_norm", A, dim)
    keep = keepdim or keepdims
    if ord == "fro":
        return _core.norm(A, 2.0, (rows, columns), keep)
    if ord in ("nuc", 2, -2):
        order = [d for d in range(A.ndim) if d not in (rows, columns)] + [rows, columns]
        s = svdvals(A.permute(order))
        found = s.sum(-1) if ord == "nuc" else _core.max(s, -1) if ord == 2 else _core.min(s, -1)
    elif ord in (1, -1, float("inf"), float("-inf")):
        summed, chosen = (rows, columns) if ord in (1, -1) else (columns, rows)
        sizes = _core.abs(A).sum(summed, True)
        found = (_core.max if ord > 0 else _core.min)(sizes, chosen, True).squeeze((rows, columns))
    else:
        raise ValueError(f"matrix_norm: ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}")
    return found.reshape([1 if d in (rows, columns) else n for d, n in enumerate(A.shape)]) if keep else found


def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """The norm of vectors (one axis) or matrices (two axes); without ord and dim, of all elements."""
    if dim is None and ord is None:
        return vector_norm(A.flatten(), 2, None, dtype=dtype).reshape([1] * A.ndim if keepdim else [])
    if dim is None:
        dim = -1 if A.ndim == 1 else (-2, -1)
    if isinstance(dim, int) or len(dim) == 1:
        return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
    return matrix_norm(A, "fro" if ord is None else ord, dim, keepdim, dtype=dtype)


@_formula.rounded_once
def matrix_power(A, n):
    """A multiplied by itself n times; by its inverse for negative n."""
    if n < 0:
        return matrix_power(_core.inv(A), -n)
    result = _core.eye(A.shape[-1], dtype=A.dtype).broadcast_to(A.shape)
    while n:
        if n & 1:
            result = _core.matmul(result, A)
        A, n = _core.matmul(A, A), n >> 1
    return result


def _cross(a, b, dim):
    """Vectors that lie one after the other in memory have a thread each, which computes three parts; of others, each element
    chooses its factors, so that one pass reads both tensors and writes the result."""
    parts = [[x.select(dim, k) for k in range(3)] for x in (a, b)]
    axes = max(a.ndim, b.ndim) - 1
    if all(dim % x.ndim == x.ndim - 1 for x in (a, b)):
        (a0, a1, a2), (b0, b1, b2) = parts
        return _core.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], -1)
    parts = [[x.reshape((1,) * (axes - x.ndim) + x.shape).unsqueeze(dim) for x in three] for three in parts]
    place = _core.arange(3).reshape([3 if k == dim % (axes + 1) else 1 for k in range(axes + 1)])

    def turned(x, by):  # element i is x[i + by]
        return _core.where(place == 0, x[by], _core.where(place == 1, x[(1 + by) % 3], x[(2 + by) % 3]))

    (a, b) = parts
    return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1)


@_formula.of_operands
def cross(input, other, *, dim=-1, axis=None):
    """The vector product along an axis of size 3."""
    dim = dim if axis is None else axis
    for x in (input, other):
        if x.ndim == 0 or not -x.ndim <= dim < x.ndim or x.shape[dim] != 3:
            raise ValueError(f"cross: axis {dim} must have size 3, got shapes {tuple(input.shape)} and {tuple(other.shape)}")
    if not input.dtype.is_floating:
        return _cross(input, other, dim)

    def rule(grad, y, inputs):
        a, b = inputs
        return [_core.sum_to(cross(b, grad, dim=dim), a.shape), _core.sum_to(cross(grad, a, dim=dim), b.shape)]

    return _core.custom_function(lambda a, b: _cross(a, b, dim), rule, input, other)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonal of the last two axes, or of others."""
    return _core.diagonal(A, offset, dim1, dim2)


def trace(x, *, offset=0, dtype=None):
    """The sum of the diagonal of the last two axes."""
    return (x if dtype is None else x.cast(dtype)).diagonal(offset, -2, -1).sum(-1)


def matrix_transpose(x):
    """The last two axes exchanged."""
    return x.mT


@_formula.of_operands
def multi_dot(tensors):
    """The product of several matrices, from left to right."""
    product = tensors[0]
    for t in tensors[1:]:
        product = _core.matmul(product, t)
    return product
