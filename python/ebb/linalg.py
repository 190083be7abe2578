"""Linear algebra under the names of torch.linalg and of the array API's extension linalg."""

from collections import namedtuple

from . import _core

EighResult = namedtuple("EighResult", ["eigenvalues", "eigenvectors"])
QRResult = namedtuple("QRResult", ["Q", "R"])
SlogdetResult = namedtuple("SlogdetResult", ["sign", "logabsdet"])
SVDResult = namedtuple("SVDResult", ["U", "S", "Vh"])
LstsqResult = namedtuple("LstsqResult", ["solution", "residuals", "rank", "singular_values"])

det, inv, matmul, outer = _core.det, _core.inv, _core.matmul, _core.outer


def cholesky(x, /, *, upper=False):
    """L with L·Lᵀ = x, or (upper) its transpose."""
    lower = _core.cholesky(x)
    return lower.mT if upper else lower


def solve(A, B, /, *, left=True):
    """X with A·X = B, or (left=False) X·A = B. B is a batch of vectors where its rank is one less."""
    return _core.solve(A, B) if left else _core.solve(A.mT, B.mT).mT


def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """X with A·X = B, or (left=False) X·A = B, of which one triangle of A counts."""
    if left:
        return _core.triangular_solve(A, B, upper=upper, unit_diagonal=unitriangular)
    return _core.triangular_solve(A, B.mT, upper=upper, transposed=True, unit_diagonal=unitriangular).mT


def slogdet(x, /):
    """The sign of the determinant and the logarithm of its size."""
    return SlogdetResult(*_core.slogdet(x))


def eigh(x, /, UPLO="L"):
    """Eigenvalues in ascending order and eigenvectors in the columns, of symmetric matrices."""
    return EighResult(*_core.eigh(x if UPLO == "L" else x.mT))


def eigvalsh(x, /, UPLO="L"):
    """Eigenvalues of symmetric matrices in ascending order."""
    return eigh(x, UPLO).eigenvalues


def qr(x, /, mode="reduced"):
    """x = Q·R; mode is 'reduced', 'complete' (a square Q) or 'r' (R alone)."""
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode is 'reduced', 'complete' or 'r', got {mode!r}")
    q, r = _core.qr(x)
    if mode == "complete" and x.shape[-2] > x.shape[-1]:
        q = _completed(q)
        r = _core.cat([r, _core.zeros((*r.shape[:-2], x.shape[-2] - x.shape[-1], r.shape[-1]), r.dtype)], -2)
    return QRResult(_core.zeros((0,), x.dtype) if mode == "r" else q, r)


def _completed(q):
    """Orthonormal columns with others beside them that make the matrix square."""
    rows, columns = q.shape[-2:]
    identity = _core.eye(rows, dtype=q.dtype).broadcast_to((*q.shape[:-2], rows, rows))
    rest = _core.qr(_core.cat([q, identity], -1))[0].narrow(-1, columns, rows - columns)
    return _core.cat([q, _core.stop_gradient(rest)], -1)


def svd(x, /, *, full_matrices=True):
    """x = U·diag(S)·Vh, S in descending order; with full_matrices U and Vh are square."""
    u, s, vh = _core.svd(x)
    if full_matrices:
        if u.shape[-1] < u.shape[-2]:
            u = _completed(u)
        if vh.shape[-2] < vh.shape[-1]:
            vh = _completed(vh.mT).mT
    return SVDResult(u, s, vh)


def svdvals(x, /):
    """Singular values in descending order."""
    return _core.svd(x)[1]


def pinv(x, /, *, rtol=None):
    """The pseudo-inverse; singular values up to rtol times the largest count as 0."""
    return _core.pinv(x, rtol)


def matrix_rank(x, /, *, rtol=None):
    """How many singular values are larger than rtol times the largest."""
    s = svdvals(x)
    epsilon = 2.0**-52 if x.dtype == _core.f64 else 2.0**-23
    cut = max(x.shape[-2:]) * epsilon if rtol is None else rtol
    return (s > _core.max(s, -1, True) * cut).sum(-1)


