// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "ebb/io.h"
#include "ebb/ops/create.h"
#include "tables.h"

// CSV files as found in practice: large numbers, other alphabets and countries, compressed, or not CSV at all.
namespace ebb::program {
namespace {

class OddTables : public Tables {
 protected:
  void expect_note(const ProgramResult& r, const std::string& text) const {
    EXPECT_NE(r.out.find("Note: " + text + ".\n"), std::string::npos) << r.out;
  }
  // Compressed as by gzip.
  std::string packed(const std::string& name, const std::string& text) const {
    const gzFile out = ::gzopen((scratch / name).c_str(), "wb");
    EXPECT_EQ(::gzwrite(out, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    ::gzclose(out);
    return scratch / name;
  }
  void expect_refusal(const std::string& name, const std::string& bytes, const std::string& part,
                      const Words& more = {}) const {
    const std::string path = file(name, bytes);
    expect_complaint(Words{"train", "--out", run(), "--data", path} + more, path + ": " + part);
    EXPECT_FALSE(std::filesystem::exists(run()));
  }
};

// A time in milliseconds, four digits of which f32 cannot hold. The class changes every 50 rows.
TEST_F(OddTables, AColumnIsCentredBeforeItIsRounded) {
  const auto rows = [](double first, double step) {
    std::string text = "time,half\n";
    for (int i = 0; i < 400; ++i) text += fmt::format("{:.0f},{}\n", first + step * i, i < 200 ? "early" : "late");
    return text;
  };
  train({"--data", file("a.csv", rows(1.7e12, 100)), "--steps", "400"});
  const double large = evaluate({"--data", scratch / "a.csv"})["accuracy"];
  const auto early = predict(file("b.csv", "time\n1700000000000\n1700000010000\n1700000030000\n"));
  EXPECT_EQ(early[1].substr(0, 7), "1,early");
  EXPECT_EQ(early[3].substr(0, 6), "3,late");
  train({"--data", file("c.csv", rows(0, 1)), "--steps", "400"});
  EXPECT_NEAR(large, evaluate({"--data", scratch / "c.csv"})["accuracy"].get<double>(), 0.01);
  EXPECT_GT(large, 0.97);
}

// A table whose name does not say so was read as text, and a gpt was trained on it.
TEST_F(OddTables, AFileWithATargetIsATableWhateverItsName) {
  const ProgramResult r = train({"--data", file("flowers.txt", flowers(60)), "--target", "species", "--steps", "2"});
  EXPECT_NE(r.out.find("Predicting species from 2 inputs: 2 classes"), std::string::npos) << r.out;
  const Words start{"train", "--out", scratch / "other", "--steps", "1", "--data"};
  expect_complaint(start + Words{"digits", "--target", "species"}, "--target species is for CSV files, not for digits");
  expect_complaint(start + Words{"tales", "--ignore", "a,b"}, "--ignore a,b is for CSV files, not for tales");
  expect_complaint(start + Words{"digits", "--task", "regression"},
                   "--task regression is for CSV files, not for digits");
  expect_complaint(start + Words{scratch / "flowers.txt", "--model", "gpt", "--missing", "-"},
                   "--missing - is for CSV files");
}

// A pipe is empty when it is read again: training waited forever for someone to write.
TEST_F(OddTables, PipesAreRefused) {
  const std::string pipe = scratch / "pipe.csv";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_complaint({"train", "--out", run(), "--data", pipe},
                   pipe + ": a pipe or device is read only once; save the data");
  expect_complaint({"train", "--out", run(), "--data", file("a.csv", flowers(60)), "--test-data", pipe},
                   "is read only once");
}

TEST_F(OddTables, TheTargetIsCentredBeforeItIsRounded) {
  std::string text = "x,when\n";
  for (int i = 0; i < 400; ++i) text += fmt::format("{},{:.0f}\n", 0.01 * i, 1.7e12 + 100.0 * i);
  train({"--data", file("a.csv", text), "--steps", "600"});
  EXPECT_GT(evaluate({})["r2"], 0.95);
}

TEST_F(OddTables, ColumnsThatF32CannotHoldAreNamed) {
  std::string text = "id,far,k\n";
  for (int i = 0; i < 300; ++i) text += fmt::format("{}{:03},{},{}\n", "1700000000000000", i, i == 7 ? 1e15 : i, i % 2);
  const ProgramResult r = train({"--data", file("a.csv", text), "--steps", "5"});
  expect_note(r, "column 1 (id) has whole numbers up to 1.7e+18, which are rounded to multiples of 256");
  EXPECT_NE(r.out.find("Note: column 2 (far): "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("different values are equal in f32"), std::string::npos) << r.out;
}

TEST_F(OddTables, DecimalCommasAreNumbers) {
  std::string text = flowers(120, ';');
  std::replace(text.begin(), text.end(), '.', ',');
  for (const std::string& version : {text, text.substr(text.find('\n') + 1)}) {  // with a header, and without
    const ProgramResult r = train({"--data", file("a.csv", version), "--steps", "300"});
    expect_note(r, "numbers have decimal commas");
    EXPECT_NE(r.out.find("from 2 inputs: 2 classes"), std::string::npos) << r.out;
    EXPECT_EQ(evaluate({})["accuracy"], 1.0);
  }
  train({"--data", file("a.csv", text), "--steps", "300"});
  // A network does not care how the numbers of another file are written.
  EXPECT_EQ(predict(file("b.csv", "length;width\n1,05;5,2\n"))[1],
            predict(file("c.csv", "length,width\n1.05,5.2\n"))[1]);
  const ProgramResult both = run_ebb(
      {"train", "--out", run(), "--overwrite", "--data", file("d.csv", "x;y;k\n1.5;1;a\n2.5;2,5;b\n3.5;2;a\n")});
  EXPECT_NE(
      both.err.find("d.csv: line 3, column 2 (y): '2,5' is not a number: it has a decimal comma, and other numbers"),
      std::string::npos)
      << both.err;
}

TEST_F(OddTables, CommasInQuotesThatAreNotThousandsAreNamed) {
  const ProgramResult r =
      train({"--data", file("a.csv", "x,k\n\"1,23\",a\n\"5,67\",b\n\"1,23\",a\n\"5,67\",b\n"), "--steps", "3"});
  expect_note(r, "column 1 (x) holds words such as '1,23', which would be numbers without the comma");
}

TEST_F(OddTables, NumbersWithUnitsAndThousandsAreReadAndNamed) {
  std::string text = "rent,share,price\n";
  for (int i = 0; i < 200; ++i) {
    text += fmt::format("\"{},{:03}\",{} %,\"${},{:03}.50\"\n", 1 + i % 9, i, i % 40, 1 + i % 9, i);
  }
  const ProgramResult r = train({"--data", file("a.csv", text), "--steps", "600"});
  expect_note(r, "column 1 (rent) holds numbers such as '1,000', which is read as 1000");
  expect_note(r, "column 2 (share) holds numbers such as '0 %', which is read as 0");
  expect_note(r, "the target holds numbers such as '$1,000.50', which is read as 1000.5");
  EXPECT_NE(r.out.find("Predicting price from 2 inputs: regression"), std::string::npos) << r.out;
  EXPECT_GT(evaluate({})["r2"], 0.95);
  // A network does not care how the numbers of another file are written, but for their unit.
  EXPECT_EQ(predict(file("b.csv", "rent,share\n\"3,100\",20 %\n")), predict(file("c.csv", "share,rent\n20,3100\n")));
  expect_complaint({"predict", "--run", run(), "--data", file("d.csv", "rent,share\n$5,20\n")},
                   "d.csv: line 2, column 1 (rent): '$5' is not a number");
  EXPECT_GT(evaluate({"--data", file("e.csv", "rent,share,price\n3100,20,\"$3,100.50\"\n8100,5,8100.5\n")})["r2"], 0.9);
  const ProgramResult same = train({"--data", file("f.csv", "x,y,k\n5 %,1,a\n5 %,2,b\n5 %,3,a\n"), "--steps", "3"});
  expect_note(same, "column 1 (x) is the same in every row and is left out");
}

TEST_F(OddTables, AWordAmongTheNumbersOfTheTargetIsNamed) {
  std::string text = "x,price\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("{},{}\n", i, i == 40 ? "ask" : fmt::format("{}.5", i));
  expect_refusal("a.csv", text,
                 "line 42, column 2 (price): 'ask' is not a number like other values of the target; correct it, leave "
                 "the row out, or choose --task classification");
  expect_refusal("a.csv", text, "line 42, column 2 (price): 'ask' is not a number, as --task regression needs them",
                 {"--task", "regression"});
  train({"--data", scratch / "a.csv", "--task", "classification", "--steps", "3"});
}

TEST_F(OddTables, DatesAreDays) {
  std::string text = "when,kind\n";
  for (int i = 0; i < 200; ++i)
    text += fmt::format("{}.{}.{},{}\n", 1 + i % 28, 1 + i % 12, i < 100 ? 2001 : 2019, i < 100);
  const ProgramResult r = train({"--data", file("a.csv", text), "--steps", "300"});
  expect_note(r, "column 1 (when) holds dates, which are read as days since 1970");
  EXPECT_NE(r.out.find("from 1 input:"), std::string::npos) << r.out;
  EXPECT_EQ(evaluate({})["accuracy"], 1.0);
  EXPECT_EQ(predict(file("b.csv", "when\n31.12.2000\n"))[1].substr(0, 6), "1,true");
  expect_complaint({"predict", "--run", run(), "--data", file("c.csv", "when\n2001-12-31\n")},
                   "c.csv: line 2, column 1 (when): '2001-12-31' is not a date like the others");
}

TEST_F(OddTables, MissingValuesAreCounted) {
  const ProgramResult r = train({"--data", file("a.csv", "x,c,k\n1,u,a\n,v,b\n2,,a\nNA,u,b\n3,v,a\n"), "--steps", "3"});
  expect_note(r, "column 1 (x): 2 of 5 values are missing and are filled with the mean of the training data");
  expect_note(r, "column 2 (c): 1 of 5 values are missing");
}

TEST_F(OddTables, EmptyAndConstantColumnsAreLeftOutAndNamed) {
  const ProgramResult r =
      train({"--data", file("a.csv", "x,notes,unit,k\n1,,cm,a\n2,,cm,b\n1,,cm,a\n2,,cm,b\n1,,cm,a\n"), "--steps", "3"});
  expect_note(r, "column 2 (notes) is empty in every row and is left out");
  expect_note(r, "column 3 (unit) is the same in every row and is left out");
  EXPECT_NE(r.out.find("from 1 input:"), std::string::npos) << r.out;
  EXPECT_EQ(predict(file("b.csv", "x\n1\n")).size(), 2u);
  std::filesystem::remove_all(run());
  expect_refusal("c.csv", "x,notes,k\n1,,a\n1,,b\n1,,a\n", "no column is left to learn from");
}

TEST_F(OddTables, WhatElseStandsForAMissingValueIsSaid) {
  const std::string text = "x,c,k\n1,u,a\n-,None,b\n2,u,a\nNone,v,b\n3,v,a\n";
  expect_refusal("a.csv", text,
                 "line 3, column 1 (x): '-' is not a number; correct it, name it in --missing, or --ignore the column");
  const ProgramResult r = train({"--data", scratch / "a.csv", "--missing", "None,-", "--steps", "3"});
  expect_note(r, "column 1 (x): 2 of 5 values are missing and are filled with the mean of the training data");
  EXPECT_NE(r.out.find("from 3 inputs"), std::string::npos) << r.out;  // x, c=u, c=v
  // The network remembers it, and so does a continued run.
  EXPECT_EQ(predict(file("b.csv", "x,c\n-,u\n1,None\n")).size(), 3u);
  const ProgramResult more = run_ebb({"train", "--resume", run(), "--steps", "5"});
  EXPECT_EQ(more.code, 0) << more.err;
}

TEST_F(OddTables, ColumnsThatNameOrNumberTheRowsAreNoted) {
  std::string text = "number,name,x,k\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("{},n{},{},{}\n", i + 7, i, i % 3, i % 2);
  const ProgramResult r = train({"--data", file("a.csv", text), "--steps", "3"});
  expect_note(r, "column 1 (number) counts up by one from row to row; --ignore it if it only numbers them");
  expect_note(r,
              "column 2 (name) has 40 different words in 40 rows, such as 'n0', each of which is an input; --ignore it "
              "if it names the rows");
  EXPECT_EQ(r.out.find("column 3"), std::string::npos) << r.out;
  expect_note(train({"--data", scratch / "a.csv", "--ignore", "number", "--target", "name", "--steps", "3"}),
              "the target, column 2 (name), has 40 different words in 40 rows: what a class has in common can be "
              "learned only where it has several");
}

TEST_F(OddTables, LinesMayEndWithSeparators) {
  std::string text = flowers(120), longer;
  for (char c : text) longer += c == '\n' ? std::string(",,\n") : std::string(1, c);
  const ProgramResult r = train({"--data", file("a.csv", longer), "--steps", "300"});
  EXPECT_NE(r.out.find("Predicting species from 2 inputs"), std::string::npos) << r.out;
  expect_note(r, "column 4 is empty in every row and is left out");
  EXPECT_EQ(evaluate({})["accuracy"], 1.0);
}

TEST_F(OddTables, ColumnsOfOneNameAreRefusedWhereTheyAreRead) {
  expect_refusal("a.csv", "x,x,k\n1,2,a\n2,1,b\n",
                 "line 1, column 2: column 1 is called 'x', too; give each its own name");
  expect_refusal("b.csv", ",,k\n1,2,a\n2,1,b\n", "line 1, column 2: column 1 is without a name, too");
  train({"--data", file("c.csv", "note,note,x,k\n,,1,a\n,,2,b\n,,3,a\n,,4,b\n"), "--steps", "3"});  // empty, left out
  EXPECT_EQ(predict(file("d.csv", "note,note,x\n1,1,1\n")).size(), 2u);
  expect_complaint({"predict", "--run", run(), "--data", file("e.csv", "x,x\n1,2\n")}, "column 1 is called 'x', too");
}

TEST_F(OddTables, NumbersThatDifferInLaterDigitsThanAreReadAreNamed) {
  std::string text = "id,x,k\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("10000000000000000000000{:02},{},{}\n", i, i % 3, i % 2);
  expect_note(train({"--data", file("a.csv", text), "--steps", "3"}),
              "column 1 (id) is the same in every row, in the 16 digits that are read, and is left out");
}

TEST_F(OddTables, AFileWithoutAHeaderIsNamedAndOneColumnTellsWhatDividesThem) {
  expect_refusal("a.csv", "x y k\n1 2 a\n",
                 "line 1, column 1: one column is the target, so there must be at least two, not 1 ('x y k'); "
                 "columns are divided by commas, semicolons, tabs or |");
  expect_note(train({"--data", file("DATA.CSV", flowers(60, ',', false)), "--steps", "3"}),
              "the first line is an example and no header, so columns go by their numbers");
}

TEST_F(OddTables, ATargetOfOneValueIsRefused) {
  expect_refusal(
      "a.csv", "x,k\n1,lily\n2,lily\n3,lily\n",
      "the target, column 2 (k), is 'lily' in every row: there is nothing to learn; choose another --target");
  expect_refusal("a.csv", "x,k\n1,5\n2,5.0\n3,5\n", "the target, column 2 (k), is '5' in every row",
                 {"--task", "regression"});
}

TEST_F(OddTables, PackedFilesAreRead) {
  train({"--data", packed("a.csv.gz", flowers(120)), "--steps", "300"});
  EXPECT_EQ(evaluate({})["accuracy"], 1.0);
  EXPECT_EQ(predict(packed("b.csv.gz", "length,width\n1,5\n6,1\n")).size(), 3u);
  std::string tale;
  for (int i = 0; i < 200; ++i) tale += fmt::format("Wave {} came in and wave {} went out.\n", i, i + 1);
  const ProgramResult text = run_ebb(tiny_run(scratch / "gpt",
                                              {"--data", packed("tale.txt.gz", tale), "--steps", "2", "--width", "8",
                                               "--heads", "2", "--layers", "1", "--context", "16"},
                                              "gpt"));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find(fmt::format("{} characters", tale.size())), std::string::npos) << text.out;
}

TEST_F(OddTables, WhatIsNotTextIsRefused) {
  using namespace std::string_literals;
  const std::string archive = "PK\x03\x04\x14\0\0\0\x08\0"s + std::string(100, '\x01');
  for (const char* name : {"book.xlsx", "book.csv", "book"}) {
    expect_refusal(name, archive, "this is a ZIP archive, not text; save a spreadsheet as CSV, unpack anything else");
  }
  expect_refusal("a.txt", "words\0words"s, "this is not text: byte 5 is zero");
  expect_refusal("a.csv", "x,k\n1,\0\n"s, "this is not text: byte 6 is zero");
  expect_refusal("a.txt", std::string(1000, '\x02'), "this is not text: it is full of control characters");
  expect_refusal("a.txt", "\xFF\xFEh\0i\0"s, "this is UTF-16, not text; save the file as UTF-8");
  expect_refusal("b.csv.gz", read_whole(packed("b.csv.gz", flowers(50))).substr(0, 60),
                 "the compressed data is damaged: it ends too early");
  expect_refusal("c.csv", "PAR1,k\n1,\n2,\n", "line 2, column 2 (k): the target is missing");  // a name like any other
}

TEST_F(OddTables, AnotherAlphabetThanUtf8IsNamedWithItsPlace) {
  expect_refusal("a.csv", "h\xF6he,k\n1,a\n2,b\n",
                 "line 1, byte 2: 0xF6 is not UTF-8; convert the file, for example from Latin-1 by "
                 "`iconv -f latin1 -t utf-8`");
  expect_refusal("a.csv", "x,k\n1,a\n2,gr\xFCn\n", "line 3, byte 5: 0xFC is not UTF-8");
  train({"--data", file("b.csv", "höhe,k\n1,grün\n2,日本\n1,grün\n2,日本\n1,grün\n"), "--steps", "3"});
}

// Before 1.0 the network itself centred numbers already rounded to f32. Such a model still works that way.
TEST_F(OddTables, OlderModelsScaleTheirInputsThemselves) {
  train({"--data", file("a.csv", flowers(120)), "--steps", "300"});
  const auto lines = predict(file("b.csv", "width,length\n5,1\n1,6\n"));
  const std::string path = run() + "/checkpoint.safetensors";
  io::Checkpoint c = io::load_checkpoint(path);
  nlohmann::json facts = nlohmann::json::parse(c.metadata.at("facts"));
  for (const char* name : {"mean", "scale"}) {
    const auto values = facts.at(std::string(name) == "mean" ? "centre" : name).get<std::vector<double>>();
    c.parameters.at(std::string("input.") + name) = tensor_from(values, {2}, DType::f32);
  }
  facts.erase("centre");
  facts.erase("scale");
  for (auto& column : facts["table"]["columns"]) column.erase("dates");
  c.metadata["facts"] = facts.dump();
  io::save_checkpoint(path, c);
  const auto old = predict(scratch / "b.csv");
  ASSERT_EQ(old.size(), lines.size());
  for (std::size_t k = 1; k < old.size(); ++k) {
    const std::size_t end = lines[k].rfind(',');
    EXPECT_EQ(old[k].substr(0, end), lines[k].substr(0, end));
    EXPECT_NEAR(std::stod(old[k].substr(end + 1)), std::stod(lines[k].substr(end + 1)), 1e-4);
  }
  // Also when it continues learning.
  const ProgramResult r = run_ebb({"train", "--resume", run(), "--steps", "302"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(evaluate({})["accuracy"], 1.0);
}

}  // namespace
}  // namespace ebb::program
