// SPDX-License-Identifier: MIT
// EBB_TEST_DEVICE runs a test program with another default device:
//   second     the host behind the device interface; EBB_RECORD_KERNELS=FILE records the kernels a GPU would need
//   emulated   all of src/cuda, with kernels on an emulated GPU; EBB_RECORDED_KERNELS=FILE compiles those ahead
//   cuda       the first GPU
// EBB_SKIPPED_TESTS=FILE: appends a line "reason, tab, test" for every skipped test.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "cuda/emulated_device.h"
#include "cuda/kernel_store.h"
#include "second_device.h"

namespace {

class NotesSkipped : public testing::EmptyTestEventListener {
 public:
  explicit NotesSkipped(const char* path) : path_(path) {}
  void OnTestEnd(const testing::TestInfo& test) override {
    for (int k = 0; k < test.result()->total_part_count(); ++k) {
      const testing::TestPartResult& part = test.result()->GetTestPartResult(k);
      if (!part.skipped()) continue;
      std::string reason = part.message();
      reason = reason.substr(0, reason.find('\n'));
      std::ofstream(path_, std::ios::app) << reason + "\t" + test.test_suite_name() + "." + test.name() + "\n";
      return;
    }
  }

 private:
  const char* path_;
};

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, SIG_DFL);  // a shell that runs the tests in the background ignores it, also for its children
  const char* const named = std::getenv("EBB_TEST_DEVICE");
  const std::string_view device = named ? named : "";
  if (device == "second") {
    ebb::testing_device::install_second_device();
    ebb::set_default_device(ebb::testing_device::kSecondDevice);
  }
  if (device == "emulated") {
    if (const char* recorded = std::getenv("EBB_RECORDED_KERNELS"))
      ebb::testing::KernelStore::get().prepare(ebb::testing::KernelStore::read_texts(recorded));
    ebb::testing::emulate_device();
  }
  if (device == "emulated" || device == "cuda") ebb::set_default_device(ebb::device_from_name("cuda:0"));
  testing::InitGoogleTest(&argc, argv);  // makes the tests' parameters: tensors among them belong on the device, too
  if (const char* const skipped = std::getenv("EBB_SKIPPED_TESTS"))
    testing::UnitTest::GetInstance()->listeners().Append(new NotesSkipped(skipped));
  const int result = RUN_ALL_TESTS();
  if (device == "emulated") {
    if (const long alone = ebb::testing::KernelStore::get().compiled_alone())
      std::printf("%ld kernels were not recorded and were compiled alone\n", alone);
  }
  return result;
}
