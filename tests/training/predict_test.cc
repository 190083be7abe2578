// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tables.h"

// `ebb predict`: sources of rows, columns passed on, and output formats; and the other results as JSON.
namespace ebb::program {
namespace {

using nlohmann::json;

class Predict : public Tables {
 protected:
  void SetUp() override { train({"--data", file("a.csv", flowers(120)), "--steps", "300"}); }
  ProgramResult shell(const std::string& line) const {
    return run_program({"/bin/sh", "-c", "EBB='" EBB_PROGRAM "'; RUN='" + run() + "'; " + line});
  }
};

TEST_F(Predict, RowsComeThroughThePipe) {
  const std::string rows = file("b.csv", "width,length\n5,1\n1,6\n");
  const auto lines = predict(rows);
  for (const std::string& line :
       {"$EBB predict --run $RUN --data - < " + rows, "cat " + rows + " | $EBB predict --run $RUN --data -",
        "gzip -c " + rows + " | $EBB predict --run $RUN --data /dev/stdin",
        "cat " + rows + " | $EBB predict --run $RUN --data - --out /dev/stdout | cat"}) {
    const ProgramResult r = shell(line);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out, lines[0] + "\n" + lines[1] + "\n" + lines[2] + "\n") << line;
  }
  const ProgramResult none = shell("$EBB predict --run $RUN --data - < /dev/null");
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("line 1, column 1: the file is empty"), std::string::npos) << none.err;
}

TEST_F(Predict, AnOutputThatIsLostIsAFailure) {
  const ProgramResult r =
      shell("$EBB predict --run $RUN --data " + file("b.csv", "width,length\n5,1\n") + " > /dev/full");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("the standard output cannot be written"), std::string::npos) << r.err;
  EXPECT_NE(shell("$EBB eval --run $RUN > /dev/full").code, 0);
  EXPECT_NE(shell("$EBB train --resume $RUN --steps 301 > /dev/full").code, 0);
}

TEST_F(Predict, ColumnsAreHandedOn) {
  const std::string rows = file("b.csv", "id,width,length,\"what, else\"\na7,5,1,\"x \"\"y\"\"\"\nb8,1,6,\n");
  const auto numbered = predict(rows, {"--keep", "id,4"});
  ASSERT_EQ(numbered.size(), 3u);
  EXPECT_EQ(numbered[0], "row,id,\"what, else\",prediction,probability");
  EXPECT_EQ(numbered[1].substr(0, numbered[1].rfind(',')), "1,a7,\"x \"\"y\"\"\",lily");
  EXPECT_EQ(numbered[2].substr(0, numbered[2].rfind(',')), "2,b8,,grass");
  expect_complaint({"predict", "--run", run(), "--data", rows, "--keep", "idd"},
                   "--keep idd: " + rows + " has no such column; did you mean 'id'?");
}

TEST_F(Predict, AsJson) {
  const std::string rows = file("b.csv", "id,width,length\na7,5,1\nb8,1,6\n");
  const ProgramResult r =
      run_ebb({"predict", "--run", run(), "--data", rows, "--json", "--keep", "id", "--probabilities"});
  ASSERT_EQ(r.code, 0) << r.err;
  const json all = json::parse(r.out);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["row"], 1);
  EXPECT_EQ(all[0]["keep"]["id"], "a7");
  EXPECT_EQ(all[0]["prediction"], "lily");
  EXPECT_EQ(all[0]["probability"], all[0]["probabilities"]["lily"]);
  EXPECT_NEAR(all[1]["probabilities"]["lily"].get<double>() + all[1]["probabilities"]["grass"].get<double>(), 1, 1e-6);
  train({"--data", file("c.csv", "x,y\n1,1.5\n2,2.5\n3,3.5\n4,4.5\n5,5.5\n6,6.5\n"), "--steps", "3"});
  const ProgramResult numbers = run_ebb({"predict", "--run", run(), "--data", file("d.csv", "x\n1\n"), "--json"});
  EXPECT_TRUE(json::parse(numbers.out)[0]["prediction"].is_number()) << numbers.out;
}

TEST_F(Predict, WordsThatTheNetworkDoesNotKnowAreCounted) {
  std::string text = "colour,x,k\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("{},{},{}\n", i % 2 ? "red" : "blue", i % 3, i % 2);
  train({"--data", file("c.csv", text), "--steps", "5"});
  const ProgramResult r =
      run_ebb({"predict", "--run", run(), "--data", file("d.csv", "x,colour\n1,red\n1,green\n1,pink\n1,\n")});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.err, "ebb: note: column 2 (colour): 2 of 4 rows have a word that the network was not trained on\n");
}

