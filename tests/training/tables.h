// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "scratch_folder.h"
#include "tiny_run.h"

// CSV files and a run on them.
namespace ebb::program {

class Tables : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    write_whole(scratch / name, text);
    return scratch / name;
  }
  std::string run() const { return scratch / "run"; }
  ProgramResult train(const Words& words) const {
    ProgramResult r = run_ebb(
        Words{"train", "--threads", "1", "--workers", "0", "--out", run(), "--overwrite", "--hidden", "16"} + words);
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  }
  nlohmann::json evaluate(const Words& words) const {
    const ProgramResult r = run_ebb(Words{"eval", "--json", "--run", run()} + words);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.code == 0 ? nlohmann::json::parse(r.out) : nlohmann::json{};
  }
  // The lines that `predict` writes, below the header.
  std::vector<std::string> predict(const std::string& data, const Words& more = {}) const {
    const ProgramResult r = run_ebb(Words{"predict", "--run", run(), "--data", data} + more);
    EXPECT_EQ(r.code, 0) << r.err;
    std::vector<std::string> lines;
    std::istringstream in(r.out);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  void expect_complaint(const Words& words, const std::string& part) const {
    const ProgramResult r = run_ebb(words);
    EXPECT_NE(r.code, 0);
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
  // Two kinds of flowers: broad short leaves, narrow long ones.
  static std::string flowers(int n, char separator = ',', bool header = true) {
    std::string text = header ? std::string("width") + separator + "length" + separator + "species\n" : "";
    for (int i = 0; i < n; ++i) {
      const bool broad = i % 2 == 0;
      text += std::to_string(broad ? 5 + i % 7 * 0.1 : 1 + i % 5 * 0.1) + separator +
              std::to_string(broad ? 1 + i % 3 * 0.1 : 6 + i % 11 * 0.1) + separator + (broad ? "lily" : "grass") +
              "\n";
    }
    return text;
  }
  ScratchFolder scratch;
};

}  // namespace ebb::program
