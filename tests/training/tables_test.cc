// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tables.h"

// Ordinary CSV files: train, eval and predict.
namespace ebb::program {
namespace {

TEST_F(Tables, WordsAreLabels) {
  const ProgramResult r = train({"--data", file("a.csv", flowers(120))});
  EXPECT_NE(r.out.find("Training mlp"), std::string::npos) << r.out;  // chosen for the data
  EXPECT_NE(r.out.find("Predicting species from 2 inputs: 2 classes."), std::string::npos) << r.out;
  const nlohmann::json e = evaluate({});
  EXPECT_EQ(e["classes"], (nlohmann::json{"grass", "lily"}));
  EXPECT_EQ(e["accuracy"], 1.0);
}

TEST_F(Tables, SemicolonsTabsAndFilesWithoutAHeader) {
  for (const auto& [name, text] : {std::pair{"a.csv", flowers(60, ';')}, std::pair{"a.tsv", flowers(60, '\t')},
                                   std::pair{"b.csv", flowers(60, ',', false)}}) {
    train({"--data", file(name, text), "--steps", "300"});
    EXPECT_EQ(evaluate({})["accuracy"], 1.0) << name;
  }
  // The last one had no names to match.
  EXPECT_EQ(predict(file("c.csv", "5,1\n1,6\n")).size(), 3u);
  EXPECT_EQ(predict(file("c.csv", "5,1,grass\n1,6,grass\n"))[1].substr(0, 6), "1,lily");
  expect_complaint({"eval", "--run", run(), "--data", file("d.csv", flowers(10))},
                   "the model was trained on a file without");
  expect_complaint({"predict", "--run", run(), "--data", file("d.csv", "1\n2\n")},
                   "there are 1 columns, the model was trained on 3");
}

TEST_F(Tables, ColumnsAreMatchedByName) {
  train({"--data", file("a.csv", flowers(120)), "--steps", "400"});
  const std::string reversed =
      file("b.csv", "species,colour,length,width\nlily,red,1,5\ngrass,green,6,1\nlily,red,1.1,5.2\n");
  EXPECT_EQ(evaluate({"--data", reversed})["accuracy"], 1.0);
  expect_complaint({"eval", "--run", run(), "--data", file("c.csv", "5,1,lily\n1,6,grass\n")},
                   "c.csv: line 1, column 1: there is no header, and the model knows its columns by their names");
  expect_complaint({"eval", "--run", run(), "--data", file("c.csv", "widht,length,species\n5,1,lily\n")},
                   "c.csv: line 1: there is no column 'width', which the model was trained on; did you mean 'widht'?");
  expect_complaint({"eval", "--run", run(), "--data", file("c.csv", "width,length,species\n5,1,rose\n")},
                   "c.csv: line 2, column 3 (species): class 'rose' is not one of the 2 the model knows");
}

TEST_F(Tables, TheTargetIsNamedOrNumberedFromOne) {
  const std::string data = file("a.csv", "species,width\nlily,5\ngrass,1\nlily,6\ngrass,2\nlily,5\ngrass,1\n");
  for (const char* target : {"species", "1"}) {
    const ProgramResult r = train({"--data", data, "--target", target, "--steps", "20"});
    EXPECT_NE(r.out.find("Predicting species"), std::string::npos) << r.out;
  }
  const Words wrong{"train", "--out", run(), "--overwrite", "--data", data, "--target"};
  expect_complaint(wrong + Words{"0"}, "--target 0: " + data + " has columns 1 to 2");
  expect_complaint(wrong + Words{"3"}, "has columns 1 to 2");
  expect_complaint(wrong + Words{"specis"}, "has no such column; did you mean 'species'?");
  expect_complaint(wrong + Words{"WIDTH"}, "has no such column; did you mean 'width'?");
  expect_complaint(wrong + Words{"colour"}, "has no such column; it has species, width");
}

TEST_F(Tables, OneIsNotSeveral) {
  std::string text = "a,y\n";
  for (int i = 0; i < 20; ++i) text += fmt::format("{},{}\n", i % 7, i % 2);
  const ProgramResult r = train({"--data", file("a.csv", text), "--steps", "1"});
  EXPECT_NE(r.out.find("Predicting y from 1 input: 2 classes."), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("\n1 step of "), std::string::npos) << r.out;
}

TEST_F(Tables, NotesQuoteWordsInOneLine) {
  std::string text = "text,y\n";
  for (int i = 0; i < 20; ++i)
    text += fmt::format("\"{:02} a\nline of a letter that is lönger than a note\",{}\n", i, i % 2);
  const ProgramResult r = train({"--data", file("a.csv", text), "--steps", "1"});
  EXPECT_NE(r.out.find("such as '00 a line of a letter that is lönger th...', each"), std::string::npos) << r.out;
}

TEST_F(Tables, SizesOfMemoryAreRead) {
  const std::string data = file("a.csv", flowers(20));
  const Words wrong{"train", "--out", run(), "--overwrite", "--data", data, "--steps", "1", "--memory"};
  for (const char* size : {"abc", "GiB", "1 GiB more", "-1", "1 XB"})
    expect_complaint(wrong + Words{size}, fmt::format("--memory: '{}' is not a size; write '6 GiB'", size));
  train({"--data", data, "--steps", "1", "--memory", "1.5gib"});
}

TEST_F(Tables, AModelOfRowsWritesNoText) {
  train({"--data", file("a.csv", flowers(20)), "--steps", "1"});
  const ProgramResult r = run_ebb({"generate", "--run", run(), "--prompt", "When"});
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("only --model gpt and llama write text"), std::string::npos) << r.err;
  expect_complaint({"info", run()}, "this is a folder, not a file; did you mean " + run() + "/checkpoint.safetensors?");
}

TEST_F(Tables, ANumericTargetOfManyValuesIsARegression) {
  std::string text = "a,b,price\n";
  std::mt19937 draw(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int i = 0; i < 400; ++i) {
    const double a = uniform(draw), b = uniform(draw);
    text += fmt::format("{},{},{}\n", a, b, 5000 + 1000 * (2 * a - b));
  }
  const ProgramResult r = train({"--data", file("a.csv", text)});
  EXPECT_NE(r.out.find("Predicting price from 2 inputs: regression"), std::string::npos) << r.out;
  const nlohmann::json e = evaluate({});
  EXPECT_GT(e["r2"], 0.99);
  EXPECT_LT(e["mae"], 100);
  const std::vector<std::string> lines = predict(file("b.csv", "b,a\n0,0\n0,0.5\n"));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "row,prediction");
  EXPECT_NEAR(std::stod(lines[1].substr(2)), 5000, 150);
  EXPECT_NEAR(std::stod(lines[2].substr(2)), 6000, 150);
  const std::string report = read_whole(run() + "/report.html");
  EXPECT_NE(report.find("Predicted over actual"), std::string::npos);
  // Options override the choice.
  EXPECT_NE(
      train({"--data", file("c.csv", "x,y\n1,1\n2,2\n3,3\n4,4\n1,1\n2,2\n"), "--task", "regression", "--steps", "20"})
          .out.find("regression"),
      std::string::npos);
  EXPECT_EQ(train({"--data", scratch / "c.csv", "--steps", "20"}).out.find("regression"), std::string::npos);
  expect_complaint(
      {"train", "--data", file("d.csv", "x,y\n1,a\n2,b\n"), "--task", "regression", "--out", run(), "--overwrite"},
      "d.csv: line 2, column 2 (y): 'a' is not a number, as --task regression needs them");
}

