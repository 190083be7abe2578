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
from ._transforms import _flatten, _structure


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


class Subset(Dataset):
    """Some examples of a data set, by their indices."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, [int(k) for k in indices]

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]


def random_split(dataset, lengths, generator=None):
    """Divides a data set at random into Subsets of these lengths, or of these shares (0.8, 0.2); ebb.manual_seed seeds."""
    if generator is not None:
        raise TypeError("random_split: there are no generators; call ebb.manual_seed(seed) before it, which repeats the division")
    n = len(dataset)
    if all(isinstance(length, float) for length in lengths) and abs(sum(lengths) - 1) < 1e-6:
        lengths = [int(share * n) for share in lengths]
        for k in range(n - sum(lengths)):
            lengths[k % len(lengths)] += 1
    if sum(lengths) != n or not all(isinstance(length, int) for length in lengths):
        raise ValueError(f"random_split: lengths must add up to {n}, the number of examples, or shares to 1, got {list(lengths)}")
    order, parts = _core.randperm(n).tolist(), []
    for length in lengths:
        parts.append(Subset(dataset, order[:length]))
        order = order[length:]
    return parts


def default_collate(examples):
    """Examples put together: tensors, arrays and numbers are stacked; tuples, lists and dicts of them part by part."""
    first = examples[0]
    if isinstance(first, dict):
        return {key: default_collate([example[key] for example in examples]) for key in first}
    if isinstance(first, (tuple, list)):
        return [default_collate(part) for part in zip(*examples, strict=True)]
    if isinstance(first, (str, bytes)):
        raise TypeError(f"default_collate: cannot make a tensor of {type(first).__name__}; leave it out, or pass collate_fn=")
    return _core.stack([_core.asarray(example) for example in examples])


class _Structure:
    """How batches look, which the loader passes on as lists of tensors."""

    def __init__(self):
        self.key = self.rebuild = None

    def tensors_of(self, batch):
        tensors, key = [], _structure(batch)
        rebuild = _flatten(batch, tensors, name="DataLoader")
        if self.rebuild is None:
            self.key, self.rebuild = key, rebuild
        if self.key != key:
            raise ValueError("DataLoader: every batch must have the structure of the first, with the same keys and lengths")
        return tensors


_NOT_OF_THE_LOADER = {
    **dict.fromkeys(("sampler", "batch_sampler"), "choose examples by Subset(dataset, indices), with shuffle=False for that order"),
    "worker_init_fn": "workers are threads, and the random numbers of a batch are seeded by seed=, epoch and its number",
    "generator": "seed= decides the order",
    "prefetch_factor": "prefetch= is the number of batches per worker",
}


class DataLoader(_data.DataLoader):
    """Batches of a data set, epoch after epoch, shuffled unless told otherwise.

    data is a list of tensors of equal length, DataLoader([images, labels], 64); a data set with __len__ and __getitem__,
    whose examples collate_fn puts together, and whose batches are what it returns; or a number of examples followed by
    make(items), which gives the batch of these items, a list of tensors. What a batch holds is a function of the seed, the
    epoch and its number, so it does not depend on the workers, which are threads.
    """

    def __init__(self, data, *args, num_workers=None, collate_fn=None, pin_memory=False, persistent_workers=False, **kwargs):
        self._batches = None
        for name in kwargs:
            if name not in ("batch_size", "shuffle", "drop_last", "workers", "prefetch", "seed"):
                raise TypeError(
                    f"DataLoader: there is no argument {name!r}; "
                    + _NOT_OF_THE_LOADER.get(name, "help(ebb.data.DataLoader) shows those that there are")
                )
        if num_workers is not None:
            kwargs["workers"] = num_workers
        if collate_fn is None and isinstance(data, TensorDataset):
            data = list(data.tensors)
        elif collate_fn is None and isinstance(data, Subset) and isinstance(data.dataset, TensorDataset):
            data = [_core.index_select(_core.asarray(tensor), 0, _core.tensor(data.indices)) for tensor in data.dataset.tensors]
        if isinstance(data, (int, list, tuple)) and collate_fn is None:
            _data.DataLoader.__init__(self, data, *args, **kwargs)
            return
        if isinstance(data, _core.Tensor) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            raise TypeError(
                f"DataLoader: data is a list of tensors, or a data set with __len__ and __getitem__, got {type(data).__name__}"
            )
        collate, batches = collate_fn or default_collate, _Structure()

        def make(items):
            return batches.tensors_of(collate([data[i] for i in items]))

        _data.DataLoader.__init__(self, len(data), make, *args, **kwargs)
        self._batches = batches

    def __next__(self):
        batch = super().__next__()
        return batch if self._batches is None else self._batches.rebuild(batch)

    def next(self):
        """The next batch; None once at the end of each epoch."""
        batch = super().next()
        return batch if batch is None or self._batches is None else self._batches.rebuild(batch)
