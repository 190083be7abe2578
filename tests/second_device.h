// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/device.h"

namespace ebb {
class Backend;
}

namespace ebb::testing_device {

// A second device that proves the interface: cuda:0, made of the host. Its memory is a pool of its own that is poisoned
// when handed out, and its addresses are not the host's: reading through one crashes. A thread of its own computes, in
// order, while the program continues; errors are thrown by waits.
inline constexpr Device kSecondDevice{Device::Kind::cuda, 0};
void install_second_device();

// The same as another device, for programs that load it with a library of their own and install it there.
Backend& new_second_device(Device device);

// Number of steps it has computed, and of bytes it has copied.
struct SecondDeviceWork {
  long sweeps, calls, copied;
};
SecondDeviceWork second_device_work();

}  // namespace ebb::testing_device
