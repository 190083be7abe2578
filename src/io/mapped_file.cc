// SPDX-License-Identifier: MIT
#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/format_error.h"

namespace ebb::io {

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  std::shared_ptr<MappedFile> file(new MappedFile(path));
  if (!given_file.path.empty() && path == given_file.path) {
    file->data_ = given_file.bytes.data();
    file->size_ = given_file.bytes.size();
    return file;
  }
  // Without O_NONBLOCK opening a pipe would wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require(descriptor >= 0, Error::Kind::io, "{}: cannot be opened: {}", path, std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor, &status) == 0;
  const int cause = errno;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    fail(Error::Kind::io, "{}: cannot be read: {}", path,
         !known                    ? std::strerror(cause)
         : S_ISDIR(status.st_mode) ? "it is a directory"
                                   : "it is not a regular file");
  }
  if (status.st_size > 0) {  // mapping zero bytes is an error
    const auto size = static_cast<std::size_t>(status.st_size);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    const int reason = errno;
    ::close(descriptor);
    require(data != MAP_FAILED, Error::Kind::io, "{}: cannot be mapped: {}", path, std::strerror(reason));
    file->data_ = static_cast<const std::byte*>(data);
    file->size_ = size;
    file->mapped_ = true;
  } else {
    ::close(descriptor);
  }
  return file;
}

MappedFile::~MappedFile() {
  if (mapped_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace ebb::io
