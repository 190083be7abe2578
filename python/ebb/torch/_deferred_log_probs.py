# SPDX-License-Identifier: MIT
"""Log-probabilities of deferred logits (_deferred_logits.py), for losses that are written with them.

The log-probability of one class per row, and the sum over all classes, as Trainer's label smoothing needs them, are what
linear_log_probs gives: both from one pass over the logits, which are not held. Any other use computes them.
"""

import torch
from torch.nn import functional as F

from ._deferred import Deferred, count_fused, values, with_weights
from ._log_probs import linear_log_probs


def log_softmax(logits, dim=None, _stacklevel=3, dtype=None):
    if isinstance(_stacklevel, torch.dtype):  # torch.log_softmax and Tensor.log_softmax have their dtype there
        _stacklevel, dtype = 3, _stacklevel
    last = dim is not None and dim in (-1, logits.ndim - 1)
    if not last or dtype not in (None, torch.float32) or not logits.has_operands():
        return F.log_softmax(logits.value(), dim, _stacklevel, dtype)
    return LogProbs(logits, 1.0, dtype)


class LogProbs(Deferred):
    """sign·log_softmax(logits, -1). Rows' numbers are f32 (f64 for f64)."""

    def __init__(self, logits, sign, cast):
        self.logits, self.sign, self.cast = logits, sign, cast
        self.dtype = logits.dtype if cast is None else cast
        self.with_gradients = torch.is_grad_enabled() and logits.with_gradients
        self._value = self._sums = None

    def value(self):
        if self._value is None:
            with torch.set_grad_enabled(self.with_gradients):
                found = F.log_softmax(self.logits.value(), -1, dtype=self.cast)
                self._value = found if self.sign == 1 else -found
        return self._value

    def __repr__(self):
        return f"LogProbs({tuple(self.shape)}, {self.dtype}{', not computed' if self._value is None else ''})"

    def watch_gradient(self):
        self.logits.watch_gradient()

    @property
    def shape(self):
        return self.logits.shape

    @property
    def ndim(self):
        return self.logits.ndim

    @property
    def device(self):
        return self.logits.device

    @property
    def requires_grad(self):
        return self.with_gradients and self.logits.requires_grad

    def dim(self):
        return self.ndim

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def __neg__(self):
        return LogProbs(self.logits, -self.sign, self.cast)

    neg = __neg__

    def _is_last(self, dim):
        return isinstance(dim, int) and dim in (-1, self.ndim - 1)

    def gather(self, dim, index):
        if self._value is not None or not self._is_last(dim) or index.shape != (*self.shape[:-1], 1):
            return self.value().gather(dim, values(index))
        return self._picked(index.squeeze(-1)).unsqueeze(-1)

    def sum(self, dim=None, keepdim=False, dtype=None):
        if self._value is not None or not self._is_last(dim):
            return self.value().sum(dim=dim, keepdim=keepdim, dtype=dtype)
        if self._sums is None:  # of any class: the sum does not depend on it
            self._picked(torch.zeros(self.shape[:-1], dtype=torch.int64, device=self.device))
        sums = self._sums.unsqueeze(-1) if keepdim else self._sums
        return sums if dtype is None else sums.to(dtype)

    def _picked(self, classes):
        """sign·log p of a class in each row; the sums over all classes, Σ z − V·log Σ e^z, are found with it."""

        def compute(products):
            x, head, bias, softcap = self.logits.operands(products)
            names = ("log_probs", "mean_logits", "logsumexp")
            # Every class counts, -100 among those that are none.
            return linear_log_probs(x, head, classes, bias=bias, softcap=softcap, outputs=names, ignore_index=-(1 << 62))

        count_fused()
        self.logits.mark_used()
        with torch.set_grad_enabled(self.with_gradients):  # of the sums, which are kept
            log_probs, mean, logsumexp = with_weights(self.logits.products, compute)
            self._sums = (self.sign * self.shape[-1]) * (mean - logsumexp)
            return self.sign * log_probs
