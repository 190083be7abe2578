// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/device.h"

namespace ebb {

// A stream of the device for a thread that only copies to it (OnStream): copies then overlap with the device's
// other work, and only their readers wait for them. Null where a device has none. Defined by the schedule
// layer.
void* copy_stream(Device device);

}  // namespace ebb
