// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "expect_error.h"
#include "faulty_files.h"
#include "io/new_file.h"
#include "io/sample_tensors.h"
#include "scratch_folder.h"

// Full disks, read-only folders, short or interrupted writes: every writer reports an error that names the file, an
// existing file stays, and nothing else is left behind.
namespace ebb {
namespace {

namespace fs = std::filesystem;

io::Checkpoint checkpoint_of_step(std::int64_t step) {
  return {.parameters = {{"w", full({30, 7}, step)}, {"b", full({7}, step)}},
          .optimizer = {{"w.momentum", full({30, 7}, -step)}},
          .step = step};
}

void expect_step(const std::string& path, std::int64_t step) {
  const io::Checkpoint c = io::load_checkpoint(path);
  EXPECT_EQ(c.step, step);
  EXPECT_TRUE(same(c.parameters.at("w"), full({30, 7}, step)));
  EXPECT_TRUE(same(c.optimizer.at("w.momentum"), full({30, 7}, -step)));
}

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

constexpr int kErrors[] = {ENOSPC, EDQUOT, EIO, EROFS, EACCES, EFBIG, ENOMEM};

// Makes every call fail in every way, one after the other. A failed save leaves the previous checkpoint; one that does
// not depend on the failed call (the link to the previous one) succeeds.
TEST(WriteFaults, TheLastCompletedCheckpointIsAlwaysThere) {
  for (const bool keep : {false, true}) {
    const ScratchFolder folder;
    const std::string path = folder / "run.safetensors";
    io::save_checkpoint(path, checkpoint_of_step(1), {.keep_previous = keep});
    std::int64_t saved = 1, step = 1, faults = 0, refused = 0;
    for (std::int64_t at = 0;; ++at) {
      bool reached = true;
      for (const int error : kErrors) {
        ++step;
        const FaultyFiles faulty({.at = at, .error = error});
        try {
          io::save_checkpoint(path, checkpoint_of_step(step), {.keep_previous = keep});
          saved = step;
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), Error::Kind::io);
          EXPECT_NE(std::string(e.what()).find(path + ": cannot be "), std::string::npos) << e.what();
          EXPECT_NE(std::string(e.what()).find(std::strerror(error)), std::string::npos) << e.what();
          ++refused;
        }
        reached = FaultyFiles::injected() > 0;
        faults += FaultyFiles::injected();
        expect_step(path, saved);
        if (keep && fs::exists(io::previous_checkpoint(path))) {
          EXPECT_LT(io::load_checkpoint(io::previous_checkpoint(path)).step, saved);
        }
        EXPECT_LE(files_in(folder.path()), keep ? 2u : 1u);
      }
      if (!reached) break;
    }
    // open, a write for the header and one per tensor, fsync, rename and the folder's fsync; link and rename to keep
    EXPECT_EQ(faults, static_cast<std::int64_t>(std::size(kErrors)) * (keep ? 10 : 8));
    EXPECT_EQ(refused, static_cast<std::int64_t>(std::size(kErrors)) * 7);
  }
}

TEST(WriteFaults, ADiskThatIsFullAfterAnyNumberOfBytes) {
  const ScratchFolder folder;
  const std::string path = folder / "run.safetensors";
  io::save_checkpoint(path, checkpoint_of_step(1));
  const auto size = static_cast<std::int64_t>(fs::file_size(path));
  int refused = 0;
  for (std::int64_t room = 0; room < size; room += 7) {
    const FaultyFiles faulty({.error = room % 2 ? EDQUOT : ENOSPC, .room = room});
    EXPECT_THROW_KIND(io::save_checkpoint(path, checkpoint_of_step(2)), io,
                      "cannot be written after " + std::to_string(room) + " bytes");
    ++refused;
    expect_step(path, 1);
    EXPECT_EQ(files_in(folder.path()), 1u);
  }
  EXPECT_GT(refused, 374);  // with those of the test above: more than 500 faults
  const FaultyFiles enough({.error = ENOSPC, .room = size});
  io::save_checkpoint(path, checkpoint_of_step(2));
  expect_step(path, 2);
}

TEST(WriteFaults, ShortWritesAndInterruptedCallsAreContinued) {
  const ScratchFolder folder;
  const std::string path = folder / "run.safetensors";
  for (const std::size_t longest : {1, 3, 1000}) {
    const FaultyFiles faulty({.longest = longest, .interrupts = true});
    io::save_checkpoint(path, checkpoint_of_step(static_cast<std::int64_t>(longest)));
    EXPECT_GT(FaultyFiles::injected(), 5);
    expect_step(path, static_cast<std::int64_t>(longest));
  }
}

