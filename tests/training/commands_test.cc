// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ebb/io.h"
#include "ebb/optim/registry.h"
#include "scratch_folder.h"
#include "tiny_run.h"

// train, eval and generate, from the user's point of view.
namespace ebb::program {
namespace {

namespace fs = std::filesystem;

ProgramResult train(const Words& words) {
  ProgramResult r = run_ebb(Words{"train", "--threads", "1", "--workers", "0"} + words);
  EXPECT_EQ(r.code, 0) << r.err;
  return r;
}

nlohmann::json evaluate(const Words& words) {
  const ProgramResult r = run_ebb(Words{"eval", "--json"} + words);
  EXPECT_EQ(r.code, 0) << r.err;
  return r.code == 0 ? nlohmann::json::parse(r.out) : nlohmann::json{};
}

void expect_complaint(const Words& words, int code, const std::string& part) {
  const ProgramResult r = run_ebb(words);
  EXPECT_EQ(r.code, code) << r.err;
  EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
}

TEST(TrainCommand, LeavesARunFolderThatEvalReads) {
  ScratchFolder scratch;
  const std::string run = scratch / "run";
  const ProgramResult r = train({"--model", "mlp", "--train-count", "1500", "--test-count", "300", "--epochs", "3",
                                 "--out", run, "--ema", "0.9", "--label-smoothing", "0.1"});
  for (const char* file : {"config.json", "metrics.jsonl", "metrics.csv", "events.out.tfevents.ebb",
                           "checkpoint.safetensors", "report.html"}) {
    EXPECT_TRUE(fs::exists(fs::path(run) / file)) << file;
  }
  EXPECT_NE(r.out.find("epoch 3/3"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find('\r'), std::string::npos);  // no progress line outside a terminal
  const nlohmann::json e = evaluate({"--run", run});
  EXPECT_GT(e["accuracy"], 0.6);
  EXPECT_EQ(e["examples"], 300);
  EXPECT_EQ(e, [&] {
    nlohmann::json again = evaluate({"--checkpoint", run + "/checkpoint.safetensors"});
    again["seconds"] = e["seconds"];
    return again;
  }());
  const nlohmann::json others = evaluate({"--run", run, "--seed", "99", "--test-count", "200"});
  EXPECT_EQ(others["examples"], 200);
  EXPECT_NE(others["loss"], e["loss"]);
  // The last line of metrics is the test of the saved weights.
  std::string last = read_whole(run + "/metrics.jsonl");
  last.pop_back();
  EXPECT_EQ(nlohmann::json::parse(last.substr(last.rfind('\n') + 1))["loss"], e["loss"]);
}

TEST(TrainCommand, TrainsConvolutionalNetworksInEveryDtype) {
  ScratchFolder scratch;
  for (const char* model : {"cnn", "resnet"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      const std::string run = scratch / (std::string(model) + dtype);
      train({"--model", model, "--dtype", dtype, "--width", "4", "--train-count", "400", "--test-count", "50",
             "--batch", "20", "--epochs", "5", "--out", run});
      EXPECT_GT(evaluate({"--run", run})["accuracy"], 0.3) << model << " " << dtype;
    }
  }
}

TEST(TrainCommand, TakesEveryOptimiserAndSchedule) {
  ScratchFolder scratch;
  for (const OptimizerInfo& info : optimizer_registry()) {
    const std::string optimizer(info.name);
    for (const char* schedule : {"cosine", "linear", "constant"}) {
      const ProgramResult r = run_ebb(
          tiny_run(scratch / "run", {"--optimizer", optimizer, "--schedule", schedule, "--steps", "4", "--overwrite"}));
      EXPECT_EQ(r.code, 0) << optimizer << ": " << r.err;
    }
  }
}

TEST(TrainCommand, ReadsRowsOfNumbers) {
  ScratchFolder scratch;
  std::string csv = "height,kind,weight\n";
  for (int i = 0; i < 200; ++i) {  // kind 7 is tall, kind 3 is not
    const int tall = i % 2;
    csv += std::to_string(100 + 100 * tall + i % 13) + "," + (tall ? "7" : "3") + "," + std::to_string(i % 5) + "\n";
  }
  const std::string file = scratch / "people.csv", run = scratch / "run";
  write_whole(file, csv);
  train({"--model", "mlp", "--data", file, "--target", "kind", "--epochs", "10", "--out", run});
  EXPECT_EQ(evaluate({"--run", run})["accuracy"], 1.0);
  const std::string tall = scratch / "tall.csv";
  write_whole(tall, "height,kind,weight\n210,7,1\n205,7,2\n");
  const nlohmann::json e = evaluate({"--run", run, "--data", tall});
  EXPECT_EQ(e["classes"], (nlohmann::json{"3", "7"}));
  EXPECT_EQ(e["confusion"], (nlohmann::json{{0, 0}, {0, 2}}));
  write_whole(tall, "height,kind,weight\n210,8,1\n205,7,2\n");
  expect_complaint({"eval", "--run", run, "--data", tall}, 1,
                   "line 2, column 2 (kind): class '8' is not one of the 2 the model knows");
}

std::string idx(const std::vector<int>& sizes, const std::string& bytes) {
  std::string s{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (int n : sizes) {
    for (int shift : {24, 16, 8, 0}) s += static_cast<char>(n >> shift & 255);
  }
  return s + bytes;
}

TEST(TrainCommand, ReadsIdxFilesAndFoldersOfPictures) {
  ScratchFolder scratch;
  // Bright pictures are class 1, dark ones class 0.
  const auto pictures = [](int n) {
    std::string pixels, labels;
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < 64; ++k) pixels += static_cast<char>(i % 2 ? 180 + (i + k) % 60 : 10 + (i * k) % 60);
      labels += static_cast<char>(i % 2);
    }
    return std::pair{pixels, labels};
  };
  fs::create_directories(scratch / "idx");
  for (const auto& [name, n] : {std::pair{"train", 60}, std::pair{"t10k", 20}}) {
    const auto [pixels, labels] = pictures(n);
    write_whole(scratch / ("idx/" + std::string(name) + "-images-idx3-ubyte"), idx({n, 8, 8}, pixels));
    write_whole(scratch / ("idx/" + std::string(name) + "-labels-idx1-ubyte"), idx({n}, labels));
  }
  train({"--model", "cnn", "--width", "4", "--data", scratch / "idx", "--batch", "10", "--epochs", "4", "--out",
         scratch / "a"});
  const nlohmann::json e = evaluate({"--run", scratch / "a"});
  EXPECT_EQ(e["examples"], 20);
  EXPECT_EQ(e["accuracy"], 1.0);

  for (int i = 0; i < 40; ++i) {
    const std::string folder = scratch / (i % 2 ? "pictures/bright" : "pictures/dark");
    fs::create_directories(folder);
    write_whole(folder + "/" + std::to_string(i) + ".pgm",
                "P5 8 8 255\n" + std::string(64, static_cast<char>(i % 2 ? 200 + i : i)));
  }
  train({"--model", "resnet", "--width", "4", "--data", scratch / "pictures", "--batch", "8", "--epochs", "6", "--out",
         scratch / "b"});
  const nlohmann::json f = evaluate({"--run", scratch / "b"});
  EXPECT_EQ(f["examples"], 4);
  EXPECT_EQ(f["classes"], (nlohmann::json{"bright", "dark"}));
  // A network for one picture shape reports an error when it gets another.
  expect_complaint({"eval", "--run", scratch / "b", "--data", scratch / "idx"}, 1, "");

  // One picture, or a folder of them, of any size.
  fs::create_directories(scratch / "new");
  write_whole(scratch / "new/a.pgm", "P5 16 8 255\n" + std::string(128, static_cast<char>(230)));
  write_whole(scratch / "new/b, \"c\".pgm", "P5 8 8 255\n" + std::string(64, 5));
  const ProgramResult one = run_ebb({"predict", "--run", scratch / "b", "--data", scratch / "new/a.pgm"});
  EXPECT_EQ(one.out.find("file,prediction,probability\n" + scratch / "new/a.pgm" + ",bright,0."), 0u) << one.out;
  const ProgramResult all = run_ebb({"predict", "--run", scratch / "b", "--data", scratch / "new"});
  EXPECT_NE(all.out.find("\"" + scratch / "new/b, \"\"c\"\".pgm\",dark,"), std::string::npos) << all.out;
  fs::create_directories(scratch / "empty");
  expect_complaint({"predict", "--run", scratch / "b", "--data", scratch / "empty"}, 1, "there are no pictures");
}

TEST(TrainCommand, PicturesOfSeveralSizesAreResized) {
  ScratchFolder scratch;
  for (int i = 0; i < 24; ++i) {
    const std::string folder = scratch / (i % 2 ? "pictures/bright" : "pictures/dark");
    fs::create_directories(folder);
    const int side = 6 + i % 5;
    write_whole(folder + "/" + std::to_string(i) + ".pgm",
                "P5 " + std::to_string(side) + " " + std::to_string(side) + " 255\n" +
                    std::string(static_cast<std::size_t>(side * side), static_cast<char>(i % 2 ? 200 + i : i)));
  }
  const Words words{"--width", "2", "--data", scratch / "pictures", "--steps", "20", "--out", scratch / "run"};
  train(words + Words{"--resize", "8,12"});
  EXPECT_NE(read_whole(scratch / "run/checkpoint.safetensors").find("\\\"example\\\":[3,8,12]"), std::string::npos);
  train(words + Words{"--overwrite"});
  EXPECT_NE(read_whole(scratch / "run/checkpoint.safetensors").find("\\\"example\\\":[3,64,64]"), std::string::npos);
}

TEST(TrainCommand, ReadsCifar) {
  ScratchFolder scratch;
  const auto records = [](int n) {
    std::string bytes;
    for (int i = 0; i < n; ++i) {
      bytes += static_cast<char>(i % 2 ? 9 : 4);
      for (int k = 0; k < 3072; ++k) bytes += static_cast<char>((i % 2 ? 150 : 20) + (i * 7 + k) % 90);
    }
    return bytes;
  };
  fs::create_directories(scratch / "cifar");
  write_whole(scratch / "cifar/data_batch_1.bin", records(40));
  write_whole(scratch / "cifar/data_batch_2.bin", records(20));
  write_whole(scratch / "cifar/test_batch.bin", records(10));
  const ProgramResult r = train({"--model", "cnn", "--width", "2", "--data", scratch / "cifar", "--batch", "10",
                                 "--epochs", "6", "--out", scratch / "run"});
  EXPECT_NE(r.out.find("60 to train on, 10 to test"), std::string::npos) << r.out;
  EXPECT_EQ(evaluate({"--run", scratch / "run"})["accuracy"], 1.0);
}

// A program's output to a terminal.
std::string on_a_terminal(const Words& words) {
  const int screen = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (screen < 0 || ::grantpt(screen) != 0 || ::unlockpt(screen) != 0) throw std::runtime_error("no terminal");
  const int inside = ::open(::ptsname(screen), O_RDWR | O_NOCTTY);
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  const pid_t id = ::fork();
  if (id == 0) {
    ::dup2(inside, 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(inside);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = ::read(screen, part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(n));
  ::close(screen);
  int status = 0;
  ::waitpid(id, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return text;
}

TEST(TrainCommand, ShowsALineThatMovesOnATerminal) {
  ScratchFolder scratch;
  const std::string text = on_a_terminal(ebb_words(tiny_run(scratch / "run", {"--steps", "3"})));
  const std::size_t line = text.find("\r\033[K  ");
  ASSERT_NE(line, std::string::npos) << text;
  for (const char* part : {"·", " %  loss ", "accuracy ", "epoch ", " left", "/s"}) {
    EXPECT_NE(text.find(part, line), std::string::npos) << part << " in " << text;
  }
  EXPECT_NE(text.find("\r\033[K  epoch", line), std::string::npos) << "the line that stays takes its place: " << text;
}

TEST(TrainCommand, AGptLearnsATextAndWrites) {
  ScratchFolder scratch;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the sea comes in and the sea goes out. ";
  const std::string file = scratch / "sea.txt", run = scratch / "run";
  write_whole(file, text);
  train({"--data", file, "--width", "32", "--layers", "1", "--heads", "2", "--context", "16", "--tokens", "280",
         "--steps", "250", "--out", run});
  const nlohmann::json e = evaluate({"--run", run});
  EXPECT_LT(e["perplexity"], 2.0);
  // A token is a byte at least, so a byte takes no more bits than a token.
  EXPECT_GT(e["bits_per_byte"], 0);
  EXPECT_LT(e["bits_per_byte"], e["loss"].get<double>() / std::log(2.0) + 1e-9);
  const Words generate{"generate", "--run", run, "--prompt", "the sea comes", "--tokens", "12"};
  const ProgramResult likeliest = run_ebb(generate + Words{"--temperature", "0"});
  EXPECT_EQ(likeliest.code, 0) << likeliest.err;
  EXPECT_EQ(likeliest.out.find("the sea comes in and the sea goes out. the"), 0u) << likeliest.out;
  EXPECT_EQ(run_ebb(generate + Words{"--top-k", "1"}).out, likeliest.out);
  // Twelve tokens fit the window, where stored keys and values equal recomputed ones.
  EXPECT_EQ(run_ebb(generate + Words{"--temperature", "0", "--recompute"}).out, likeliest.out);
  const Words daring = generate + Words{"--temperature", "50", "--top-k", "0", "--seed"};
  EXPECT_EQ(run_ebb(daring + Words{"3"}).out, run_ebb(daring + Words{"3"}).out);
  EXPECT_NE(run_ebb(daring + Words{"3"}).out, run_ebb(daring + Words{"4"}).out);
  expect_complaint(generate + Words{"--temperature", "-1"}, 1, "--temperature must not be negative");
  const std::string report = read_whole(run + "/report.html");
  EXPECT_NE(report.find("<blockquote>"), std::string::npos);
}

TEST(TrainCommand, AnyOptionCanBeSetInAFile) {
  ScratchFolder scratch;
  const std::string file = scratch / "run.toml", run = scratch / "run";
  write_whole(file,
              "model = \"mlp\"\nhidden = [8, 4]\ntrain-count = 32\ntest-count = 8\nsteps = 3\nthreads = 1\nout = \"" +
                  run + "\"\noverwrite = true\n");
  for (int k = 0; k < 2; ++k) train({"--config", file});
  EXPECT_EQ(io::load_checkpoint(run + "/checkpoint.safetensors").step, 3);
  write_whole(file, "resume = \"" + run + "\"\nsteps = 5\n");
  train({"--config", file});
  EXPECT_EQ(io::load_checkpoint(run + "/checkpoint.safetensors").step, 5);
  write_whole(file, "resume = \"" + run + "\"\noverwrite = true\n");
  expect_complaint({"train", "--config", file}, 2, "--resume continues a run in its folder");
}

TEST(TrainCommand, SaysWhatIsWrongInOneLine) {
  ScratchFolder scratch;
  const std::string run = scratch / "run";
  expect_complaint({"train", "--model", "tree"}, 2, "--model");
  expect_complaint({"train", "--data", "no/such/path", "--out", run}, 1, "no/such/path: there is no such file");
  expect_complaint({"train", "--model", "gpt", "--data", "digits", "--out", run, "--overwrite"}, 1, "--data digits");
  expect_complaint({"train", "--batch", "-3", "--out", run, "--overwrite"}, 1, "--batch must be at least 0");
  expect_complaint({"train", "--optimizer", "adma", "--out", run}, 2, "did you mean 'adam'?");
  expect_complaint({"train", "--epohcs", "3"}, 2, "`ebb train` has no option '--epohcs'; did you mean '--epochs'?");
  expect_complaint({"train", "--epohcs=3"}, 2, "did you mean '--epochs'?");
  expect_complaint({"trian"}, 2, "there is no command 'trian'; did you mean 'train'?");
  expect_complaint({"eval"}, 2, "");
  expect_complaint({"eval", "--run", scratch / "nothing"}, 1, scratch / "nothing" + ": there is no run in this folder");
  ASSERT_EQ(run_ebb(tiny_run(scratch / "twice", {"--steps", "2"})).code, 0);
  expect_complaint(tiny_run(scratch / "twice", {"--steps", "2"}), 2, "holds a run already");
  expect_complaint({"generate", "--run", scratch / "twice", "--prompt", "a"}, 1,
                   "only --model gpt and llama write text");
  expect_complaint(tiny_run(scratch / "wild", {"--lr", "1e30", "--optimizer", "sgd", "--steps", "50"}), 1,
                   "the loss is ");
}

}  // namespace
}  // namespace ebb::program