TEST_F(Tables, MissingValuesAreFilledWithTheMeanOfTheTrainingData) {
  std::string text = "x,y,species\n";
  for (int i = 0; i < 200; ++i)
    text += fmt::format("{},{},{}\n", i % 2 ? "4" : "-4", i % 5 ? "1" : "", i % 2 ? "up" : "down");
  train({"--data", file("a.csv", text), "--steps", "300"});
  EXPECT_EQ(evaluate({})["accuracy"], 1.0);
  const std::vector<std::string> lines = predict(file("b.csv", "x,y\n4,NA\n-4,\n4,1\n"));
  EXPECT_EQ(lines[1].substr(0, 4), "1,up");
  EXPECT_EQ(lines[2].substr(0, 6), "2,down");
  EXPECT_EQ(lines[1].substr(1), lines[3].substr(1));  // the mean of y is 1
  expect_complaint({"train", "--data", file("c.csv", "x,species\n1,a\n2,\n"), "--out", run(), "--overwrite"},
                   "c.csv: line 3, column 2 (species): the target is missing");
}

TEST_F(Tables, ColumnsOfWordsAreInputs) {
  std::string text = "colour,weight,kind\n";
  for (int i = 0; i < 150; ++i)
    text += fmt::format("{},{},{}\n",
                        i % 3 == 0   ? "red"
                        : i % 3 == 1 ? "green"
                                     : "",
                        i % 4, i % 3 == 0 ? "apple" : "pear");
  const ProgramResult r = train({"--data", file("a.csv", text), "--steps", "300"});
  EXPECT_NE(r.out.find("from 3 inputs"), std::string::npos) << r.out;
  EXPECT_EQ(evaluate({})["accuracy"], 1.0);
  EXPECT_EQ(predict(file("b.csv", "colour,weight\nred,1\ngreen,2\nblue,2\n")).size(), 4u);
}

