// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "expect_error.h"
#include "golden_file.h"
#include "io/npy.h"
#include "io/zip.h"
#include "sample_tensors.h"
#include "scratch_folder.h"

namespace ebb {
namespace {

void expect_rows(const Tensor& t, DType dtype, const std::vector<double>& values) {
  EXPECT_EQ(t.dtype(), dtype);
  EXPECT_EQ(t.shape(), Shape({2, 3}));
  EXPECT_EQ(t.to_vector(), values);
}

TEST(Npy, EveryDTypeAndShapeComesBackBitForBit) {
  const ScratchFolder folder;
  for (const auto& [name, tensor] : sample_tensors()) {
    io::save_npy(folder / "a.npy", tensor);
    EXPECT_TRUE(same(io::load_npy(folder / "a.npy"), tensor)) << name;
  }
}

TEST(Npy, WritesTheNumbersOfAViewInOrder) {
  const ScratchFolder folder;
  const Tensor rows = tensor({{0.0, 0.5, 1.0}, {1.5, 2.0, 2.5}});
  io::save_npy(folder / "t.npy", t(rows));
  EXPECT_EQ(io::load_npy(folder / "t.npy").to_vector(), t(rows).to_vector());
  io::save_npy(folder / "ones.npy", ones({2, 3}));
  expect_rows(io::load_npy(folder / "ones.npy"), DType::f32, {1, 1, 1, 1, 1, 1});
}

TEST(Npy, WritesTheBytesNumPyWrites) {
  const ScratchFolder folder;
  for (const char* name : {"f32.npy", "f16.npy", "bf16.npy", "bool.npy", "scalar.npy", "empty.npy"}) {
    io::save_npy(folder / name, io::load_npy(testing::golden_file(name)));
    EXPECT_EQ(read_whole(folder / name), read_whole(testing::golden_file(name))) << name;
  }
}

TEST(Npy, ReadsWhatNumPyWrites) {
  const std::vector<double> halves = {0, 0.5, 1, 1.5, 2, 2.5};
  expect_rows(io::load_npy(testing::golden_file("f32.npy")), DType::f32, halves);
  expect_rows(io::load_npy(testing::golden_file("f32_fortran.npy")), DType::f32, halves);
  expect_rows(io::load_npy(testing::golden_file("f64_big_endian.npy")), DType::f64, halves);
  expect_rows(io::load_npy(testing::golden_file("f16.npy")), DType::f16, halves);
  expect_rows(io::load_npy(testing::golden_file("bf16.npy")), DType::bf16, halves);
  expect_rows(io::load_npy(testing::golden_file("bool.npy")), DType::bool_, {0, 1, 0, 1, 0, 1});
  expect_rows(io::load_npy(testing::golden_file("version2.npy")), DType::i64, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(io::load_npy(testing::golden_file("scalar.npy")).item(), 2.5);
  EXPECT_EQ(io::load_npy(testing::golden_file("empty.npy")).shape(), Shape({3, 0, 2}));
}

TEST(Npy, WidensIntegersEbbDoesNotHave) {
  expect_rows(io::load_npy(testing::golden_file("i16_big_endian.npy")), DType::i32, {-3, -2, -1, 0, 1, 2});
  expect_rows(io::load_npy(testing::golden_file("u32.npy")), DType::i64,
              {4294967290, 4294967291, 4294967292, 4294967293, 4294967294, 4294967295});
  EXPECT_THROW_KIND(io::load_npy(testing::golden_file("u64_too_large.npy")), io,
                    "element 1 is 9223372036854775808, which i64, the widest integer of Ebb, cannot hold");
}

TEST(Npy, ErrorsNameTheFileAndWhatIsWrong) {
  const ScratchFolder folder;
  const std::string path = folder / "a.npy";
  EXPECT_THROW_KIND(io::load_npy(path), io, path + ": cannot be opened: No such file or directory");
  EXPECT_THROW_KIND(io::load_npy(folder.path()), io, "it is a directory");
  EXPECT_THROW_KIND(io::load_npy(testing::golden_file("complex.npy")), io, "there is no dtype for NumPy's '<c8'");
  EXPECT_THROW_KIND(io::load_npy(testing::golden_file("records.npy")), io, "an array of records cannot be read");
  const auto with = [&](const std::string& bytes) { write_whole(path, bytes); };
  const auto with_header = [&](const std::string& header) {
    with(std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header);
  };
  with("");
  EXPECT_THROW_KIND(io::load_npy(path), io, path + ": this is not a .npy file");
  with(std::string("\x93NUMPY\x09\x00\x10\x00", 10));
  EXPECT_THROW_KIND(io::load_npy(path), io, ".npy version 9 is unknown");
  with(read_whole(testing::golden_file("f32.npy")).substr(0, 50));
  EXPECT_THROW_KIND(io::load_npy(path), io, "the file ends inside its .npy header");
  with(read_whole(testing::golden_file("f32.npy")) + "x");
  EXPECT_THROW_KIND(io::load_npy(path), io, "shape [2, 3] of '<f4' takes 24 bytes, the file has 25");
  with_header("{'descr': '<f4', 'fortran_order': False, }");
  EXPECT_THROW_KIND(io::load_npy(path), io, "the .npy header has no 'shape'");
  with_header("{'descr': '<f4', 'fortran_order': Maybe, 'shape': ()}");
  EXPECT_THROW_KIND(io::load_npy(path), io, "'fortran_order' in the .npy header is neither True nor False");
  with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 99999999999999999999)}");
  EXPECT_THROW_KIND(io::load_npy(path), io, "the .npy header has a size beyond 64 bits");
  with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}");
  EXPECT_THROW_KIND(io::load_npy(path), io, "has more elements than memory can address");
  with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}");
  EXPECT_THROW_KIND(io::load_npy(path), io, "9 dimensions");
  with_header("{'descr': '|b1', 'fortran_order': False, 'shape': (0,)} 'descr'");
  EXPECT_THROW_KIND(io::load_npy(path), io, "continues after its end");
  std::string bools = read_whole(testing::golden_file("bool.npy"));
  bools.back() = 7;
  with(bools);
  EXPECT_THROW_KIND(io::load_npy(path), io, "element 5 is a bool with the value 7");
  EXPECT_THROW_KIND(io::save_npy(folder / "no/such/folder.npy", ones({1})), io, "No such file or directory");
  EXPECT_THROW_KIND(io::save_npy(folder.path(), ones({1})), io, "it is a directory");
  EXPECT_THROW_MESSAGE(io::save_npy(path, Tensor()), "has no value");
}

