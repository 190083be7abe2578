// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <filesystem>

#include "ebb/ebb.h"
#include "run_program.h"
#include "scratch_folder.h"

// `ebb convert` keeps every number, and refuses lossy conversions.
namespace ebb {
namespace {

class Convert : public testing::Test {
 protected:
  Convert() { io::save_safetensors(folder_ / "model.safetensors", tensors_, {{"made by", "a test"}}); }
  ProgramResult convert(std::vector<std::string> words) {
    words.insert(words.begin(), "convert");
    return run_ebb(words);
  }
  void expect_complaint(const std::vector<std::string>& words, const std::string& text) {
    const ProgramResult r = convert(words);
    EXPECT_EQ(r.code, 1) << r.err;
    EXPECT_NE(r.err.find(text), std::string::npos) << r.err;
  }

  const ScratchFolder folder_;
  const io::TensorMap tensors_{{"layer.weight", tensor({0.5, -1.25, 3e-8})},
                               {"count", from_data(std::vector<std::int64_t>{1, -7}, {2})}};
  const std::string model_ = folder_ / "model.safetensors";
};

TEST_F(Convert, ThereAndBackIsTheSame) {
  EXPECT_EQ(convert({model_, folder_ / "a.npz"}).code, 0);
  EXPECT_EQ(convert({folder_ / "a.npz", folder_ / "b.safetensors", "--overwrite"}).code, 0);
  const io::TensorMap back = io::Safetensors(folder_ / "b.safetensors").tensors();
  ASSERT_EQ(back.size(), tensors_.size());
  for (const auto& [name, x] : tensors_) {
    EXPECT_EQ(back.at(name).dtype(), x.dtype());
    EXPECT_EQ(back.at(name).to_vector(), x.to_vector()) << name;
  }
  EXPECT_EQ(convert({model_, folder_ / "c.safetensors"}).code, 0);
  EXPECT_EQ(io::Safetensors(folder_ / "c.safetensors").metadata().at("made by"), "a test");
}

TEST_F(Convert, OneTensorToNpy) {
  EXPECT_EQ(convert({model_, folder_ / "w.npy", "--only", "layer.weight"}).code, 0);
  EXPECT_EQ(io::load_npy(folder_ / "w.npy").to_vector(), tensors_.at("layer.weight").to_vector());
  expect_complaint({model_, folder_ / "x.npy"},
                   "an .npy file holds one tensor, and there are 2; choose one with --only");
}

TEST_F(Convert, DtypesOfFloatingPointTensorsAlone) {
  EXPECT_EQ(convert({model_, folder_ / "h.npz", "--dtype", "bf16"}).code, 0);
  const io::TensorMap halves = io::load_npz(folder_ / "h.npz");
  EXPECT_EQ(halves.at("layer.weight").dtype(), DType::bf16);
  EXPECT_EQ(halves.at("count").dtype(), DType::i64);
}

TEST_F(Convert, SaysWhatIsWrongAndLeavesFilesAlone) {
  expect_complaint({model_, folder_ / "model.txt"}, "must end in .npy, .npz or .safetensors");
  expect_complaint({folder_ / "none.npz", folder_ / "x.npz"}, "there is no such file");
  expect_complaint({model_, model_}, "the file exists; --overwrite replaces it");
  expect_complaint({model_, folder_ / "x.npz", "--only", "layer.weigth"}, "did you mean 'layer.weight'?");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.npz"));
  EXPECT_EQ(io::Safetensors(model_).tensors().size(), 2u);
}

}  // namespace
}  // namespace ebb
