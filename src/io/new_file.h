#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ebb::io {

// A file that appears whole or not at all: written under a temporary name in the target's folder, and renamed by commit
// once its bytes are on the disk. Without commit it disappears again.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  std::uint64_t written() const { return written_; }
  void commit();

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
  std::uint64_t written_ = 0;
};

}  // namespace ebb::io
