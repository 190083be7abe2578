// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cmath>
#include <thread>

#include "data/dates.h"
#include "data/written_numbers.h"
#include "ebb/ebb.h"
#include "expect_error.h"
#include "io/text_file.h"
#include "scratch_folder.h"

namespace ebb {
namespace {

TEST(Csv, HeadersQuotesMissingValuesAndLineEnds) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  write_whole(path, "\xEF\xBB\xBFheight,\"weight, \"\"kg\"\"\",age\r\n1.5, 2e1 ,\r\n\r\n\"-3\",NA,+4\r\n");
  const Table t = read_csv(path);
  EXPECT_EQ(t.names, (std::vector<std::string>{"height", "weight, \"kg\"", "age"}));
  EXPECT_EQ(t.values.shape(), Shape({2, 3}));
  EXPECT_EQ(t.values.dtype(), DType::f32);
  const std::vector<double> v = t.values.to_vector();
  EXPECT_EQ(v[0], 1.5);
  EXPECT_EQ(v[1], 20);
  EXPECT_TRUE(std::isnan(v[2]));
  EXPECT_EQ(v[3], -3);
  EXPECT_TRUE(std::isnan(v[4]));
  EXPECT_EQ(v[5], 4);
}

// Bytes after the closing quote are not read, even if the file, and perhaps its last page, ends with it.
TEST(Csv, AQuoteMayBeTheLastByteOfAPage) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  const std::string text = "a,b\n1,\"2\"";
  write_whole(path, std::string(4096 - text.size(), '\n') + text);
  EXPECT_EQ(read_csv(path).values.to_vector(), (std::vector<double>{1, 2}));
}

TEST(Csv, ColumnsByNameAndByNumber) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  write_whole(path, "name;a;b\nfoo;1;2\nbar;3;4");
  const Table named = read_csv(path, {.separator = ';', .columns = {"b", "a"}, .dtype = DType::f64});
  EXPECT_EQ(named.values.to_vector(), (std::vector<double>{2, 1, 4, 3}));
  write_whole(path, "1,2,3\n4,5,6\n");
  const Table numbered = read_csv(path, {.columns = {"2"}});
  EXPECT_EQ(numbered.values.to_vector(), (std::vector<double>{3, 6}));
  EXPECT_EQ(read_csv(path, {.header = CsvOptions::Header::yes}).values.to_vector(), (std::vector<double>{4, 5, 6}));
  write_whole(path, "a,b\n");
  EXPECT_EQ(read_csv(path).values.shape(), Shape({0, 2}));
}

TEST(Csv, SemicolonsAndTabsAreFound) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  for (const char* text : {"a;\"b;,,,\"\n1;2\n", "a\tb\n1\t2\n", "a,b\n1,2\n"}) {
    write_whole(path, text);
    EXPECT_EQ(read_csv(path).values.to_vector(), (std::vector<double>{1, 2})) << text;
  }
  write_whole(path, "1\n2\n");
  EXPECT_EQ(read_csv(path).values.shape(), Shape({2, 1}));
}

TEST(Csv, BarsAndTheSeparatorThatAFileNames) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  for (const char* text : {"a|b\n1|2\n", "sep=;\na;b\n1;2\n", "\xEF\xBB\xBFsep=;\r\na;b\r\n1;2\r\n",
                           "sep=!\na!b\n1!2\n", "\n\na;b\n1;2\n", "  \n\na\tb\n1\t2\n"}) {
    write_whole(path, text);
    EXPECT_EQ(read_csv(path).values.to_vector(), (std::vector<double>{1, 2})) << text;
  }
  write_whole(path, "sep=;\n\na;b\n1;x\n2;3\n");
  EXPECT_THROW_KIND(read_csv(path), io, "line 4, column 2 (b): 'x' is not a number");
}

