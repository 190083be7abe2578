// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "expect_error.h"
#include "golden_file.h"
#include "sample_tensors.h"
#include "scratch_folder.h"

namespace ebb {
namespace {

std::string file_of(const std::string& header, const std::string& data = "") {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> 8 * i);
  return length + header + data;
}

TEST(Safetensors, EveryDTypeAndShapeComesBackBitForBit) {
  const ScratchFolder folder;
  const io::TensorMap all = sample_tensors();
  const io::Metadata metadata = {{"note", "größer\n\"quoted\""}, {"", "empty name"}};
  io::save_safetensors(folder / "all.safetensors", all, metadata);
  const io::Safetensors file(folder / "all.safetensors");
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.entries().size(), all.size());
  const io::TensorMap back = file.tensors();
  ASSERT_EQ(back.size(), all.size());
  for (const auto& [name, tensor] : all) EXPECT_TRUE(same(back.at(name), tensor)) << name;
}

TEST(Safetensors, ReadsAFileOfTheReferenceLayout) {
  const io::Safetensors file(testing::golden_file("model.safetensors"));
  EXPECT_EQ(file.metadata().at("note"), "größer");
  EXPECT_EQ(file.tensor("weights").to_vector(), (std::vector<double>{0, 0.5, 1, 1.5, 2, 2.5}));
  EXPECT_EQ(file.tensor("bias").dtype(), DType::f16);
  EXPECT_EQ(file.tensor("bias").to_vector(), (std::vector<double>{0, 0.25, 0.5}));
  EXPECT_EQ(file.tensor("narrow").dtype(), DType::i32);
  EXPECT_EQ(file.tensor("narrow").to_vector(), (std::vector<double>{-3, 0, 5}));
  EXPECT_EQ(file.tensor("flags").to_vector(), (std::vector<double>{1, 0}));
  EXPECT_THROW_KIND(file.tensor("head"), io, "it has no tensor 'head'");
}

TEST(Safetensors, TensorsOutliveTheFileObjectAndItsReplacement) {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  io::save_safetensors(path, {{"x", arange(100)}});
  const Tensor x = io::Safetensors(path).tensor("x");
  io::save_safetensors(path, {{"x", zeros({100}, DType::i64)}});
  EXPECT_TRUE(same(x, arange(100)));
  EXPECT_TRUE(same(io::Safetensors(path).tensor("x"), zeros({100}, DType::i64)));
  std::filesystem::remove(path);
  EXPECT_EQ(sum(x * x).item<std::int64_t>(), 328350);
}

TEST(Safetensors, TensorsAreNotCopied) {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  io::save_safetensors(path, {{"x", arange(1 << 20)}});
  const io::Safetensors file(path);
  const std::size_t before = memory_stats().live;
  const Tensor x = file.tensor("x");
  EXPECT_EQ(x.data<std::int64_t>()[12345], 12345);
  EXPECT_LT(memory_stats().live - before, 4096u);
}

TEST(Safetensors, UnalignedTensorsAreCopiedAndRight) {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  const std::string numbers = bits(tensor({1.5, -2.5}));
  write_whole(path, file_of(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                            R"("x":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})",
                            "\x05" + numbers));
  EXPECT_EQ(io::Safetensors(path).tensor("x").to_vector(), (std::vector<double>{1.5, -2.5}));
}

