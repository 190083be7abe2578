# SPDX-License-Identifier: MIT
"""Data sets, and the loader that makes batches of them."""

from . import _core
from ._core import _data
from ._core._data import (  # noqa: F401
    BytePairs,
    Tokenizer,
    make_digits,
    pack_sequences,
    read_cifar10,
    read_cifar100,
    read_csv,
    read_idx,
    read_image,
    read_image_folder,
    read_text,
)


class Dataset:
    """The base of data sets of one's own: __len__ says how many examples there are, __getitem__ gives one."""

    def __len__(self):
        raise NotImplementedError(f"{type(self).__name__} has no method __len__")

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__} has no method __getitem__")


class TensorDataset(Dataset):
    """Tensors of equal length; an example is a row of each."""

    def __init__(self, *tensors):
        self.tensors = tensors

    def __len__(self):
        return self.tensors[0].shape[0]

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)


def default_collate(examples):
    """One tensor for each part of the examples: tensors, arrays and numbers stacked."""
    first = examples[0]
    parts = zip(*examples) if isinstance(first, (tuple, list)) else [examples]
    return [_core.stack([_core.asarray(part) for part in each]) for each in parts]


class DataLoader(_data.DataLoader):
    """Batches of a data set, epoch after epoch, shuffled unless told otherwise.

    data is a list of tensors of equal length, DataLoader([images, labels], 64); a data set with __len__ and __getitem__,
    whose examples collate_fn puts together; or a number of examples followed by make(items), which gives the batch of
    these items. What a batch holds is a function of the seed, the epoch and its number, so it does not depend on the
    workers, which are threads.
    """

    def __init__(self, data, *args, num_workers=None, collate_fn=None, pin_memory=False, **kwargs):
        if num_workers is not None:
            kwargs["workers"] = num_workers
        if isinstance(data, TensorDataset) and collate_fn is None:
            data = list(data.tensors)
        if isinstance(data, (int, list, tuple)) and collate_fn is None:
            _data.DataLoader.__init__(self, data, *args, **kwargs)
            return
        if isinstance(data, _core.Tensor) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            raise TypeError(
                f"DataLoader: data is a list of tensors, or a data set with __len__ and __getitem__, got {type(data).__name__}"
            )
        collate = collate_fn or default_collate

        def make(items):
            made = collate([data[i] for i in items])
            return list(made) if isinstance(made, (list, tuple)) else [made]

        _data.DataLoader.__init__(self, len(data), make, *args, **kwargs)