// Every other writer, by the name of its file.
TEST(WriteFaults, EveryWriterReportsAFullDiskAndLeavesTheOldFile) {
  const ScratchFolder folder;
  const io::TensorMap tensors{{"a", arange(40)}};
  const std::pair<const char*, std::function<void(const std::string&)>> writers[] = {
      {"a.npy", [](const std::string& path) { io::save_npy(path, arange(40)); }},
      {"a.npz", [&](const std::string& path) { io::save_npz(path, tensors); }},
      {"z.npz", [&](const std::string& path) { io::save_npz(path, tensors, {.compress = true}); }},
      {"a.safetensors", [&](const std::string& path) { io::save_safetensors(path, tensors); }}};
  for (const auto& [name, write] : writers) {
    write_whole(folder / name, "old");
    for (std::int64_t at = 0; at < 4; ++at) {
      const FaultyFiles faulty({.at = at, .error = ENOSPC});
      EXPECT_THROW_KIND(write(folder / name), io, name);
      EXPECT_EQ(read_whole(folder / name), "old");
    }
    write(folder / name);
    EXPECT_NE(read_whole(folder / name), "old");
  }
  EXPECT_EQ(files_in(folder.path()), std::size(writers));
  const FaultyFiles faulty({.at = 1, .error = EDQUOT});
  EXPECT_THROW_KIND(io::append_to_file(folder / "metrics.jsonl", "line"), io, "metrics.jsonl: cannot be written: ");
}

TEST(WriteFaults, AFolderThatIsNotThereOrNotWritable) {
  const ScratchFolder folder;
  EXPECT_THROW_KIND(io::save_npy(folder / "none/a.npy", ones({2})), io, "No such file or directory");
  if (::geteuid() == 0) return;  // root may write everywhere: the fault above covers it
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THROW_KIND(io::save_npy(folder / "a.npy", ones({2})), io, "Permission denied");
  fs::permissions(folder.path(), fs::perms::owner_all);
}

// ---- damaged checkpoints --------------------------------------------------------------------------------------------

TEST(DamagedCheckpoint, NamesTheTensor) {
  const ScratchFolder folder;
  const std::string path = folder / "run.safetensors";
  io::save_checkpoint(path, checkpoint_of_step(3));
  const std::string good = read_whole(path);
  const io::Safetensors file(path);
  std::uint64_t header = 0;
  std::memcpy(&header, good.data(), sizeof header);
  for (const io::Safetensors::Entry& entry : file.entries()) {
    std::string bad = good;
    bad[8 + header + entry.begin + 1] ^= 1;
    write_whole(folder / "bad.safetensors", bad);
    EXPECT_THROW_KIND(io::load_checkpoint(folder / "bad.safetensors"), io,
                      "bad.safetensors: the checkpoint is damaged in tensor '" + entry.name + "', its checksum is ");
  }
  std::string bad = good;
  bad[bad.find("\"ebb.step\":\"3\"") + 12] = '4';
  write_whole(folder / "bad.safetensors", bad);
  EXPECT_THROW_KIND(io::load_checkpoint(folder / "bad.safetensors"), io, "the checkpoint is damaged in its header");
}

TEST(DamagedCheckpoint, ThePreviousOneIsOffered) {
  const ScratchFolder folder;
  const std::string path = folder / "run.safetensors", previous = folder / "run.previous.safetensors";
  EXPECT_EQ(io::previous_checkpoint(path), previous);
  io::save_checkpoint(path, checkpoint_of_step(1), {.keep_previous = true});
  EXPECT_FALSE(fs::exists(previous));
  io::save_checkpoint(path, checkpoint_of_step(2), {.keep_previous = true});
  io::save_checkpoint(path, checkpoint_of_step(3), {.keep_previous = true});
  expect_step(previous, 2);
  const std::string good = read_whole(path);
  for (const std::size_t length : {std::size_t{0}, good.size() / 2, good.size() - 1}) {
    write_whole(path, good.substr(0, length));
    EXPECT_THROW_KIND(io::load_checkpoint(path), io,
                      "; the one before it, " + previous + " of step 2, is intact: rename it to go on from there");
  }
  fs::rename(previous, path);
  expect_step(path, 2);
  // A damaged one is not offered.
  write_whole(path, "");
  write_whole(previous, "");
  try {
    io::load_checkpoint(path);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).find("intact"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace ebb
