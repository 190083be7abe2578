// SPDX-License-Identifier: MIT
#include "folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "core/format_error.h"

namespace ebb::program {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".lock";

std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {'?'};
  return fmt::format("process {} on {}", ::getpid(), host.data());
}

std::string read_holder(int descriptor) {
  std::array<char, 512> text{};
  const ssize_t n = ::pread(descriptor, text.data(), text.size(), 0);
  std::string holder(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  holder.erase(holder.find_last_not_of('\n') + 1);
  return holder.empty() ? "another process" : holder;  // it holds the lock but has not written its name yet
}

// Does the name still refer to the open file? Its last holder removes it when done.
bool is_current(int descriptor, const fs::path& file) {
  struct stat open {
  }, named{};
  return ::fstat(descriptor, &open) == 0 && ::stat(file.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

}  // namespace

std::optional<FolderLock> FolderLock::take(const fs::path& folder, std::string& holder) {
  std::error_code error;
  FolderLock lock(folder, fs::create_directories(folder, error));
  require(!error && fs::is_directory(folder, error), Error::Kind::io, "{}: the folder cannot be made{}",
          folder.string(), error ? " (" + error.message() + ")" : "");
  const fs::path file = folder / kLock;
  for (;;) {
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) return lock;  // unwritable folder: writing the first file will report why
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      if (reason == EWOULDBLOCK) holder = read_holder(descriptor);
      ::close(descriptor);
      if (reason == EWOULDBLOCK) return {};
      if (reason == EINTR) continue;
      ::unlink(file.c_str());  // no locks on this file system
      return lock;
    }
    if (is_current(descriptor, file)) {
      lock.descriptor_ = descriptor;
      const std::string text = this_process() + "\n";
      if (::ftruncate(descriptor, 0) == 0) (void)!::pwrite(descriptor, text.data(), text.size(), 0);
      return lock;
    }
    ::close(descriptor);
  }
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : folder_(std::move(other.folder_)),
      made_folder_(std::exchange(other.made_folder_, false)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) {
    ::unlink((folder_ / kLock).c_str());  // while it is held: no other process has taken this file over
    ::close(descriptor_);
  }
  std::error_code error;
  if (made_folder_) fs::remove(folder_, error);  // if it is empty
}

}  // namespace ebb::program
