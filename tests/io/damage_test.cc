// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "sample_tensors.h"
#include "scratch_folder.h"

// Files that were flipped, cut, stretched and overwritten at random: the result is tensors that can be read completely,
// or an Error. The sanitizers check the rest.
namespace ebb {
namespace {

std::string damaged(std::string bytes, std::mt19937& chance) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(chance); };
  const std::size_t times = 1 + below(3);
  for (std::size_t i = 0; i < times && !bytes.empty(); ++i) {
    const std::size_t at = below(bytes.size());
    switch (below(7)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, below(20), static_cast<char>(below(256)));
        break;
      case 4:
        bytes.erase(at, below(20));
        break;
      case 5:  // a number that is far too large, where one of 4 bytes may stand
        for (std::size_t k = at; k < std::min(at + 4, bytes.size()); ++k) bytes[k] = '\xff';
        break;
      case 6: {  // a digit: sizes and offsets of headers are text
        const std::size_t digit = bytes.find_first_of("0123456789", at);
        if (digit != std::string::npos) bytes[digit] = static_cast<char>('0' + below(10));
      }
    }
  }
  return bytes;
}

void use(const io::TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) (void)bits(tensor);
}

void try_damage(const std::string& path, int times, const std::function<void()>& load) {
  ASSERT_NO_THROW(load());
  const std::string good = read_whole(path);
  std::mt19937 chance(7);
  int errors = 0;
  for (int i = 0; i < times; ++i) {
    write_whole(path, damaged(good, chance));
    try {
      load();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(error.kind() == Error::Kind::io ? path : ""), std::string::npos)
          << error.what();
      ++errors;
    }
  }
  EXPECT_GT(errors, times / 4);
}

io::TensorMap few_tensors() {
  return {{"a", random_bits(DType::f32, {3, 2})},
          {"b", random_bits(DType::bool_, {5})},
          {"c", arange(4)},
          {"d", random_bits(DType::bf16, {})},
          {"e", zeros({0, 3})}};
}

TEST(Damage, Npy) {
  const ScratchFolder folder;
  for (DType dtype : {DType::f32, DType::bool_}) {
    io::save_npy(folder / "a.npy", random_bits(dtype, {3, 2}));
    try_damage(folder / "a.npy", 3000, [&] { use({{"", io::load_npy(folder / "a.npy")}}); });
  }
}

TEST(Damage, Npz) {
  const ScratchFolder folder;
  for (bool compress : {false, true}) {
    io::save_npz(folder / "a.npz", few_tensors(), {.compress = compress});
    try_damage(folder / "a.npz", 3000, [&] { use(io::load_npz(folder / "a.npz")); });
  }
}

TEST(Damage, Safetensors) {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  io::save_safetensors(path, few_tensors(), {{"note", "text"}});
  try_damage(path, 6000, [&] { use(io::Safetensors(path).tensors()); });
}

TEST(Damage, CheckpointsAreRightOrRefused) {
  const ScratchFolder folder;
  const std::string path = folder / "run.safetensors";
  const io::Checkpoint c{.parameters = few_tensors(), .optimizer = few_tensors(), .step = 9, .metadata = {{"k", "v"}}};
  io::save_checkpoint(path, c);
  try_damage(path, 3000, [&] {
    const io::Checkpoint back = io::load_checkpoint(path);
    EXPECT_EQ(back.step, 9);
    EXPECT_EQ(back.metadata, c.metadata);
    for (const auto& [name, tensor] : c.parameters) EXPECT_TRUE(same(back.parameters.at(name), tensor));
    for (const auto& [name, tensor] : c.optimizer) EXPECT_TRUE(same(back.optimizer.at(name), tensor));
  });
}

}  // namespace
}  // namespace ebb
