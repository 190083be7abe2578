// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "ebb/ebb.h"
#include "expect_error.h"
#include "golden_file.h"
#include "scratch_folder.h"

namespace ebb {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers values(const Tensor& t) { return t.to_vector<std::int64_t>(); }

// ---- IDX and CIFAR --------------------------------------------------------------------------------------------------

TEST(Idx, PlainAndGzippedAreTheSame) {
  for (const char* name : {"images.idx", "images.idx.gz"}) {
    const Tensor images = read_idx(testing::golden_file(name));
    EXPECT_EQ(images.dtype(), DType::u8);
    EXPECT_EQ(images.shape(), Shape({2, 2, 3}));
    EXPECT_EQ(values(images), arange(12).to_vector<std::int64_t>());
  }
}

TEST(Idx, EveryTypeIsReadBigEndian) {
  const ScratchFolder folder;
  const std::string path = folder / "a.idx";
  const auto with = [&](char type, const std::string& elements) {
    write_whole(path, std::string({'\0', '\0', type, '\1', '\0', '\0', '\0', '\1'}) + elements);
    return read_idx(path);
  };
  EXPECT_EQ(with(0x08, "\xfe").item<std::int64_t>(), 254);
  EXPECT_EQ(with(0x09, "\xfe").item<std::int64_t>(), -2);
  EXPECT_EQ(with(0x0B, "\xff\x02").item<std::int64_t>(), -254);
  EXPECT_EQ(with(0x0C, std::string("\x00\x00\x01\x02", 4)).item<std::int64_t>(), 258);
  EXPECT_EQ(with(0x0D, std::string("\x3f\x80\x00\x00", 4)).item(), 1.0);
  EXPECT_EQ(with(0x0E, std::string("\x40\x00\x00\x00\x00\x00\x00\x00", 8)).item(), 2.0);
  EXPECT_THROW_KIND(with(0x0A, ""), io, path + ": IDX type 0x0a is unknown");
  EXPECT_THROW_KIND(with(0x0C, "\x01"), io, "shape [1] takes 4 bytes, the file has 1");
  write_whole(path, "not idx");
  EXPECT_THROW_KIND(read_idx(path), io, "this is not an IDX file");
  write_whole(path, read_whole(testing::golden_file("images.idx.gz")).substr(0, 30));
  EXPECT_THROW_KIND(read_idx(path), io, path);
}

TEST(Cifar, RecordsOfBothKinds) {
  const ScratchFolder folder;
  const std::string a = folder / "a.bin", b = folder / "b.bin";
  write_whole(a, "\x03" + std::string(1024, 'r') + std::string(1024, 'g') + std::string(1024, 'b'));
  write_whole(b, "\x09" + std::string(3072, 'x'));
  const LabelledImages ten = read_cifar10({a, b, a});
  EXPECT_EQ(ten.images.shape(), Shape({3, 3, 32, 32}));
  EXPECT_EQ(values(ten.labels), (Numbers{3, 9, 3}));
  EXPECT_EQ(ten.images[0][1][5][7].item<std::int64_t>(), 'g');
  write_whole(b, "\x13\x63" + std::string(3072, 'x'));
  const LabelledImages hundred = read_cifar100({b});
  EXPECT_EQ(values(hundred.labels), (Numbers{99}));
  EXPECT_EQ(values(hundred.coarse_labels), (Numbers{19}));
  EXPECT_THROW_KIND(read_cifar10({a, b}), io,
                    b + ": 3074 bytes are not a whole number of CIFAR-10 records of 3073 bytes");
  write_whole(a, "\x0a" + std::string(3072, 'x'));
  EXPECT_THROW_KIND(read_cifar10({a}), io, "record 0 has label 10, which is outside [0, 10)");
}

// ---- pictures -------------------------------------------------------------------------------------------------------

TEST(Image, PngOfEveryKindBecomesPlanes) {
  const Tensor grey = read_image(testing::golden_file("grey.png"));
  EXPECT_EQ(grey.shape(), Shape({1, 2, 3}));
  EXPECT_EQ(values(grey), (Numbers{0, 128, 255, 1, 2, 3}));
  for (const char* name : {"colour.png", "transparent.png"}) {
    const Tensor colour = read_image(testing::golden_file(name));
    EXPECT_EQ(colour.shape(), Shape({3, 1, 2}));
    EXPECT_EQ(values(colour), (Numbers{255, 10, 0, 20, 0, 30})) << name;
  }
  EXPECT_EQ(values(read_image(testing::golden_file("palette.png"))), (Numbers{200, 9, 100, 8, 50, 7}));
  EXPECT_EQ(values(read_image(testing::golden_file("colour.png"), 1)), (Numbers{76, 18}));
  EXPECT_EQ(read_image(testing::golden_file("grey.png"), 3).shape(), Shape({3, 2, 3}));
}

TEST(Image, PnmOfEveryKind) {
  const ScratchFolder folder;
  const std::string path = folder / "a.ppm";
  const auto with = [&](const std::string& bytes) {
    write_whole(path, bytes);
    return read_image(path);
  };
  EXPECT_EQ(values(with("P2\n# a comment\n2 1\n15\n0 15\n")), (Numbers{0, 255}));
  EXPECT_EQ(values(with("P3 1 1 255 1 2 3")), (Numbers{1, 2, 3}));
  EXPECT_EQ(values(with("P5 2 1 255\nab")), (Numbers{'a', 'b'}));
  EXPECT_EQ(values(with("P6 1 1 255\nabc")), (Numbers{'a', 'b', 'c'}));
  EXPECT_EQ(values(with(std::string("P5 1 1 65535\n\xff\xff", 15))), (Numbers{255}));
  EXPECT_THROW_KIND(with("P6 2 1 255\nabc"), io, "6 values of a 2 × 1 picture do not fit the 3 bytes");
  EXPECT_THROW_KIND(with("P5 99999999 99999999 255\n"), io, "cannot be read, it may have 1 to");
  EXPECT_THROW_KIND(with("P2 1 1 7 8"), io, "value 0 is 8, more than the largest, 7");
  EXPECT_THROW_KIND(with("GIF89a"), io, "this is not a PNG, JPEG, PGM or PPM file");
  EXPECT_THROW_KIND(with(read_whole(testing::golden_file("grey.png")).substr(0, 50)), io,
                    path + ": the PNG cannot be read");
}

// Both were written by Pillow with quality 95: left half black, right half white; red, green over blue, yellow.
TEST(Image, JpegGreyAndInColour) {
  const Tensor grey = read_image(testing::golden_file("halves.jpg"));
  EXPECT_EQ(grey.shape(), Shape({1, 16, 32}));
  EXPECT_LT(grey[0][8][4].item(), 8);
  EXPECT_GT(grey[0][8][28].item(), 247);
  const Tensor colour = read_image(testing::golden_file("quarters.jpg"));
  EXPECT_EQ(colour.shape(), Shape({3, 32, 48}));
  const auto near = [&](std::int64_t y, std::int64_t x, std::vector<double> rgb) {
    for (std::int64_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(colour[c][y][x].item(), rgb[static_cast<std::size_t>(c)], 12) << y << " " << x << " " << c;
    }
  };
  near(8, 10, {255, 0, 0});
  near(8, 38, {0, 255, 0});
  near(24, 10, {0, 0, 255});
  near(24, 38, {255, 255, 0});
}

// The same picture as stored by a camera held in each of eight ways: it is read upright.
TEST(Image, JpegIsTurnedAsTheCameraWasHeld) {
  for (int held = 1; held <= 8; ++held) {
    const Tensor picture = read_image(testing::golden_file("held" + std::to_string(held) + ".jpg"), 1);
    ASSERT_EQ(picture.shape(), Shape({1, 16, 32})) << held;
    const auto at = [&](std::int64_t y, std::int64_t x) { return picture[0][y][x].item(); };
    EXPECT_GT(at(3, 3), 200) << held;  // the upper left corner is white, the rest grey and black
    EXPECT_NEAR(at(3, 28), 128, 30) << held;
    EXPECT_LT(at(12, 3), 50) << held;
    EXPECT_LT(at(12, 28), 50) << held;
  }
}

TEST(Image, AJpegThatIsCutOffIsRefused) {
  const ScratchFolder folder;
  const std::string path = folder / "a.jpg", whole = read_whole(testing::golden_file("quarters.jpg"));
  write_whole(path, whole.substr(0, whole.size() * 2 / 3));
  EXPECT_THROW_KIND(read_image(path), io, path + ": the JPEG cannot be read: ");  // libraries word errors differently
  write_whole(path, whole.substr(0, 30));
  EXPECT_THROW_KIND(read_image(path), io, path + ": the JPEG cannot be read");
}

TEST(ImageFolder, PicturesAreStretchedToASize) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "a");
  write_whole(folder / "a/1.pgm", "P2 4 2 255  0 100 200 200  0 100 200 200");
  write_whole(folder / "a/2.pgm", "P2 1 1 255  7");
  const LabelledImages half = read_image_folder(folder.path(), 1, 1, 2);
  EXPECT_EQ(half.images.shape(), Shape({2, 1, 1, 2}));
  // Triangles of two pixels to each side: weights 3, 3, 1 of 7 and the same from the right, as Pillow's.
  EXPECT_EQ(values(half.images), (Numbers{71, 186, 7, 7}));
  const LabelledImages same = read_image_folder(folder.path(), 1, 2, 4);
  EXPECT_EQ(values(same.images[0]), (Numbers{0, 100, 200, 200, 0, 100, 200, 200}));
  EXPECT_THROW_MESSAGE(read_image_folder(folder.path(), 1, 2), "height and width must both be positive");
}

