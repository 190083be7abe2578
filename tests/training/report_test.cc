#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "ebb/data/readers.h"
#include "ebb/ops.h"
#include "scratch_folder.h"
#include "tiny_run.h"

// The report, opened in a browser.
namespace ebb::program {
namespace {

ProgramResult browse(const ScratchFolder& scratch, const std::string& page, std::vector<std::string> what) {
  std::vector<std::string> words{"chromium",
                                 "--headless=new",
                                 "--no-sandbox",
                                 "--disable-gpu",
                                 "--disable-dev-shm-usage",
                                 "--hide-scrollbars",
                                 "--enable-logging=stderr",
                                 "--user-data-dir=" + scratch / "browser",
                                 "--window-size=1280,2400"};
  words.insert(words.end(), what.begin(), what.end());
  words.push_back("file://" + page);
  ProgramResult r = run_program(words);
  EXPECT_EQ(r.code, 0) << r.err;
  return r;
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size())) ++n;
  return n;
}

// What stands between the tags of the element with this id; our sections are not nested.
std::string section(const std::string& dom, const std::string& id) {
  const std::size_t from = dom.find("<section id=\"" + id + "\"");
  if (from == std::string::npos) return {};
  return dom.substr(from, dom.find("</section>", from) - from);
}

std::string attribute(const std::string& tag, const std::string& name) {
  const std::size_t at = tag.find(name + "=\"");
  const std::size_t from = at + name.size() + 2;
  return at == std::string::npos ? "" : tag.substr(from, tag.find('"', from) - from);
}

class Report : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch = new ScratchFolder;
    const ProgramResult r = run_ebb({"train", "--model", "mlp", "--train-count", "600", "--test-count", "200",
                                     "--epochs", "4", "--threads", "1", "--out", *scratch / "run"});
    ASSERT_EQ(r.code, 0) << r.err;
  }
  static void TearDownTestSuite() { delete scratch; }
  static std::string page() { return *scratch / "run/report.html"; }
  static ScratchFolder* scratch;
};
ScratchFolder* Report::scratch = nullptr;

TEST_F(Report, HasCurvesPicturesAndTheRightConfusionMatrixInTheBrowser) {
  const ProgramResult seen = browse(*scratch, page(), {"--dump-dom"});
  EXPECT_EQ(seen.err.find("CONSOLE"), std::string::npos) << seen.err;
  const std::string& dom = seen.out;
  for (const char* id : {"loss", "accuracy"}) {
    const std::string curve = section(dom, id);
    EXPECT_EQ(count(curve, "class=\"line a\""), 2u) << id;  // the curve and its sample in the legend
    EXPECT_EQ(count(curve, "class=\"dot b\""), 4u) << id;   // a test after every epoch
  }
  EXPECT_EQ(count(section(dom, "rate"), "class=\"line c\""), 1u);
  EXPECT_EQ(count(section(dom, "samples"), "<img src=\"data:image/png;base64,"), 28u);
  EXPECT_NE(section(dom, "settings").find("<dt>train-count</dt><dd>600</dd>"), std::string::npos);

  const ProgramResult tested = run_ebb({"eval", "--run", *scratch / "run", "--json"});
  ASSERT_EQ(tested.code, 0) << tested.err;
  const auto expected = nlohmann::json::parse(tested.out);
  const std::string matrix = section(dom, "confusion");
  std::size_t cells = 0;
  std::int64_t total = 0;
  for (std::size_t at = matrix.find("<td class="); at != std::string::npos; at = matrix.find("<td class=", at + 1)) {
    const std::string tag = matrix.substr(at, matrix.find('>', at) - at);
    if (attribute(tag, "data-count").empty()) continue;
    const int actual = std::stoi(attribute(tag, "data-actual")),
              predicted = std::stoi(attribute(tag, "data-predicted"));
    EXPECT_EQ(std::stoi(attribute(tag, "data-count")), expected["confusion"][actual][predicted])
        << actual << " as " << predicted;
    total += std::stoi(attribute(tag, "data-count"));
    ++cells;
  }
  EXPECT_EQ(cells, 100u);
  EXPECT_EQ(total, 200);
}

TEST_F(Report, NeedsNothingFromOutside) {
  const std::string html = read_whole(page());
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("@import"), std::string::npos);
  EXPECT_EQ(html.find("url("), std::string::npos);
  for (const char* from : {"src=\"", "href=\""}) {
    for (std::size_t at = html.find(from); at != std::string::npos; at = html.find(from, at + 1)) {
      EXPECT_EQ(html.compare(at + std::string(from).size(), 5, "data:"), 0) << html.substr(at, 60);
    }
  }
}

double brightness(const std::string& png) { return mean(cast(read_image(png, 1), DType::f32)).item(); }

TEST_F(Report, IsDrawnLightAndDark) {
  const std::string light = *scratch / "light.png", dark = *scratch / "dark.png";
  browse(*scratch, page(), {"--screenshot=" + light});
  browse(*scratch, page(), {"--screenshot=" + dark, "--blink-settings=preferredColorScheme=0"});
  const Tensor pixels = read_image(light, 3);
  EXPECT_EQ(pixels.shape(), Shape({3, 2400, 1280}));
  const auto values = pixels[0].to_vector<std::int64_t>();
  EXPECT_GT(std::set<std::int64_t>(values.begin(), values.end()).size(), 100u);  // not blank
  EXPECT_GT(brightness(light), 200);
  EXPECT_LT(brightness(dark), 80);
  // For those who want to look: EBB_KEEP_SCREENSHOTS=FOLDER.
  if (const char* keep = std::getenv("EBB_KEEP_SCREENSHOTS")) {
    for (const std::string& png : {light, dark}) {
      std::filesystem::copy(png, keep, std::filesystem::copy_options::overwrite_existing);
    }
  }
}

TEST_F(Report, AnErrorOnTheConsoleWouldBeNoticed) {
  const std::string bad = *scratch / "bad.html";
  write_whole(bad, "<script>console.error('wrong')</script>");
  EXPECT_NE(browse(*scratch, bad, {"--dump-dom"}).err.find("CONSOLE"), std::string::npos);
}

}  // namespace
}  // namespace ebb::program
