# SPDX-License-Identifier: MIT
"""What contenders are called."""

TITLES = {
    "ebb": "Ebb",
    "ebb recompute_activation": "Ebb, `recompute_activation` in half of the blocks",
    "eager": "PyTorch",
    "compile": "torch.compile",
    "compile autograd": "torch.compile, backward apart",
    "max_autotune": "torch.compile, max-autotune",
    "graphs": "torch.compile, CUDA graphs",
    "liger": "Liger",
    "cce": "CCE",
    "quack": "QuACK",
    "quack one pass": "QuACK, gradient in the forward pass",
    "quack 2048": "QuACK, chunks of 2048",
    "cudnn": "cuDNN",
    "ebb torch": "ebb.torch",
    "compile ebb.torch": "torch.compile, loss by ebb.torch",
    "products": "the three products alone",
    "products of a step": "a step's products alone, by cuBLAS",
    "products and attention": "its products and its attention alone, by cuBLAS and PyTorch",
}
# Those whose best a row is compared with.
PEERS = ["eager", "compile", "compile autograd", "max_autotune", "graphs", "liger", "cce", "quack", "quack one pass",
         "quack 2048", "cudnn"]

# The packages of others: what is imported, and the name that pip knows.
PACKAGES = {
    "liger": ("liger_kernel.transformers.functional", "liger-kernel"),
    "cce": ("cut_cross_entropy", "cut-cross-entropy"),
    "quack": ("quack", "quack-kernels"),
}