TEST(Csv, BlanksAroundQuotesAndInEmptyLines) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  write_whole(path, "a, \"b, c\" ,d\n 1 , \"2\"\t, \"3\"\n   \n\t\n4,5,6\n  ");
  const Table t = read_csv(path);
  EXPECT_EQ(t.names, (std::vector<std::string>{"a", "b, c", "d"}));
  EXPECT_EQ(t.values.to_vector(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  write_whole(path, "a\tb\n1\t2\n\t\n");  // between tabs there are two fields, both missing
  EXPECT_EQ(read_csv(path).values.shape(), Shape({2, 2}));
}

TEST(Csv, NumbersThatAreNanAreMissingAndThoseOutOfRangeAre0OrInfinite) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  write_whole(path, "a,b\nNAN,1e-400\n-nan,-1e-5\nnan(ind),1e400\nn/a," + std::string(400, '9') + "\n<NA>,-1e999\n");
  const std::vector<double> v = read_csv(path, {.dtype = DType::f64}).values.to_vector();
  ASSERT_EQ(v.size(), 10u);
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ((std::vector<double>{v[1], v[3], v[5], v[7], v[9]}),
            (std::vector<double>{0, -1e-5, infinite, infinite, -infinite}));
  for (std::size_t row = 0; row < 10; row += 2) EXPECT_TRUE(std::isnan(v[row])) << row;
  write_whole(path, "a\nnone\nNAN\nNaturally\n");  // words that begin like it
  EXPECT_EQ(read_csv(path).names, (std::vector<std::string>{"a=Naturally", "a=none"}));
}

TEST(Csv, AFirstLineOfExamplesWithWordsIsNotAHeader) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  write_whole(path, "5.1,setosa\n4.9,setosa\n");
  EXPECT_EQ(read_csv(path, {.columns = {"0"}}).values.shape(), Shape({2, 1}));
  write_whole(path, "width,kind\n5.1,setosa\n");
  EXPECT_EQ(read_csv(path, {.columns = {"width"}}).values.shape(), Shape({1, 1}));
  write_whole(path, "2019,kind\n5.1,setosa\n");  // a number above a number says nothing, a word above a word neither
  EXPECT_EQ(read_csv(path, {.columns = {"0"}}).values.shape(), Shape({2, 1}));
}

TEST(Csv, ErrorsNameLineAndColumn) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  write_whole(path, "a,b\n1,2\n\"multi\nline\",3\n");
  EXPECT_THROW_KIND(read_csv(path), io, path + ": line 3, column 1 (a): 'multi\nline' is not a number");
  write_whole(path, "a,b\n1,2\n3,x\n");
  EXPECT_THROW_KIND(read_csv(path), io, "line 3, column 2 (b): 'x' is not a number");
  write_whole(path, "a,b\n1,2\n3\n");
  EXPECT_THROW_KIND(read_csv(path), io, "line 3, column 2 (b): the field is missing; this line has 1 fields");
  write_whole(path, "a,b\n1,2\n3,4,5\n");
  EXPECT_THROW_KIND(read_csv(path), io, "line 3, column 3: one field too many; this line has 3 fields");
  write_whole(path,
              "\xFF\xFE"
              "a");
  EXPECT_THROW_KIND(read_csv(path), io, "this is UTF-16, not text; save the file as UTF-8");
  write_whole(path, "a,b\n1,\"2\n");
  EXPECT_THROW_KIND(read_csv(path), io, "line 2, column 2: the quoted field has no end");
  write_whole(path, "a,b\n1,\"2\"x\n");
  EXPECT_THROW_KIND(read_csv(path), io, "line 2, column 2: 'x' follows the closing quote");
  write_whole(path, "a,b\n1,2\n");
  EXPECT_THROW_KIND(read_csv(path, {.columns = {"c"}}), io, "there is no column 'c'; there are: a, b");
  write_whole(path, "a,b,a\n1,2,3\n");
  EXPECT_THROW_KIND(read_csv(path, {.columns = {"a"}}), io,
                    "columns 1 and 3 are both called 'a'; give each its own name");
  EXPECT_EQ(read_csv(path, {.columns = {"b"}}).values.item(), 2);
  write_whole(path, "a,b\n1,2\n");
  EXPECT_THROW_KIND(read_csv(path, {.header = CsvOptions::Header::no}), io, "line 1, column 1: 'a' is not a number");
  EXPECT_THROW_MESSAGE(read_csv(path, {.dtype = DType::i64}), "i64 cannot hold missing values");
  write_whole(path, "");
  EXPECT_THROW_KIND(read_csv(path), io, "the file is empty");
}

