// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ebb/tensor.h"

// Readers of data sets. A malformed file is an Error of kind io that names the file, the position and what is wrong
// there.
namespace ebb {

// IDX, the format of MNIST and EMNIST, plain or gzipped: any rank, in the dtype of the file (i8 and i16 become i32).
Tensor read_idx(const std::string& path);

struct LabelledImages {
  Tensor images;                     // u8 [n, channels, height, width]
  Tensor labels;                     // i64 [n]
  Tensor coarse_labels;              // i64 [n]: the 20 groups of CIFAR-100, else undefined
  std::vector<std::string> classes;  // names of a folder's classes, else empty
};

// The binary versions of CIFAR: the images of all the files, one after the other.
LabelledImages read_cifar10(const std::vector<std::string>& paths);
LabelledImages read_cifar100(const std::vector<std::string>& paths);

// An image as u8 [channels, height, width]: PNG, JPEG (rotated according to its EXIF orientation), or PPM and PGM (P2,
// P3, P5, P6). Greyscale images have one channel, colour images three; transparency is dropped. `channels` 1 or 3
// converts, 0 keeps what the file has.
Tensor read_image(const std::string& path, int channels = 0);

// FOLDER/CLASS/*.png, .jpg, .jpeg, .ppm and .pgm. Classes and images are ordered by name. With a height and a width all
// images are resized to that size; otherwise they must all have the same size.
LabelledImages read_image_folder(const std::string& folder, int channels = 3, std::int64_t height = 0,
                                 std::int64_t width = 0);

struct CsvOptions {
  enum class Header { detect, yes, no };
  char separator = 0;  // 0: what a line sep=; says, or `,`, `;`, tab or `|`, the most frequent in the first line
  char decimal = 0;    // '.' or ','; 0: a comma where fields like 3,14 occur and none like 3.14
  Header header = Header::detect;         // detect: a first line with a word above a number or date, or with words only
  std::vector<std::string> columns = {};  // by name, or by number from 0 where there is no header; empty: all
  // They become NaN, as numbers that are NaN do.
  std::vector<std::string> missing = {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "null", "NULL", "\\N", "?"};
  DType dtype = DType::f32;
};
struct Table {
  std::vector<std::string> names;  // of the selected columns; of one of words "colour=red" and so on
  Tensor values;                   // [rows, columns]
};
// A table of fields between commas, semicolons, tabs or `|`, plain or gzipped; fields may be "quoted", empty lines are
// skipped. A column of words gives one column per word, 1 where it is the word; more than 64 are an Error. Dates become
// days since 1970; $1,234.50, 12 % and (7) are numbers. f32 keeps seven digits: read times as f64, subtract their mean.
Table read_csv(const std::string& path, const CsvOptions& options = {});

}  // namespace ebb