TEST_F(Tables, EveryComplaintNamesLineAndColumn) {
  const Words words{"train", "--out", run(), "--overwrite", "--data"};
  const auto expect = [&](const std::string& text, const std::string& part) {
    expect_complaint(words + Words{file("a.csv", text)}, "a.csv: " + part);
  };
  expect("x,k\n1,a\n2,b\noops,a\n3,b\n",
         "line 4, column 1 (x): 'oops' is not a number; correct it, name it in --missing, or --ignore the column");
  expect("x,k\n1,a\n2\n", "line 3, column 2 (k): the field is missing");
  expect("x,x,k\n1,2,a\n", "line 1, column 2: column 1 is called 'x', too");
  expect("k\na\nb\n", "line 1, column 1: one column is the target");
  expect("x,k\n1,a\ninf,b\n2,a\n", "line 3, column 1 (x): inf is not finite");
  expect("x,k\n", "line 2, column 1: there are no rows");
  std::string names = "name,k\n";
  for (int i = 0; i < 100; ++i) names += fmt::format("n{},{}\n", i, i % 2);
  expect(names, "line 2, column 1 (name): 'n0' is one of more than 64 different words");
  std::string wide = "name,x,\"ticket, no\",street,k\n";
  for (int i = 0; i < 100; ++i) wide += fmt::format("n{0},{0},t{0},s{0},{1}\n", i, i % 2);
  expect(wide,
         "line 2, column 1 (name): 'n0' is one of more than 64 different words, too many to learn from; --ignore "
         "name,3,street");
  expect_complaint(words + Words{file("a.csv", wide), "--ignore", "street"},
                   "too many to learn from; --ignore street,name,3");
  train({"--data", file("b.csv", "id,x,k\na1,1,p\na2,2,q\na3,1,p\na4,2,q\n"), "--ignore", "id", "--steps", "10"});
}

TEST_F(Tables, SmallDataIsLearnedByDefault) {
  const ProgramResult r = train({"--data", file("a.csv", flowers(40))});
  EXPECT_EQ(evaluate({"--data", scratch / "a.csv"})["accuracy"], 1.0);
  // At least 2,000 steps, reported in at most forty lines.
  const auto config = nlohmann::json::parse(read_whole(run() + "/config.json"));
  EXPECT_GE(config["epochs"].get<double>() * 4, 2000);
  EXPECT_EQ(config["label-smoothing"], 0.1);
  EXPECT_EQ(config["activation"], "gelu");
  EXPECT_LE(std::count(r.out.begin(), r.out.end(), '\n'), 50);
}