TEST(Csv, WordsAndDatesAreColumnsOfNumbers) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  write_whole(path, "colour,when,x\nred,1970-01-03,1\nblue,1970-01-02T12:00,2\n,NA,3\nred,1969-12-31,4\n");
  const Table t = read_csv(path);
  EXPECT_EQ(t.names, (std::vector<std::string>{"colour=blue", "colour=red", "when", "x"}));
  const std::vector<double> v = t.values.to_vector();
  ASSERT_EQ(v.size(), 16u);
  EXPECT_EQ(std::vector<double>(v.begin(), v.begin() + 10), (std::vector<double>{0, 1, 2, 1, 1, 0, 1.5, 2, 0, 0}));
  EXPECT_TRUE(std::isnan(v[10]));
  EXPECT_EQ(v[14], -1);
  EXPECT_EQ(read_csv(path, {.columns = {"x", "colour"}}).names,
            (std::vector<std::string>{"x", "colour=blue", "colour=red"}));
  std::string names = "name,x\n";
  for (int i = 0; i < 100; ++i) names += "n" + std::to_string(i) + ",1\n";
  write_whole(path, names);
  EXPECT_THROW_KIND(read_csv(path), io,
                    "'n0' is one of more than 64 different words, too many to learn from; read other");
  EXPECT_EQ(read_csv(path, {.columns = {"x"}}).values.shape(), Shape({100, 1}));
}

TEST(Csv, DecimalCommasAreFoundBetweenOtherSeparators) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  const auto numbers = [&](const std::string& text, const CsvOptions& o = {.dtype = DType::f64}) {
    write_whole(path, text);
    return read_csv(path, o).values.to_vector();
  };
  const std::vector<double> two{1.5, -2.25e-3};
  EXPECT_EQ(numbers("a;b\n1,5;-2,25e-3\n"), two);
  EXPECT_EQ(numbers("1,5;-2,25e-3\n"), two);  // as many commas as semicolons and more
  EXPECT_EQ(numbers("a\tb\n1,5\t-2,25e-3\n"), two);
  EXPECT_EQ(numbers("a;b\n1.5;-2.25e-3\n"), two);
  EXPECT_EQ(numbers("a;b\n\"1,5\";\"-2,25e-3\"\n"), two);
  EXPECT_EQ(numbers("a,b\n\"1,5\",\"-2,25e-3\"\n", {.decimal = ',', .dtype = DType::f64}), two);
  EXPECT_EQ(numbers("1,2;3\n4,5;6\n", {.separator = ';', .dtype = DType::f64}), (std::vector<double>{1.2, 3, 4.5, 6}));
  EXPECT_THROW_MESSAGE(numbers("a;b\n1.5;1\n2.5;1,5\n"), "'1,5' is not a number: it has a decimal comma");
  EXPECT_THROW_MESSAGE(numbers("a;b\n1;2\n", {.decimal = '!'}), "decimal must be '.' or ',', got '!'");
}

TEST(Csv, AmountsAreNumbersWithThousandsUnitsOrParentheses) {
  const auto value = [](std::string_view field, char decimal = '.') {
    const std::optional<Amount> amount = amount_of(field, decimal);
    return amount ? fmt::format("{} {}", amount->value, amount->unit) : "none";
  };
  for (const char* field : {"1,234.5", "1 234.5", "1\u00A0234.5", "1\u202F234.5", "1'234.5", "1’234.5"}) {
    EXPECT_EQ(value(field), "1234.5 ") << field;
  }
  EXPECT_EQ(value("1.234,5"), "1234.5 ");  // both marks: the last one is the decimal one, in any file
  EXPECT_EQ(value("1,234.5", ','), "1234.5 ");
  EXPECT_EQ(value("1,234"), "1234 ");
  EXPECT_EQ(value("1.234", ','), "1234 ");
  EXPECT_EQ(value("12,345,678"), "12345678 ");
  for (const char* field : {"$1,234.50", "$ 1,234.50", "1,234.50$", "1,234.50 $"}) EXPECT_EQ(value(field), "1234.5 $");
  EXPECT_EQ(value("5,50 €", ','), "5.5 €");
  EXPECT_EQ(value("EUR 7"), "7 EUR");
  for (const char* field : {"-12.5 %", "-12.5%", "−12.5\u00A0%", "(12.5%)", "%-12.5"})
    EXPECT_EQ(value(field), "-12.5 %");
  EXPECT_EQ(value("(1,234)"), "-1234 ");
  EXPECT_EQ(value("−3"), "-3 ");
  EXPECT_EQ(value(".5%"), "0.5 %");
  for (const char* plain : {"1", "-1.5", "+2", "1e5", "", ".", "-"}) EXPECT_EQ(value(plain), "none") << plain;
  for (const char* word :
       {"1,23", "1,2345", "0,123", "012 345",     "1,234,56",  "1,234 567", "1234,567", ",123",  "$",
        "%",    "5 kg",   "$5%",   "5$ %",        "1.2.3",     "$1,23",     "(-5)",     "((5))", "12 % of",
        "1 2",  "--5%",   "$--5",  "192.168.1.1", "1.234,5,6", "EURO 5",    "1e3%",     "0x10 %"}) {
    EXPECT_EQ(value(word), "none") << word;
  }
  EXPECT_EQ(value("5,50 €"), "none");
}

