// SPDX-License-Identifier: MIT
#include "io/new_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "ebb/ebb.h"
#include "expect_error.h"
#include "scratch_folder.h"

namespace ebb::io {
namespace {

namespace fs = std::filesystem;

void write_text(const std::string& path, const std::string& text) {
  NewFile file(path);
  file.write(text);
  file.commit();
}

TEST(NewFile, IsNotThereBeforeItIsCommitted) {
  const ScratchFolder scratch;
  const std::string path = scratch / "a";
  {
    NewFile file(path);
    file.write("half");
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  write_text(path, "whole");
  EXPECT_EQ(read_whole(path), "whole");
}

TEST(NewFile, ALinkStaysALink) {
  const ScratchFolder scratch;
  write_whole(scratch / "target", "old");
  fs::create_symlink("target", scratch / "link");
  fs::create_symlink("later", scratch / "dangling");
  write_text(scratch / "link", "new");
  write_text(scratch / "dangling", "made");
  EXPECT_TRUE(fs::is_symlink(scratch / "link"));
  EXPECT_TRUE(fs::is_symlink(scratch / "dangling"));
  EXPECT_EQ(read_whole(scratch / "target"), "new");
  EXPECT_EQ(read_whole(scratch / "later"), "made");
}

TEST(NewFile, ANamedPipeIsWrittenAndNotReplaced) {
  const ScratchFolder scratch;
  const std::string pipe = scratch / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  for (const std::string& path : {pipe, scratch / "link"}) {
    if (path != pipe) fs::create_symlink("pipe", path);
    std::string got;
    std::thread reader([&] { got = read_whole(pipe); });
    write_text(path, "through");
    reader.join();
    EXPECT_EQ(got, "through");
    EXPECT_EQ(fs::status(pipe).type(), fs::file_type::fifo);
  }
}

// /dev/null and /dev/full are devices that need no special rights.
TEST(NewFile, ADeviceIsWrittenAndNotReplaced) {
  write_text("/dev/null", "nothing is kept");
  save_safetensors("/dev/null", {{"x", arange(3)}});
  save_checkpoint("/dev/null", {}, {.keep_previous = true});
  EXPECT_EQ(fs::status("/dev/null").type(), fs::file_type::character);
  if (fs::exists("/dev/full")) EXPECT_THROW_KIND(write_text("/dev/full", "x"), io, "/dev/full: cannot be written");
}

// The text goes to the descriptor's position: reopened, it would go to the first byte.
TEST(NewFile, AnOwnDescriptorIsWrittenWhereItStands) {
  const ScratchFolder scratch;
  const int descriptor = ::open((scratch / "a").c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(::write(descriptor, "before ", 7), 7);
  fs::create_symlink("/dev/fd/" + std::to_string(descriptor), scratch / "link");
  write_text("/dev/fd/" + std::to_string(descriptor), "one ");
  write_text("/proc/self/fd/" + std::to_string(descriptor), "two ");
  write_text(scratch / "link", "three ");
  ASSERT_EQ(::write(descriptor, "after", 5), 5);
  ::close(descriptor);
  EXPECT_EQ(read_whole(scratch / "a"), "before one two three after");
  EXPECT_THROW_KIND(write_text("/dev/fd/9999", "x"), io, "/dev/fd/9999: cannot be written");
}

}  // namespace
}  // namespace ebb::io
