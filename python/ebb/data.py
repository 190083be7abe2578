"""Data sets, and the loader that makes batches of them."""

from ._core._data import (  # noqa: F401
    BytePairs,
    DataLoader,
    make_digits,
    read_cifar10,
    read_cifar100,
    read_csv,
    read_idx,
    read_image,
    read_image_folder,
    read_text,
)
