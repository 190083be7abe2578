# SPDX-License-Identifier: MIT
"""Ebb as a kernel of Hugging Face's `kernels`, whose folder this is (ebb.torch.kernel_mapping). It is loaded from its path under
another name, so it imports Ebb as any program does.
"""

from . import layers

__all__ = ["layers"]
