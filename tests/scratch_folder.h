// SPDX-License-Identifier: MIT
#pragma once
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

// A temporary folder of a test that is removed with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    // In memory if the system has such a folder: tests write thousands of damaged files.
    const std::filesystem::path memory = "/dev/shm";
    // A unique name: a killed test leaves its folder behind, and process numbers are reused.
    std::string name =
        (::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path()) / "ebb-test-XXXXXX";
    if (!::mkdtemp(name.data()))
      throw std::filesystem::filesystem_error("mkdtemp", name, std::error_code(errno, std::generic_category()));
    folder_ = name;
  }
  ~ScratchFolder() {
    std::error_code none;
    std::filesystem::remove_all(folder_, none);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  std::string operator/(const std::string& name) const { return (folder_ / name).string(); }
  std::string path() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
};

inline std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_whole(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
