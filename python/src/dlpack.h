// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

// The structures of the DLPack protocol (version 1): arrays of one library handed to another in the same process.
namespace ebb::python::dlpack {

enum class Code : std::uint8_t { integer = 0, unsigned_integer = 1, real = 2, bfloat = 4, boolean = 6 };
inline constexpr std::int32_t kCpu = 1, kCuda = 2, kCudaHost = 3;
inline constexpr std::uint64_t kReadOnly = 1, kCopied = 2;

struct Device {
  std::int32_t type, id;
};
struct DataType {
  Code code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct Array {
  void* data;
  Device device;
  std::int32_t rank;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};

// Contents of a capsule "dltensor" and, since version 1, of one named "dltensor_versioned".
struct Managed {
  Array array;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  Array array;
};

}  // namespace ebb::python::dlpack
