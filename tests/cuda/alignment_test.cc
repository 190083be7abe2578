// SPDX-License-Identifier: MIT
// CTC, transducers and losses by rows on the GPU.
#include "core/format_error.h"
#include "cuda/library_on_gpu.h"

namespace ebb::testing {
namespace {

class AlignmentsOnGpu : public LibraryOnGpu {};

// Lengths and labels are checked on the device; the errors reported later use the CPU's words.
TEST_P(AlignmentsOnGpu, AlignmentsNameWhatIsWrong) {
  const Tensor x = log_softmax(real({4, 2, 3}), 2).eval(), lattice = log_softmax(real({2, 4, 3, 3}), 3).eval();
  const Tensor labels = tensor({{1, 2}, {1, 2}}), steps = tensor({4, 4}), lengths = tensor({2, 2});
  const auto words = [](Device device, bool ctc, const std::vector<Tensor>& in) -> std::string {
    try {
      std::vector<Tensor> there;
      for (const Tensor& t : in) there.push_back(t.to(device));
      const Tensor loss =
          (ctc ? ctc_loss(there[0], there[1], there[2], there[3]) : rnnt_loss(there[0], there[1], there[2], there[3]))
              .eval();
      loss.to_vector();
      return "nothing";
    } catch (const Error& e) {
      return fmt::format("{}: {}", static_cast<int>(e.kind()), e.what());
    }
  };
  struct Case {
    Tensor labels, steps, lengths;
    const char* part;
  };
  const Case both[] = {{labels, tensor({4, 5}), lengths, "input_lengths[1] = 5 is outside"},
                       {labels, tensor({-1, 4}), lengths, "input_lengths[0] = -1 is outside"},
                       {labels, steps, tensor({2, 3}), "target_lengths[1] = 3 is outside [0, 2]"},
                       {tensor({{1, 2}, {3, 2}}), steps, lengths, "label 0 of sample 1 is 3, outside [0, 3)"},
                       {tensor({{1, 0}, {1, 2}}), steps, lengths, "label 1 of sample 0 is 0, the blank"}};
  const Case in_a_row[] = {{tensor({1, 2, 1}), steps, lengths, "add up to 4, but there are 3"},
                           {tensor({1, 2, 1}), steps, tensor({1, 1}), "add up to 2, but there are 3"}};
  const auto expect = [&](bool ctc, const Case& c) {
    const std::vector<Tensor> in{ctc ? x : lattice, c.labels, c.steps, c.lengths};
    EXPECT_EQ(words(kGpu, ctc, in), words({}, ctc, in));
    EXPECT_NE(words(kGpu, ctc, in).find(c.part), std::string::npos) << words(kGpu, ctc, in);
  };
  for (const Case& c : both) expect(true, c), expect(false, c);
  for (const Case& c : in_a_row) expect(true, c);
}

TEST_P(AlignmentsOnGpu, Alignments) {
  const Tensor x = cast(log_softmax(randn({9, 3, 5}), 2), GetParam()).eval();
  const Tensor labels = tensor({{1, 2, 2, 4}, {3, 1, 0, 0}, {4, 0, 0, 0}}).eval();
  const Tensor steps = tensor({9, 7, 4}).eval(), lengths = tensor({4, 2, 1}).eval();
  compare("ctc_loss", {x, labels, steps, lengths},
          [&](const std::vector<Tensor>& in) { return ctc_loss(in[0], in[1], in[2], in[3]); });
  const auto none = [](const std::vector<Tensor>& in) {
    return ctc_loss(in[0], in[1], in[2], in[3], {.reduction = Reduction::none});
  };
  // 32 labels are a stripe, eight steps are taken at a time: lengths around those, few classes and many of each, more
  // labels than steps, nothing at all, and a sample whose stripes are more than a block has warps.
  const std::vector<std::int64_t> sizes{31, 32, 33, 64, 0, 40, 0, 5, 259};
  const std::int64_t samples = 9, most = 259;
  std::vector<std::int64_t> in_a_row, in_rows;
  for (const std::int64_t size : sizes) {
    for (std::int64_t i = 0; i < most; ++i) {
      const std::int64_t label = (5 * i + i / 20) % 6 + 1;  // the same one twice, now and then
      in_rows.push_back(i < size ? label : 0);
      if (i < size) in_a_row.push_back(label);
    }
  }
  const Tensor far = cast(log_softmax(randn({290, samples, 7}), 2), GetParam()).eval();
  const Tensor counts = tensor({57, 64, 65, 290, 8, 39, 0, 7, 290}).eval(), row_lengths = from_data(sizes, {samples});
  compare("ctc_loss of many labels in a row",
          {far, from_data(in_a_row, {static_cast<std::int64_t>(in_a_row.size())}), counts, row_lengths}, none);
  compare("second derivatives of ctc_loss",
          {far.slice(0, 0, 70).slice(1, 0, 3).eval(), from_data(in_rows, {samples, most}).slice(0, 0, 3).eval(),
           tensor({57, 64, 65}), tensor({31, 32, 33})},
          [&](const std::vector<Tensor>& in) {
            return ctc_loss_backward(ones({3}, compute_dtype(GetParam())).to(in[0].device()), in[0], in[1], in[2],
                                     in[3], {.reduction = Reduction::none});
          });
  compare("ctc_loss of many labels", {far, from_data(in_rows, {samples, most}), counts, row_lengths}, none);
  const Tensor joint = cast(log_softmax(randn({3, 6, 5, 5}), 3), GetParam()).eval(), frames = tensor({6, 5, 3}).eval();
  compare("rnnt_loss", {joint, labels, frames, lengths},
          [&](const std::vector<Tensor>& in) { return rnnt_loss(in[0], in[1], in[2], in[3]); });
}

TEST_P(AlignmentsOnGpu, LossesByRow) {
  const Tensor x = real({6, 9}), target = randint(0, 9, {6}).eval();
  compare("sparsemax_loss", {x, target}, [&](const std::vector<Tensor>& in) { return sparsemax_loss(in[0], in[1]); });
  // Rows of several blocks: those that some steps settle, that none of the launched ones does, equal numbers, and columns.
  const auto threshold_of = [](const std::vector<Tensor>& in) { return sparsemax_loss(in[0], in[1]); };
  const std::int64_t length = 66001;
  const Tensor first = tensor({5, 0, 66000});
  for (const double spread : {1.0, 1e-3, 0.0})
    compare(fmt::format("sparsemax_loss of long rows, {}", spread), {real({3, length}) * spread, first}, threshold_of);
  compare("sparsemax_loss over columns", {transpose(real({length, 3}), 0, 1), first}, threshold_of);
  const Tensor falling = cast(-log2(arange(length) + 1.0) / 4, GetParam()).eval();
  compare("sparsemax_loss of a long tail", {unsqueeze(falling, 0), tensor({3})}, threshold_of);
  // The last element is the threshold of the others, up to rounding in f64: the threshold with it is its own, and without
  // it one below.
  const Tensor at_threshold = from_data(std::vector<double>{0, -0.8604308447003245, -0.9302154223501621}, {1, 3});
  const Tensor short_row = cast(at_threshold, GetParam()).eval();
  compare("sparsemax_loss at a threshold", {short_row, tensor({1})}, threshold_of);
  const Tensor long_row = cat({short_row, cast(full({1, length}, -3.0), GetParam())}, 1).eval();
  compare("sparsemax_loss at a threshold of a long row", {long_row, tensor({1})}, threshold_of);
  const Tensor lists = (randint(0, 9, {6, 9}) - cast(arange(9) > 3, DType::i64) * 10).eval();
  compare("multilabel_margin_loss", {x, where(lists < 0, -1, lists).eval()},
          [&](const std::vector<Tensor>& in) { return multilabel_margin_loss(in[0], in[1]); });
}

INSTANTIATE_TEST_SUITE_P(Of, AlignmentsOnGpu, kFloats, dtype_of_test);

}  // namespace
}  // namespace ebb::testing
