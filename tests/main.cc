// EBB_TEST_DEVICE=second runs a test program with the second device as the default one, EBB_TEST_DEVICE=cuda with the
// first GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "second_device.h"

int main(int argc, char** argv) {
  const char* device = std::getenv("EBB_TEST_DEVICE");
  if (device && std::string_view(device) == "second") {
    ebb::testing_device::install_second_device();
    ebb::set_default_device(ebb::testing_device::kSecondDevice);
  }
  if (device && std::string_view(device) == "cuda") ebb::set_default_device(ebb::device_from_name("cuda:0"));
  testing::InitGoogleTest(&argc, argv);  // it makes the tests' parameters: tensors among them belong on the device, too
  return RUN_ALL_TESTS();
}