// ---- .npz -----------------------------------------------------------------------------------------------------------

TEST(Npz, StoredAndDeflatedComeBackBitForBit) {
  const ScratchFolder folder;
  const io::TensorMap all = sample_tensors();
  for (bool compress : {false, true}) {
    io::save_npz(folder / "all.npz", all, {.compress = compress});
    const io::TensorMap back = io::load_npz(folder / "all.npz");
    ASSERT_EQ(back.size(), all.size());
    for (const auto& [name, tensor] : all) EXPECT_TRUE(same(back.at(name), tensor)) << name;
  }
}

TEST(Npz, ReadsWhatNumPyWrites) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const io::TensorMap all = io::load_npz(testing::golden_file(name));
    ASSERT_EQ(all.size(), 3u) << name;
    expect_rows(all.at("weights"), DType::f32, {0, 0.5, 1, 1.5, 2, 2.5});
    EXPECT_EQ(all.at("labels").to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 1, 2}));
    EXPECT_TRUE(all.at("scalar").item<bool>());
  }
}

TEST(Npz, NothingIsAnArchive) {
  const ScratchFolder folder;
  io::save_npz(folder / "none.npz", {});
  EXPECT_TRUE(io::load_npz(folder / "none.npz").empty());
}

TEST(Npz, SixtyFourBitFormsAreReadBack) {
  const ScratchFolder folder;
  const Tensor numbers = arange(1000);
  io::NewFile file(folder / "wide.npz");
  io::ZipWriter zip(file, 0);
  const std::string bytes = bits(numbers);
  for (const char* name : {"a.npy", "b.npy"}) {
    zip.add(name, io::npy_header(DType::i64, {1000}), std::as_bytes(std::span(bytes)), name[0] == 'b', "wide.npz");
  }
  zip.finish();
  file.commit();
  const io::TensorMap back = io::load_npz(folder / "wide.npz");
  EXPECT_TRUE(same(back.at("a"), numbers));
  EXPECT_TRUE(same(back.at("b"), numbers));
}

TEST(Npz, ErrorsNameTheFileAndWhatIsWrong) {
  const ScratchFolder folder;
  const std::string path = folder / "a.npz", good = read_whole(testing::golden_file("stored.npz"));
  const auto changed = [&](std::size_t at, char to) {
    std::string bad = good;
    bad[at] = to;
    write_whole(path, bad);
  };
  write_whole(path, "PK");
  EXPECT_THROW_KIND(io::load_npz(path), io, path + ": this is not a zip archive, it has only 2 bytes");
  write_whole(path, good.substr(0, good.size() - 1));
  EXPECT_THROW_KIND(io::load_npz(path), io, "its directory is missing");
  changed(200, 'x');  // an element of the first array
  EXPECT_THROW_KIND(io::load_npz(path), io, "weights.npy: the bytes are damaged, their checksum is");
  const std::size_t directory = good.find("PK\x01\x02");
  changed(directory + 10, 93);
  EXPECT_THROW_KIND(io::load_npz(path), io, "is compressed by method 93");
  changed(directory + 8, 1);
  EXPECT_THROW_KIND(io::load_npz(path), io, "zip entry 'weights.npy' is encrypted");
  changed(directory + 46, 'x');
  EXPECT_NO_THROW(io::load_npz(path));
  changed(directory + 46 + 10, 'x');
  EXPECT_THROW_KIND(io::load_npz(path), io, "'weights.npx' in it is not a .npy file");
}

}  // namespace
}  // namespace ebb
