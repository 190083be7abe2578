// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "ebb/device.h"
#include "ebb/error.h"

// The statement must throw ebb::Error, and its text must contain `part`: unchecked messages soon mislead.
#define EXPECT_THROW_MESSAGE(statement, part)                                                                 \
  do {                                                                                                        \
    try {                                                                                                     \
      statement;                                                                                              \
      ebb::synchronize(ebb::default_device()); /* some devices compute while the program goes on */           \
      ADD_FAILURE() << #statement " threw nothing";                                                           \
    } catch (const ebb::Error& error) {                                                                       \
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "the text was: " << error.what(); \
    }                                                                                                         \
  } while (false)

// The same, and the error must be of this kind.
#define EXPECT_THROW_KIND(statement, expected_kind, part)                                                     \
  do {                                                                                                        \
    try {                                                                                                     \
      statement;                                                                                              \
      ebb::synchronize(ebb::default_device()); /* some devices compute while the program goes on */           \
      ADD_FAILURE() << #statement " threw nothing";                                                           \
    } catch (const ebb::Error& error) {                                                                       \
      EXPECT_EQ(error.kind(), ebb::Error::Kind::expected_kind);                                               \
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "the text was: " << error.what(); \
    }                                                                                                         \
  } while (false)
