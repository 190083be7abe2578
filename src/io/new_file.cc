// SPDX-License-Identifier: MIT
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
#include <utility>

#include "core/format_error.h"
#include "io/file_calls.h"

namespace ebb::io {
namespace {

namespace fs = std::filesystem;

// The target of a path: follows links, also to a file that does not exist yet. Stops at one of the process's own
// descriptors, such as /dev/stdout. Those are duplicated rather than opened: reopening a redirected output would start
// at its first byte, and a socket cannot be opened at all.
struct Target {
  std::string path;
  int descriptor = -1;
};
Target target_of(fs::path path) {
  std::error_code error;
  for (int links = 0; links < 40; ++links) {
    const std::string folder = path.parent_path().string(), number = path.filename().string();
    if ((folder == "/proc/self/fd" || folder == "/dev/fd") && !number.empty() && number.size() < 7 &&
        number.find_first_not_of("0123456789") == std::string::npos)
      return {path.string(), std::stoi(number)};
    const fs::path target = fs::read_symlink(path, error);
    if (error) break;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return {path.string()};
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// A signal may interrupt any of the calls; that is not a failure.
template <class Call>
auto uninterrupted(Call&& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// An unused name next to the target.
std::string temporary_name(const std::string& path) {
  std::random_device chance;
  return fmt::format("{}.{:08x}.tmp", path, chance());
}

// Returns the number of bytes written, which is less than all of them after an error; errno says which one.
std::size_t write_all(int descriptor, const void* data, std::size_t bytes) {
  const char* const begin = static_cast<const char*>(data);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = uninterrupted(
        [&] { return file_calls.write(descriptor, begin + done, std::min(bytes - done, std::size_t{1} << 30)); });
    if (n == 0) errno = ENOSPC;  // no progress: retrying would not end
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace

bool is_stream(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

NewFile::NewFile(const std::string& path) {
  require(!path.empty(), Error::Kind::io, "a file to write needs a name, got an empty one");
  const auto [target, own] = target_of(path);
  path_ = target;
  std::error_code none;
  require(!fs::is_directory(path_, none), Error::Kind::io, "{}: cannot be written: it is a directory", path_);
  if (own >= 0 || is_stream(path_)) {
    path_ = temporary_ = path;
    replaces_ = false;
    if (own == STDOUT_FILENO) std::fflush(stdout);  // earlier output comes first
    descriptor_ = own >= 0 ? ::fcntl(own, F_DUPFD_CLOEXEC, 3)
                           : uninterrupted([&] { return file_calls.open(path.c_str(), O_WRONLY | O_CLOEXEC); });
    require(descriptor_ >= 0, Error::Kind::io, "{}: cannot be written: {}", path_, std::strerror(errno));
    return;
  }
  // Not mkstemp: its files are readable only by their owner, but the user's umask should decide.
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = temporary_name(path_);
    descriptor_ =
        uninterrupted([&] { return file_calls.open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC); });
    if (descriptor_ < 0 && (errno != EEXIST || attempt == 100)) {
      fail(Error::Kind::io, "{}: cannot be written: {}", path_, std::strerror(errno));
    }
  }
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    if (replaces_) ::unlink(temporary_.c_str());
  }
}

void NewFile::write(const void* data, std::size_t bytes) {
  const std::size_t done = write_all(descriptor_, data, bytes);
  written_ += done;
  if (done != bytes) {
    fail(Error::Kind::io, "{}: cannot be written after {} bytes: {}", path_, written_, std::strerror(errno));
  }
}

void NewFile::commit() {
  if (!replaces_) {
    const int failed = ::close(std::exchange(descriptor_, -1));
    require(failed == 0, Error::Kind::io, "{}: cannot be written: {}", path_, std::strerror(errno));
    return;
  }
  if (uninterrupted([&] { return file_calls.fsync(descriptor_); }) != 0) {
    fail(Error::Kind::io, "{}: cannot be synced to the disk: {}", path_, std::strerror(errno));
  }
  if (uninterrupted([&] { return file_calls.rename(temporary_.c_str(), path_.c_str()); }) != 0) {
    fail(Error::Kind::io, "{}: cannot be put in place: {}", path_, std::strerror(errno));
  }
  ::close(descriptor_);
  descriptor_ = -1;
  // The rename is on disk once its folder is. Some file systems cannot sync folders; that is not an error.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    file_calls.fsync(folder);
    ::close(folder);
  }
}

// The old file gets a second name first, which becomes `previous` once the new one is in place: renaming it away would
// leave a moment without any file.
void NewFile::commit_keeping(const std::string& previous) {
  if (!replaces_) return commit();
  struct SecondName {
    std::string name;
    ~SecondName() { ::unlink(name.c_str()); }
  } const old{temporary_name(previous)};
  const bool linked = file_calls.link(path_.c_str(), old.name.c_str()) == 0;
  commit();
  if (linked) file_calls.rename(old.name.c_str(), previous.c_str());
}

FilePart::FilePart(const std::string& temporary) : path_(temporary) {
  descriptor_ = uninterrupted([&] { return file_calls.open(temporary.c_str(), O_WRONLY | O_CLOEXEC); });
  require(descriptor_ >= 0, Error::Kind::io, "{}: cannot be written: {}", path_, std::strerror(errno));
}

FilePart::~FilePart() { ::close(descriptor_); }

void FilePart::write(std::uint64_t at, const void* data, std::size_t bytes) {
  if (::lseek(descriptor_, static_cast<off_t>(at), SEEK_SET) < 0 || write_all(descriptor_, data, bytes) != bytes)
    fail(Error::Kind::io, "{}: cannot be written at byte {}: {}", path_, at, std::strerror(errno));
}

void FilePart::sync() {
  if (uninterrupted([&] { return file_calls.fsync(descriptor_); }) != 0)
    fail(Error::Kind::io, "{}: cannot be synced to the disk: {}", path_, std::strerror(errno));
}

void append_to_file(const std::string& path, std::string_view text) {
  const int descriptor =
      uninterrupted([&] { return file_calls.open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC); });
  require(descriptor >= 0, Error::Kind::io, "{}: cannot be written: {}", path, std::strerror(errno));
  const std::size_t done = write_all(descriptor, text.data(), text.size());
  const int error = errno;
  ::close(descriptor);
  require(done == text.size(), Error::Kind::io, "{}: cannot be written: {}", path, std::strerror(error));
}

}  // namespace ebb::io
