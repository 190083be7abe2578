// SPDX-License-Identifier: MIT
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace ebb::program {

// Marks a folder as being written by this process: FOLDER/.lock, which names the process. The lock is the kernel's
// (flock), so it ends with the process however that ends, and a file left by a killed process is taken over. On a file
// system without locks nothing is held. The folder is created if necessary, and removed with the lock if it is then
// empty.
class FolderLock {
 public:
  // Empty if another process holds it; `holder` then says which one.
  static std::optional<FolderLock> take(const std::filesystem::path& folder, std::string& holder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  FolderLock(std::filesystem::path folder, bool made_folder) : folder_(std::move(folder)), made_folder_(made_folder) {}

  std::filesystem::path folder_;
  bool made_folder_ = false;
  int descriptor_ = -1;
};

}  // namespace ebb::program