TEST(Csv, ColumnsOfAmountsInOneUnitAreNumbers) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv";
  const auto numbers = [&](const std::string& text) {
    write_whole(path, text);
    return read_csv(path, {.dtype = DType::f64}).values.to_vector();
  };
  EXPECT_EQ(numbers("a,b\n\"1,234\",12 %\n987,0\n\"(5,000)\",3.5 %\n"),
            (std::vector<double>{1234, 12, 987, 0, -5000, 3.5}));
  EXPECT_EQ(numbers("\"$1,234.50\",1\n$2,2\n"), (std::vector<double>{1234.5, 1, 2, 2}));  // and is no header
  EXPECT_EQ(numbers("a;b\n1.234,50 €;1,5\n7 €;2\n"), (std::vector<double>{1234.5, 1.5, 7, 2}));
  EXPECT_EQ(numbers("a;b\n1.234,50;1\n1.000;2\n999,50;3\n"), (std::vector<double>{1234.5, 1, 1000, 2, 999.5, 3}));
  EXPECT_EQ(numbers("a,b\n\"1.234,50\",1\n\"999,50\",2\n"), (std::vector<double>{1234.5, 1, 999.5, 2}));
  EXPECT_EQ(numbers("a;b\n5,50 €;1\n7 €;2\n"), (std::vector<double>{5.5, 1, 7, 2}));
  EXPECT_EQ(numbers("a;b\n1,234.50;1\n1.5;2\n"), (std::vector<double>{1234.5, 1, 1.5, 2}));
  EXPECT_THROW_MESSAGE(numbers("a,b\n12 %,1\n0.5,2\n"),
                       "line 2, column 1 (a): '12 %' is not a number without a unit, as '0.5' is");
  EXPECT_THROW_MESSAGE(numbers("a,b\n$5,1\n$6,2\n€7,3\n"), "line 4, column 1 (a): '€7' is not a number like '$5'");
  EXPECT_THROW_MESSAGE(numbers("a,b\n\"1,234\",1\n\"2,345\",2\nmany,3\n"),
                       "line 4, column 1 (a): 'many' is not a number like '1,234'");
  write_whole(path, "size,n\nS,1\nM,2\nL,3\n$5,4\n");  // words all the same
  EXPECT_EQ(read_csv(path).names, (std::vector<std::string>{"size=$5", "size=L", "size=M", "size=S", "n"}));
}

TEST(Csv, GzippedAndThroughAPipe) {
  const ScratchFolder folder;
  const std::string path = folder / "a.csv", pipe = folder / "pipe";
  const std::string text = "a,b\n1,2\n3,4\n";
  const gzFile out = ::gzopen(path.c_str(), "wb");
  ::gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  ::gzclose(out);
  const std::vector<double> numbers{1, 2, 3, 4};
  EXPECT_EQ(read_csv(path).values.to_vector(), numbers);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  for (const std::string& bytes : {text, read_whole(path)}) {
    std::thread writer([&] { write_whole(pipe, bytes); });
    EXPECT_EQ(read_csv(pipe).values.to_vector(), numbers);
    writer.join();
  }
  EXPECT_THROW_KIND(read_csv("/dev/zero"), io, "/dev/zero: this is not text: byte 0 is zero");
}

