// SPDX-License-Identifier: MIT
#include "source_folder.h"

std::filesystem::path ebb::testing::source_folder() { return EBB_SOURCE; }
