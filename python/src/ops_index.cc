// SPDX-License-Identifier: MIT
#include "bind.h"
#include "ebb/ops.h"
#include "ops/index_nodes.h"

namespace ebb::python {

void bind_index(const Api& api) {
  both(api, "gather", gather, "axis"_a, "index"_a);
  both(api, "take_along", take_along, "index"_a, "axis"_a);
  both(api, "weighted_gather", weighted_gather, "index"_a, "weight"_a);
  both(
      api, "scatter",
      [](const Tensor& x, std::int64_t axis, const Tensor& index, TensorOrScalar src) {
        return src.is_tensor() ? scatter(x, axis, index, src.tensor()) : scatter(x, axis, index, src.scalar());
      },
      "axis"_a, "index"_a, "src"_a);
  both(api, "scatter_add", scatter_add, "axis"_a, "index"_a, "src"_a);
  both(api, "index_select", index_select, "axis"_a, "index"_a);
  both(api, "index_add", index_add, "axis"_a, "index"_a, "src"_a);
  function(api, "embedding", embedding, "weight"_a, "index"_a, "padding_index"_a.none() = nb::none());
  function(api, "one_hot", one_hot, "index"_a, "classes"_a = -1, "dtype"_a = DTypeObject{DType::i64});
  both(api, "argsort", argsort, "axis"_a = -1, "descending"_a = false);
  both(api, "sort", sort, "axis"_a = -1, "descending"_a = false);
  // The elements at one place of the sorted order, and where they are: the other places need not be known.
  api.module.def("_sorted_place", [](const Tensor& x, std::int64_t place, std::int64_t axis) {
    const int along = normalize_axis("kthvalue", axis, x.rank());
    const Tensor at = argsort_range(x, along, false, place, 1);
    return std::pair(gather(x, along, at), at);
  });
  both(api, "topk", topk, "k"_a, "axis"_a = -1, "largest"_a = true);
}

}  // namespace ebb::python
