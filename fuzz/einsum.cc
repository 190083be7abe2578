// SPDX-License-Identifier: MIT
#include "ebb/ops.h"
#include "files.h"
#include "target.h"

// An equation, and after a NUL the ranks and sizes of up to three operands.
EBB_FUZZ_TARGET(einsum) {
  using namespace ebb;
  using namespace ebb::fuzz;
  Choices choices(bytes);
  const std::string equation = choices.text_until('\0');
  std::vector<Tensor> operands;
  for (std::size_t k = choices.below(4); k > 0; --k) {
    std::vector<std::int64_t> sizes(choices.below(5));
    for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(choices.below(4));
    operands.push_back(ones(Shape(sizes)));
  }
  may_fail([&] { use(einsum(equation, operands)); });
}