TEST_F(Tables, ProbabilitiesSumToOneAndGoToAFile) {
  train({"--data", file("a.csv", flowers(120)), "--steps", "300"});
  const std::string out = scratch / "out.csv";
  const std::vector<std::string> shown = predict(file("b.csv", "length,width\n1,5\n"), {"--probabilities"});
  EXPECT_EQ(shown[0], "row,prediction,probability,P(grass),P(lily)");
  predict(scratch / "b.csv", {"--out", out, "--probabilities"});
  EXPECT_EQ(read_whole(out), shown[0] + "\n" + shown[1] + "\n");
  std::istringstream fields(shown[1]);
  std::vector<std::string> parts;
  for (std::string part; std::getline(fields, part, ',');) parts.push_back(part);
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[1], "lily");
  EXPECT_NEAR(std::stod(parts[3]) + std::stod(parts[4]), 1, 1e-5);
  EXPECT_EQ(parts[2], parts[4]);
}

// Regression needs it most: a network memorises noise.
TEST_F(Tables, APartIsHeldBackUnaskedWhereThereAreRowsEnough) {
  const auto rows = [](int n, bool classes) {
    std::mt19937 draw(5);
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::string text = "a,b,y\n";
    for (int i = 0; i < n; ++i) {
      const double a = uniform(draw), b = uniform(draw), y = a + 3 * uniform(draw);
      text += fmt::format("{},{},{}\n", a, b, classes ? (y > 0 ? "up" : "down") : std::to_string(y));
    }
    return text;
  };
  const auto is_held_back = [&](int n, bool classes, const Words& more) {
    const ProgramResult r = train(Words{"--data", file("a.csv", rows(n, classes)), "--steps", "5"} + more);
    return r.out.find("to validate") != std::string::npos;
  };
  EXPECT_TRUE(is_held_back(200, false, {}));
  EXPECT_FALSE(is_held_back(80, false, {}));
  EXPECT_FALSE(is_held_back(200, false, {"--validation-fraction", "0"}));
  EXPECT_FALSE(is_held_back(500, true, {}));
  EXPECT_TRUE(is_held_back(1200, true, {}));
  EXPECT_TRUE(is_held_back(500, true, {"--validation-fraction", "0.2"}));
  // And it ends a run that only learns noise.
  const ProgramResult r = train({"--data", file("a.csv", rows(300, false))});
  EXPECT_NE(r.out.find("15 tests without a lower validation loss"), std::string::npos) << r.out;
  const auto config = nlohmann::json::parse(read_whole(run() + "/config.json"));
  EXPECT_EQ(config["validation-fraction"], 0.1);
  EXPECT_EQ(config["patience"], 15);
}

TEST_F(Tables, EarlyStoppingKeepsTheBestWeightsByValidation) {
  // Labels are noise: the validation loss rises as soon as the network begins to memorise them.
  std::string text = "a,b,c,k\n";
  std::mt19937 draw(3);
  for (int i = 0; i < 300; ++i) {
    text += fmt::format("{},{},{},{}\n", draw() % 1000, draw() % 1000, draw() % 1000, draw() % 2);
  }
  const ProgramResult r =
      train({"--data", file("a.csv", text), "--patience", "3", "--epochs", "400", "--hidden", "64"});
  EXPECT_NE(r.out.find("to validate"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("3 tests without a lower validation loss"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("are kept, the best on the validation data"), std::string::npos) << r.out;
  const nlohmann::json best = evaluate({}), last = evaluate({"--use", "last"});
  EXPECT_LT(best["step"], last["step"]);
  // The lines of metrics name the data measured: the lowest loss on the validation data is that of the weights
  // kept.
  std::istringstream metrics(read_whole(run() + "/metrics.jsonl"));
  nlohmann::json lowest;
  for (std::string line; std::getline(metrics, line);) {
    const nlohmann::json measured = nlohmann::json::parse(line);
    if (measured["split"] == "validation" && (lowest.is_null() || measured["loss"] < lowest["loss"])) lowest = measured;
  }
  ASSERT_FALSE(lowest.is_null());
  EXPECT_EQ(best["step"], lowest["step"]);
  // Resuming a run that has stopped early does not continue it.
  EXPECT_EQ(run_ebb({"train", "--resume", run()}).code, 0);
  EXPECT_EQ(evaluate({"--use", "last"})["step"], last["step"]);
}

}  // namespace
}  // namespace ebb::program
