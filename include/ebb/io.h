// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ebb/data/loader.h"
#include "ebb/random.h"
#include "ebb/tensor.h"

// Files of tensors. A damaged or malicious file is an Error of kind io whose message begins with the file's name and
// says what is wrong with it. Everything is written to a temporary file beside the target, synced to the disk and
// renamed, so that a file is always the old one or the new one.
namespace ebb::io {

using TensorMap = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

// ---- NumPy ----------------------------------------------------------------------------------------------------------

// One array. Both byte orders and both memory orders are supported. Integers for which Ebb has no dtype become the next
// wider one (int8, int16 and uint16 i32, uint32 i64, uint64 i64 where it fits). bf16 is NumPy's '<V2', as ml_dtypes
// writes it.
Tensor load_npy(const std::string& path);
void save_npy(const std::string& path, const Tensor& tensor);

// Several arrays by name: a zip archive of .npy files, stored or deflated.
struct NpzOptions {
  bool compress = false;
};
TensorMap load_npz(const std::string& path);
void save_npz(const std::string& path, const TensorMap& tensors, const NpzOptions& options = {});

// ---- safetensors ----------------------------------------------------------------------------------------------------

// An open file of named tensors. The file is mapped and only its header is read; a tensor is a view of the mapping,
// which lives as long as any of them. Meanwhile the file must not be changed in place (replacing it by rename is fine).
class Safetensors {
 public:
  struct Entry {
    std::string name;
    std::string dtype;  // as the file calls it: "F32", "BF16", ...
    Shape shape;
    std::uint64_t begin = 0, end = 0;  // bytes, counted from the end of the header
  };

  explicit Safetensors(const std::string& path);  // reads and checks the header

  const std::string& path() const;
  const std::vector<Entry>& entries() const;  // in the order of their bytes in the file
  const Metadata& metadata() const;
  bool contains(const std::string& name) const;
  Tensor tensor(const std::string& name) const;  // narrow integers are widened as in load_npy
  TensorMap tensors() const;                     // all of them

 private:
  friend struct SafetensorsAccess;
  struct File;
  std::shared_ptr<const File> file_;
};

TensorMap load_safetensors(const std::string& path);  // all tensors of a file
void save_safetensors(const std::string& path, const TensorMap& tensors, const Metadata& metadata = {});

// ---- checkpoints ----------------------------------------------------------------------------------------------------

// Everything a training run needs to resume as if it had not stopped.
struct Checkpoint {
  TensorMap parameters{};
  TensorMap optimizer{};  // the optimiser's state, under its own names
  RandomState random{};   // from random_state(); assign it back to resume
  std::int64_t step = 0;
  LoaderPosition loader{};
  Metadata metadata{};  // anything else; names beginning with "ebb." are reserved
};

struct SaveOptions {
  bool keep_previous = false;  // the file that is replaced stays beside it, as previous_checkpoint(path)
};
// One safetensors file with tensors parameters.NAME and optimizer.NAME, the rest in its metadata, and checksums of each
// tensor and of everything, which loading verifies. The error names the damaged tensors, and the previous checkpoint
// where there is one that can be read.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint, const SaveOptions& options = {});
Checkpoint load_checkpoint(const std::string& path);
std::string previous_checkpoint(const std::string& path);  // "run.safetensors": "run.previous.safetensors"

}  // namespace ebb::io