// Results that overflow f32 come out as NaN, which is neither a class nor a number.
TEST_F(Predict, ResultsThatAreNotFiniteAreLeftEmpty) {
  const std::string rows = file("b.csv", "width,length\n5,1\n1e300,1\n");
  const ProgramResult csv = run_ebb({"predict", "--run", run(), "--data", rows, "--probabilities"});
  EXPECT_EQ(csv.code, 0) << csv.err;
  EXPECT_NE(csv.out.find("\n2,,,,\n"), std::string::npos) << csv.out;
  EXPECT_EQ(
      csv.err,
      "ebb: note: 1 of 2 predictions are not finite numbers and are left empty, the first that of row 2: its inputs "
      "are too far from those of the training\n");
  const std::string text = run_ebb({"predict", "--run", run(), "--data", rows, "--json"}).out;
  EXPECT_EQ(json::parse(text)[0]["prediction"], "lily");
  EXPECT_NE(text.find("{\"row\":2,\"prediction\":null,\"probability\":null}"), std::string::npos) << text;
}

TEST_F(Predict, ColumnsOfOneNameAreHandedOnUnderTwo) {
  const std::string rows = file("b.csv", "id,width,id,length\na7,5,b9,1\n");
  EXPECT_EQ(predict(rows, {"--keep", "1,3"})[0], "row,id,column 3,prediction,probability");
  const json all = json::parse(run_ebb({"predict", "--run", run(), "--data", rows, "--keep", "1,3", "--json"}).out);
  EXPECT_EQ(all[0]["keep"], (json{{"id", "a7"}, {"column 3", "b9"}}));
  expect_complaint({"predict", "--run", run(), "--data", rows, "--keep", "id"}, "column 1 is called 'id', too");
  expect_complaint({"predict", "--run", run(), "--data", rows, "--keep", "2,2"},
                   "--keep 2: this column was named before");
  expect_complaint({"predict", "--run", run(), "--data", rows, "--keep", ""}, "--keep: a column's name is empty");
}

TEST_F(Predict, PredictionsOfEarlierPredictionsHaveNamesOfTheirOwn) {
  const std::string rows = file("b.csv", "row,width,length,prediction\n7,5,1,lily\n");
  EXPECT_EQ(predict(rows, {"--keep", "row,prediction"})[0], "row,kept row,kept prediction,prediction,probability");
}

TEST_F(Predict, TheResultOfTrainingIsAnObject) {
  const ProgramResult r = run_ebb(
      {"train", "--data", scratch / "a.csv", "--out", scratch / "other", "--steps", "300", "--threads", "1", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const json result = json::parse(r.out);
  EXPECT_EQ(result["run"], scratch / "other");
  EXPECT_EQ(result["accuracy"], 1.0);
  EXPECT_EQ(result["classes"], (json{"grass", "lily"}));
  EXPECT_NE(r.err.find("Training mlp"), std::string::npos);
}

TEST_F(Predict, ExamplesOfEachFileAreCounted) {
  const ProgramResult r =
      train({"--data", scratch / "a.csv", "--test-data", file("t.csv", flowers(30)), "--steps", "3"});
  EXPECT_NE(r.out.find(fmt::format("on 120 examples of {} and 30 of {}: ", scratch / "a.csv", scratch / "t.csv")),
            std::string::npos)
      << r.out;
}

TEST_F(Predict, ARunWithoutAStepIsAnError) {
  for (const Words& wrong : {Words{"--epochs", "0"}, Words{"--steps", "0"}, Words{"--epochs", "-0.5"},
                             Words{"--steps", "-3"}, Words{"--epochs", "nan"}}) {
    const ProgramResult r = run_ebb(Words{"train", "--data", scratch / "a.csv", "--out", scratch / "no"} + wrong);
    EXPECT_EQ(r.code, 2);
    EXPECT_EQ(r.err,
              fmt::format("ebb: {} must be positive, got {}; without it a number is chosen\n", wrong[0], wrong[1]));
    EXPECT_EQ(run_ebb(Words{"train", "--resume", run()} + wrong).code, 2);
  }
  const ProgramResult endless =
      run_ebb({"train", "--data", scratch / "a.csv", "--out", scratch / "no", "--epochs", "inf"});
  EXPECT_EQ(endless.err, "ebb: --epochs must be finite, got inf\n");
  // The settings of a run have both, one of them 0.
  train({"--data", scratch / "a.csv", "--config", file("config.json", R"({"steps": 3, "epochs": 0})")});
}

TEST_F(Predict, TheReportExplainsTheSmoothedTrainingLoss) {
  const std::string report = read_whole(run() + "/report.html");
  EXPECT_NE(report.find("smoothed targets (label-smoothing 0.1): it cannot fall below 0.199"), std::string::npos);
  train({"--data", scratch / "a.csv", "--steps", "3", "--label-smoothing", "0"});
  EXPECT_EQ(read_whole(run() + "/report.html").find("smoothed targets"), std::string::npos);
}

}  // namespace
}  // namespace ebb::program
