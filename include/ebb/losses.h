#pragma once

// Every loss, by family.
#include "ebb/losses/reduction.h"