def lstsq(A, B, rcond=None):
    """The X of least size that minimizes ‖A·X − B‖, with the squares that are left, the rank and the singular values."""
    solution = _core.lstsq(A, B, rcond)
    left = _core.square(_core.matmul(A, solution) - B)
    return LstsqResult(solution, left.sum(-2 if B.ndim == A.ndim else -1), matrix_rank(A, rtol=rcond), svdvals(A))


def vector_norm(x, /, ord=2, dim=None, keepdim=False, *, axis=None, keepdims=False, dtype=None):
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


def matrix_norm(x, /, ord="fro", dim=(-2, -1), keepdim=False, *, keepdims=False, dtype=None):
    """The norm of matrices: 'fro', 'nuc', 2, -2 (singular values), 1, -1 (columns), inf or -inf (rows)."""
    x = x if dtype is None else x.cast(dtype)
    rows, columns = _axes_of("matrix_norm", x, dim)
    keep = keepdim or keepdims
    if ord == "fro":
        return _core.norm(x, 2.0, (rows, columns), keep)
    if ord in ("nuc", 2, -2):
        order = [d for d in range(x.ndim) if d not in (rows, columns)] + [rows, columns]
        s = svdvals(x.permute(order))
        found = s.sum(-1) if ord == "nuc" else _core.max(s, -1) if ord == 2 else _core.min(s, -1)
    elif ord in (1, -1, float("inf"), float("-inf")):
        summed, chosen = (rows, columns) if ord in (1, -1) else (columns, rows)
        sizes = _core.abs(x).sum(summed, True)
        found = (_core.max if ord > 0 else _core.min)(sizes, chosen, True).squeeze((rows, columns))
    else:
        raise ValueError(f"matrix_norm: ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}")
    return found.reshape([1 if d in (rows, columns) else n for d, n in enumerate(x.shape)]) if keep else found


def norm(x, ord=None, dim=None, keepdim=False, *, dtype=None):
    """The norm of vectors (one axis) or matrices (two axes); without ord and dim, of all elements."""
    if dim is None and ord is None:
        return vector_norm(x.flatten(), 2, None, dtype=dtype).reshape([1] * x.ndim if keepdim else [])
    if dim is None:
        dim = -1 if x.ndim == 1 else (-2, -1)
    if isinstance(dim, int) or len(dim) == 1:
        return vector_norm(x, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
    return matrix_norm(x, "fro" if ord is None else ord, dim, keepdim, dtype=dtype)


def matrix_power(x, n, /):
    """x multiplied by itself n times; by its inverse for negative n."""
    if n < 0:
        return matrix_power(_core.inv(x), -n)
    result = _core.eye(x.shape[-1], dtype=x.dtype).broadcast_to(x.shape)
    while n:
        if n & 1:
            result = _core.matmul(result, x)
        x, n = _core.matmul(x, x), n >> 1
    return result


def cross(x1, x2, /, *, axis=-1):
    """The vector product along an axis of size 3."""
    a, b = ([x.select(axis, k) for k in range(3)] for x in (x1, x2))
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    return _core.stack(parts, axis)


def diagonal(x, /, *, offset=0):
    """The diagonal of the last two axes."""
    return _core.diagonal(x, offset, -2, -1)


def trace(x, /, *, offset=0, dtype=None):
    """The sum of the diagonal of the last two axes."""
    return (x if dtype is None else x.cast(dtype)).diagonal(offset, -2, -1).sum(-1)


def matrix_transpose(x, /):
    """The last two axes exchanged."""
    return x.mT


def multi_dot(tensors):
    """The product of several matrices, from left to right."""
    product = tensors[0]
    for t in tensors[1:]:
        product = _core.matmul(product, t)
    return product
