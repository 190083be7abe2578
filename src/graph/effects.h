// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "ebb/tensor.h"

namespace ebb {

// Effects of a function besides its results: the collectives in it, which happen on every call, in order,
// whether or not their results are used. compile() records them in such a scope while it traces the
// function.
class Effects {
 public:
  Effects();
  ~Effects();
  Effects(const Effects&) = delete;
  static Effects* current();  // of this thread; null outside of such a scope

  // The most recent one that belongs to `whose`; undefined before the first.
  const Tensor& last(const void* whose) { return last_[whose]; }
  // `before` is called before each call of the function.
  void note(const void* whose, const Tensor& effect, const std::function<void()>& before) {
    if (!last_[whose].defined()) before_.push_back(before);
    last_[whose] = effect;
  }

  std::vector<Tensor> last() const;  // the last of each: those before it are among its inputs
  const std::vector<std::function<void()>>& before() const { return before_; }

 private:
  Effects* outer_;
  std::map<const void*, Tensor> last_;
  std::vector<std::function<void()>> before_;
};

}  // namespace ebb