TEST(ImageFolder, ClassesAreFoldersInOrder) {
  const ScratchFolder folder;
  for (const char* kind : {"dog", "cat"}) std::filesystem::create_directory(folder / kind);
  write_whole(folder / "dog/1.ppm", "P6 1 1 255\nabc");
  write_whole(folder / "cat/2.pgm", "P5 1 1 255\nz");
  write_whole(folder / "cat/1.PGM", "P5 1 1 255\ny");
  write_whole(folder / "cat/readme.txt", "");
  const LabelledImages all = read_image_folder(folder.path());
  EXPECT_EQ(all.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(values(all.labels), (Numbers{0, 0, 1}));
  EXPECT_EQ(all.images.shape(), Shape({3, 3, 1, 1}));
  EXPECT_EQ(values(all.images), (Numbers{'y', 'y', 'y', 'z', 'z', 'z', 'a', 'b', 'c'}));
  write_whole(folder / "dog/2.ppm", "P6 1 2 255\nabcabc");
  EXPECT_THROW_KIND(read_image_folder(folder.path()), io, "all must have the same size");
  EXPECT_THROW_KIND(read_image_folder(folder / "dog"), io, "there are no pictures");
  EXPECT_THROW_KIND(read_image_folder(folder / "nowhere"), io, "cannot be listed");
}

// ---- damage ---------------------------------------------------------------------------------------------------------

void try_damage(const std::string& file, const std::function<void(const std::string&)>& load) {
  const ScratchFolder folder;
  const std::string path = folder / "damaged";
  std::mt19937 chance(11);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(chance); };
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = file;
    for (std::size_t k = below(4); k > 0; --k) bytes[below(bytes.size())] = static_cast<char>(below(256));
    if (below(3) == 0) bytes.resize(below(bytes.size()));
    write_whole(path, bytes);
    try {
      load(path);
    } catch (const Error&) {
    }
  }
}

TEST(Damage, ReadersGiveDataOrErrors) {
  for (const char* name : {"images.idx", "images.idx.gz"}) {
    try_damage(read_whole(testing::golden_file(name)), [](const std::string& path) { read_idx(path); });
  }
  for (const char* name : {"grey.png", "transparent.png", "palette.png", "halves.jpg", "held6.jpg"}) {
    try_damage(read_whole(testing::golden_file(name)), [](const std::string& path) { read_image(path); });
  }
  try_damage("P3\n2 2 255\n1 2 3 4 5 6 7 8 9 10 11 12\n", [](const std::string& path) { read_image(path); });
  try_damage("a,b\n1,\"2\"\n3,4\n", [](const std::string& path) { read_csv(path); });
  try_damage(R"({"type":"byte-level BPE","version":1,"merges":[[97,98],[256,99]]})",
             [](const std::string& path) { BytePairs::load(path); });
}

}  // namespace
}  // namespace ebb
