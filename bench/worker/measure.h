// SPDX-License-Identifier: MIT
#pragma once
#include <nlohmann/json.hpp>

#include "worker/cases.h"

namespace bench {

// How a case is computed: as a function that was built once, as the peers' compilers do (a training is not: its
// parameters are variables), or with its graph built in every call, or by hand.
enum class Way { compiled, rebuilt, by_hand };

// One case made ready to be timed over and over.
class Prepared {
 public:
  // `reference`: inputs widened to f64, so that the result can judge the others.
  Prepared(const Case& c, Size size, ebb::DType dtype, bool with_gradient, Way way, bool reference);
  Tensors once() const;
  Tensors results() const;  // what is judged: those of one call, or the losses of the first steps of a training
  nlohmann::json first_call() const;                           // its time, its numbers, its memory
  nlohmann::json time(int samples, int calls_a_sample) const;  // seconds a call, one for each sample
  nlohmann::json gradients() const;  // of a training: their bits as one number, and the memory they took

 private:
  const Case& case_;
  std::vector<Input> inputs_;
  Tensors tensors_;
  bool with_gradient_;
  std::function<Tensors(const Tensors&)> call_;  // computes the results from the inputs
  std::size_t pool_before_ = 0;                  // handed out before the inputs were made
  std::unique_ptr<TrainingRun> training_;        // each call goes on from where the last one stopped
};

// The compared part of a result: count, norm and eight elements.
nlohmann::json summary(const ebb::Tensor& result);

// Computes every case at its tiny size and holds it against f64. Prints what is wrong; 0 if nothing is.
int smoke();

}  // namespace bench