TEST(Safetensors, ErrorsNameTheFileAndWhatIsWrong) {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  struct Case {
    std::string file;
    const char* text;
  };
  const std::string eight(8, 'x');
  const Case cases[] = {
      {"", "this is not a safetensors file, it has only 0 bytes"},
      {"x,y\n1,2\n2,3\n", "this is not a safetensors file: it does not begin with the length of a header"},
      {std::string(8, '\xff'), "a header of 18446744073709551615 bytes is longer than the 100000000"},
      {std::string("\x64\0\0\0\0\0\0\0{}", 10), "its header has 100 bytes, but the file ends after 2"},
      {file_of("[]"), "its header does not begin with '{'"},
      {file_of("{\"a\":"), "its JSON cannot be read"},
      {file_of("{} {}"), "its JSON cannot be read"},
      {file_of("{\"a\":[[[[1]]]]}"), "nested more than 3 levels deep"},
      {file_of(R"({"__metadata__":{"a":"1","a":"2"}})"), "the key 'a' twice"},
      {file_of(R"({"__metadata__":{"a":1}})"), "'a' in its __metadata__ is not a string"},
      {file_of(R"({"__metadata__":7})"), "its __metadata__ is not an object"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2]}})", eight), "tensor 'a': its header must have exactly"},
      {file_of(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", eight), "dtype 'F33' is unknown"},
      {file_of(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", eight), "not a whole number"},
      {file_of(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", eight), "'shape' is not a list"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", eight), "got [8, 0]"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "short"), "go past the 5 bytes of data"},
      {file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", eight),
       "shape [3] of F32 takes 12 bytes, the file gives it 8"},
      {file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", eight),
       "more elements than memory can address"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight),
       "tensor 'a' begins at byte 4, but nothing holds the bytes from byte 0"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
               eight),
       "tensor 'b' begins at byte 4, inside the one before, which ends at byte 8"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", eight),
       "its tensors have 4 bytes, the file has 8 after its header"},
  };
  for (const Case& c : cases) {
    write_whole(path, c.file);
    EXPECT_THROW_KIND(io::Safetensors{path}, io, c.text);
    EXPECT_THROW_KIND(io::Safetensors{path}, io, path);
  }
  write_whole(path, file_of(R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", "\x02"));
  EXPECT_THROW_KIND(io::Safetensors(path).tensor("a"), io, "element 0 is a bool with the value 2");
  write_whole(path, file_of(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "\x02"));
  EXPECT_THROW_KIND(io::Safetensors(path).tensor("a"), io, "there are no tensors of dtype F8_E4M3");
  EXPECT_THROW_KIND(io::save_safetensors(path, {{"\xff", ones({1})}}), io, "not UTF-8");
  EXPECT_THROW_MESSAGE(io::save_safetensors(path, {{"__metadata__", ones({1})}}), "cannot have the name");
}

// ---- checkpoints ----------------------------------------------------------------------------------------------------

io::Checkpoint sample_checkpoint() {
  io::Checkpoint c;
  for (const auto& [name, tensor] : sample_tensors()) (tensor.rank() % 2 ? c.parameters : c.optimizer)[name] = tensor;
  c.random = {0xFFFFFFFFFFFFFFFF, 77};
  c.step = 12345;
  c.loader = {0x8000000000000001, 3, 14};
  c.metadata = {{"model", "cnn"}, {"options", R"({"lr": 0.1})"}};
  return c;
}

TEST(Checkpoint, ComesBackBitForBit) {
  const ScratchFolder folder;
  const io::Checkpoint c = sample_checkpoint();
  io::save_checkpoint(folder / "run.safetensors", c);
  const io::Checkpoint back = io::load_checkpoint(folder / "run.safetensors");
  for (const auto& [a, b] : {std::pair(&c.parameters, &back.parameters), std::pair(&c.optimizer, &back.optimizer)}) {
    ASSERT_EQ(a->size(), b->size());
    for (const auto& [name, tensor] : *a) EXPECT_TRUE(same(tensor, b->at(name))) << name;
  }
  EXPECT_EQ(back.random.seed, c.random.seed);
  EXPECT_EQ(back.random.next_operation, c.random.next_operation);
  EXPECT_EQ(back.step, c.step);
  EXPECT_EQ(back.loader, c.loader);
  EXPECT_EQ(back.metadata, c.metadata);
}

TEST(Checkpoint, RandomNumbersGoOn) {
  const ScratchFolder folder;
  manual_seed(5);
  rand({10}).eval();
  io::save_checkpoint(folder / "run.safetensors", {.random = random_state()});
  const Tensor next = rand({10}).eval();
  manual_seed(99);
  random_state() = io::load_checkpoint(folder / "run.safetensors").random;
  EXPECT_TRUE(same(rand({10}).eval(), next));
}

TEST(Checkpoint, EveryDamagedByteIsNoticed) {
  const ScratchFolder folder;
  const std::string path = folder / "run.safetensors";
  io::save_checkpoint(path, {.parameters = {{"w", arange(20)}}, .step = 7});
  const std::string good = read_whole(path);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    write_whole(path, bad);
    EXPECT_THROW(io::load_checkpoint(path), Error) << "byte " << i;
  }
}

TEST(Checkpoint, AFailedSaveLeavesTheOldOneAndNoLitter) {
  const ScratchFolder folder;
  const std::string path = folder / "run.safetensors";
  io::save_checkpoint(path, {.step = 1});
  EXPECT_THROW(io::save_checkpoint(path, {.parameters = {{"\xff", ones({1})}}, .step = 2}), Error);
  EXPECT_EQ(io::load_checkpoint(path).step, 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Checkpoint, RefusesOtherFilesAndReservedNames) {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  io::save_safetensors(path, {{"x", ones({2})}});
  EXPECT_THROW_KIND(io::load_checkpoint(path), io, "this is not a complete checkpoint, 'ebb.checkpoint' is missing");
  io::save_safetensors(path, {}, {{"ebb.checkpoint", "2"}});
  EXPECT_THROW_KIND(io::load_checkpoint(path), io, "checkpoint version 2 is unknown");
  EXPECT_THROW_MESSAGE(io::save_checkpoint(path, {.metadata = {{"ebb.step", "1"}}}), "which is reserved");
}

}  // namespace
}  // namespace ebb