TEST(Csv, DatesOfEveryOrder) {
  using enum DateOrder;
  EXPECT_EQ(days_of("1970-01-01", year_first), 0);
  EXPECT_EQ(days_of("2024-02-29", year_first), 19782);
  EXPECT_EQ(days_of("2024/2/29", year_first), 19782);
  EXPECT_EQ(days_of("29.2.2024", day_first), 19782);
  EXPECT_EQ(days_of("29/02/2024", day_first), 19782);
  EXPECT_EQ(days_of("2/29/2024", month_first), 19782);
  EXPECT_EQ(days_of("2024-02-29 06:00", year_first), 19782.25);
  EXPECT_EQ(days_of("2024-02-29T18:00:00Z", year_first), 19782.75);
  EXPECT_EQ(days_of("2024-02-29T18:00:00.000+06:00", year_first), 19782.5);
  EXPECT_EQ(days_of("2024-02-28T21:00-0300", year_first), 19782);
  EXPECT_EQ(days_of("2024-02-29 06:00:00 UTC", year_first), 19782.25);
  EXPECT_EQ(days_of("2024-02-29 06:00:00 +0600", year_first), 19782);
  for (const char* named : {"29-Feb-2024", "29 Feb 2024", "29 february 2024", "29/FEB/2024", "29.Feb.2024"}) {
    EXPECT_EQ(days_of(named, day_first), 19782) << named;
    EXPECT_FALSE(days_of(named, month_first)) << named;
  }
  for (const char* named : {"Feb 29, 2024", "February 29 2024", "feb-29-2024"}) {
    EXPECT_EQ(days_of(named, month_first), 19782) << named;
    EXPECT_FALSE(days_of(named, day_first)) << named;
  }
  EXPECT_EQ(days_of("2024-Feb-29", year_first), 19782);
  for (const char* brief : {"29.2.24", "29/02/24", "29-Feb-24", "29/Feb/24 00:00"}) {
    EXPECT_EQ(days_of(brief, day_first), 19782) << brief;
  }
  EXPECT_EQ(days_of("2/29/24 6:00 PM", month_first), 19782.75);
  EXPECT_EQ(days_of("1/1/70", month_first), 0);
  EXPECT_EQ(days_of("12/31/69", month_first), -1);
  EXPECT_EQ(days_of("1/1/68", month_first), 35794);
  for (const char* either : {"29-02-24", "24-02-29", "29 Feb 24", "29.2.9", "29/2/024"}) {
    EXPECT_FALSE(days_of(either, day_first)) << either;
  }
  EXPECT_EQ(days_of("2/29/2024 06:00 PM", month_first), 19782.75);
  EXPECT_EQ(days_of("2/29/2024, 6:00:00 pm", month_first), 19782.75);
  EXPECT_EQ(days_of("29 Feb 2024 12:00am", day_first), 19782);
  EXPECT_EQ(days_of("29 Feb 2024 12:30 PM GMT", day_first), 19782 + 12.5 / 24);
  for (const char* wrong :
       {"2023-02-29", "2024-13-01", "2024-02", "24-02-29", "2024-02-29x", "2024-02-29T", "2024-02-29 25:00",
        "2024-02-29 1:5", "2024-02-29 10:00:00.", "2024-02/29", "", "2024.02.29", "2024-02-29T10:00+"}) {
    EXPECT_FALSE(days_of(wrong, year_first)) << wrong;
  }
  for (const char* wrong :
       {"2/29/2024 13:00 PM", "2/29/2024 0:30 AM", "2 29 2024", "2/29/2024,6:00", "Febr 29, 2024", "Feb 29/2024",
        "Feb 30, 2024", "29 2024", "Feb", "Feb 29, 24", "2/29/2024 6:00 XM", "2/29, 2024"}) {
    EXPECT_FALSE(days_of(wrong, month_first)) << wrong;
  }
  EXPECT_FALSE(days_of("29/02/2024", month_first));
  EXPECT_FALSE(days_of("2.29.2024", month_first));
}

TEST(Csv, TheFirstByteThatIsNotUtf8IsFound) {
  for (const char* text :
       {"", "plain", "gr\xC3\xBCn", "\xE2\x82\xAC", "\xF0\x9F\x8C\x8A", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(io::find_invalid_utf8(text), std::string::npos) << text;
  }
  for (const char* text : {"gr\xFCn", "ab\xC3", "ab\xC0\x80", "ab\xE0\x80\x80", "ab\xED\xA0\x80", "ab\xF4\x90\x80\x80",
                           "ab\x80", "ab\xF0\x9F\x8C"}) {
    EXPECT_EQ(io::find_invalid_utf8(text), 2u) << text;
  }
}

}  // namespace
}  // namespace ebb
