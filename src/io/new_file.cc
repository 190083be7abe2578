#include "io/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "core/format_error.h"

namespace ebb::io {
namespace {

namespace fs = std::filesystem;

// A link's target is replaced, not the link.
std::string followed(const std::string& path) {
  std::error_code none;
  if (!fs::is_symlink(path, none)) return path;
  const fs::path target = fs::weakly_canonical(path, none);
  return none ? path : target.string();
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

NewFile::NewFile(const std::string& path) : path_(followed(path)) {
  require(!path.empty(), Error::Kind::io, "a file to write needs a name, got an empty one");
  std::error_code none;
  require(!fs::is_directory(path_, none), Error::Kind::io, "{}: cannot be written: it is a directory", path_);
  // Not mkstemp: its files are readable by their owner alone, and the user's umask should decide.
  std::random_device chance;
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = fmt::format("{}.{:08x}.tmp", path_, chance());
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && (errno != EEXIST || attempt == 100)) {
      fail(Error::Kind::io, "{}: cannot be written: {}", path_, std::strerror(errno));
    }
  }
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
  }
}

void NewFile::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(descriptor_, next, std::min(bytes, std::size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    require(n >= 0, Error::Kind::io, "{}: cannot be written after {} bytes: {}", path_, written_, std::strerror(errno));
    next += n;
    bytes -= static_cast<std::size_t>(n);
    written_ += static_cast<std::uint64_t>(n);
  }
}

void NewFile::commit() {
  require(::fsync(descriptor_) == 0, Error::Kind::io, "{}: cannot be synced to the disk: {}", path_,
          std::strerror(errno));
  require(std::rename(temporary_.c_str(), path_.c_str()) == 0, Error::Kind::io, "{}: cannot be put in place: {}", path_,
          std::strerror(errno));
  ::close(descriptor_);
  descriptor_ = -1;
  // The rename is on disk once its folder is. Some file systems cannot sync folders; that is not an error.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

}  // namespace ebb::io
