// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/device.h"

namespace ebb {

// A stream of the device on which a thread that does nothing else may copy to it (OnStream): copies are then made
// beside the device's other work, and what reads them waits for them alone. Null where a device has none. Defined by
// the schedule layer.
void* copy_stream(Device device);

}  // namespace ebb
