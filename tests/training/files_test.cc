// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ebb/error.h"
#include "event_file.h"
#include "run_folder.h"
#include "scratch_folder.h"

// The files of a run folder.
namespace ebb::program {
namespace {

TEST(EventFile, ChecksumsAreCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(""), 0u);
}

// An independent reader: interprets the bytes like TensorBoard.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  std::string_view take(std::size_t n) {
    if (n > rest_.size()) throw std::runtime_error("the bytes end too early");
    const std::string_view head = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return head;
  }
  template <class T>
  T fixed() {
    T value = 0;
    const std::string_view bytes = take(sizeof(T));
    for (std::size_t k = sizeof(T); k-- > 0;) value = static_cast<T>(value << 8 | static_cast<unsigned char>(bytes[k]));
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
  }

 private:
  std::string_view rest_;
};

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version, tag;
  float value = 0;
};

void read_message(std::string_view bytes, int depth, Event& e) {
  for (Reader r(bytes); !r.empty();) {
    const std::uint64_t key = r.varint(), number = key >> 3;
    switch (key & 7) {
      case 0:
        e.step = static_cast<std::int64_t>(r.varint());
        break;
      case 1:
        e.wall_time = std::bit_cast<double>(r.fixed<std::uint64_t>());
        break;
      case 5:
        e.value = std::bit_cast<float>(r.fixed<std::uint32_t>());
        break;
      default: {
        const std::string_view inside = r.take(r.varint());
        if (depth == 0 && number == 3) e.version = inside;
        if (depth == 0 && number == 5) read_message(inside, 1, e);  // summary
        if (depth == 1 && number == 1) read_message(inside, 2, e);  // value
        if (depth == 2 && number == 1) e.tag = inside;
      }
    }
  }
}

std::vector<Event> read_events(const std::string& bytes) {
  std::vector<Event> all;
  for (Reader r(bytes); !r.empty();) {
    const std::string_view length = r.take(8);
    EXPECT_EQ(r.fixed<std::uint32_t>(), masked_crc32c(length));
    const std::string_view message = r.take(Reader(length).fixed<std::uint64_t>());
    EXPECT_EQ(r.fixed<std::uint32_t>(), masked_crc32c(message));
    read_message(message, 0, all.emplace_back());
  }
  return all;
}

MetricRow line(std::int64_t step, bool test, double loss) {
  MetricRow r{step, 0.5 * static_cast<double>(step), test ? Split::test : Split::train, loss};
  r.accuracy = 0.25;
  r.lr = 1e-3;
  r.samples_per_second = 100;
  r.seconds = 2;
  r.time = 1.7e9;
  return r;
}

TEST(EventFile, IsReadBackByAnIndependentReader) {
  ScratchFolder scratch;
  RunFolder folder(scratch / "run");
  folder.begin({{"model", "mlp"}});
  folder.add(line(300, false, 1.5));
  folder.add(line(300, true, 1.25));
  const std::vector<Event> events = read_events(read_whole(folder.file("events.out.tfevents.ebb")));
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  const char* tags[] = {"loss/train",         "accuracy/train", "learning_rate",
                        "samples_per_second", "loss/test",      "accuracy/test"};
  const float values[] = {1.5f, 0.25f, 1e-3f, 100, 1.25f, 0.25f};
  for (std::size_t k = 0; k < 6; ++k) {
    EXPECT_EQ(events[k + 1].tag, tags[k]);
    EXPECT_EQ(events[k + 1].value, values[k]);
    EXPECT_EQ(events[k + 1].step, 300);
    EXPECT_EQ(events[k + 1].wall_time, 1.7e9);
  }
}

TEST(RunFolder, KeepsTheLinesUpToAStepAndDropsAHalfWrittenOne) {
  ScratchFolder scratch;
  RunFolder folder(scratch / "run");
  folder.begin({{"model", "mlp"}});
  for (std::int64_t step = 1; step <= 5; ++step) folder.add(line(step, false, 1.0 / static_cast<double>(step)));
  const std::string lines = read_whole(folder.file("metrics.jsonl"));
  write_whole(folder.file("metrics.jsonl"), lines + R"({"step":6,"epo)");
  write_whole(folder.file("checkpoint.safetensors.0123abcd.tmp"), "half");

  RunFolder again(scratch / "run");
  again.keep_metrics(9);
  EXPECT_EQ(again.metrics().size(), 5u);
  EXPECT_EQ(again.metrics()[2].loss, 1.0 / 3);
  EXPECT_EQ(read_whole(folder.file("metrics.jsonl")), lines);
  EXPECT_FALSE(std::filesystem::exists(folder.file("checkpoint.safetensors.0123abcd.tmp")));
  again.keep_metrics(3);
  EXPECT_EQ(again.metrics().size(), 3u);
  EXPECT_EQ(read_events(read_whole(folder.file("events.out.tfevents.ebb"))).size(), 1u + 3 * 4);
  const std::string table = read_whole(folder.file("metrics.csv"));
  EXPECT_EQ(table,
            "step,epoch,split,loss,accuracy,lr,samples_per_second,seconds,r2,bits_per_byte\n"
            "1,0.5,train,1,0.25,0.001,100,2,,\n"
            "2,1,train,0.5,0.25,0.001,100,2,,\n"
            "3,1.5,train,0.333333333,0.25,0.001,100,2,,\n");
}

TEST(RunFolder, ALossThatIsNoNumberIsReadBack) {
  ScratchFolder scratch;
  RunFolder folder(scratch / "run");
  folder.begin({{"model", "mlp"}});
  folder.add(line(1, false, std::numeric_limits<double>::quiet_NaN()));
  folder.keep_metrics(1);
  ASSERT_EQ(folder.metrics().size(), 1u);
  EXPECT_TRUE(std::isnan(folder.metrics()[0].loss));
}

TEST(RunFolder, ARunTakesThePlaceOfTheOneBeforeWhenItIsEstablished) {
  ScratchFolder scratch;
  {
    RunFolder folder(scratch / "run");
    folder.begin({{"model", "mlp"}});
    folder.add(line(1, false, 1));
    folder.establish();
    write_whole(folder.checkpoint(), "old");
    write_whole(folder.report(), "old");
  }
  const auto old = [&] { return read_whole(scratch / "run/checkpoint.safetensors"); };
  RunFolder again(scratch / "run");
  again.begin({{"model", "cnn"}});
  again.add(line(2, false, 1));
  EXPECT_EQ(old(), "old");
  again.abandon();
  EXPECT_EQ(old(), "old");
  EXPECT_EQ(RunFolder(scratch / "run").read_config().at("model"), "mlp");

  again.begin({{"model", "cnn"}});
  again.add(line(3, false, 1));
  write_whole(again.checkpoint(), "new");
  EXPECT_EQ(old(), "old");
  again.establish();
  EXPECT_EQ(old(), "new");
  EXPECT_FALSE(std::filesystem::exists(again.report()));
  EXPECT_EQ(RunFolder(scratch / "run").read_config().at("model"), "cnn");
  RunFolder after(scratch / "run");
  after.keep_metrics(9);
  ASSERT_EQ(after.metrics().size(), 1u);
  EXPECT_EQ(after.metrics()[0].step, 3);
  EXPECT_THROW(RunFolder(scratch / "elsewhere").read_config(), Error);
}

}  // namespace
}  // namespace ebb::program
