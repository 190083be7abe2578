// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
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

// The text between the tags of the element with this id; our sections are not nested.
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

class ReportInBrowser : public Report {
 protected:
  void SetUp() override {
    if (std::system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no browser (chromium) here";
  }
};

TEST_F(ReportInBrowser, HasCurvesPicturesAndTheRightConfusionMatrix) {
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

TEST_F(ReportInBrowser, IsDrawnLightAndDark) {
  const std::string light = *scratch / "light.png", dark = *scratch / "dark.png";
  browse(*scratch, page(), {"--screenshot=" + light});
  browse(*scratch, page(), {"--screenshot=" + dark, "--blink-settings=preferredColorScheme=0"});
  const Tensor pixels = read_image(light, 3);
  EXPECT_EQ(pixels.shape(), Shape({3, 2400, 1280}));
  const auto values = pixels[0].to_vector<std::int64_t>();
  EXPECT_GT(std::set<std::int64_t>(values.begin(), values.end()).size(), 100u);  // not blank
  EXPECT_GT(brightness(light), 200);
  EXPECT_LT(brightness(dark), 80);
  // For inspection: EBB_KEEP_SCREENSHOTS=FOLDER.
  if (const char* keep = std::getenv("EBB_KEEP_SCREENSHOTS")) {
    for (const std::string& png : {light, dark}) {
      std::filesystem::copy(png, keep, std::filesystem::copy_options::overwrite_existing);
    }
  }
}

// By how much a page of this width is wider than its window, measured by itself.
int overflow(const ScratchFolder& scratch, const std::string& html, int width) {
  std::string page = read_whole(html);
  page.insert(page.find("</body>"),
              "<script>parent.postMessage(document.documentElement.scrollWidth - innerWidth, '*')</script>");
  write_whole(scratch / "measured.html", page);
  write_whole(
      scratch / "frame.html",
      "<body><script>onmessage = e => document.body.dataset.overflow = e.data</script><iframe src=measured.html "
      "width=" +
          std::to_string(width) + " height=2000 style='border:0'></iframe>");
  const std::string dom = browse(scratch, scratch / "frame.html", {"--dump-dom", "--virtual-time-budget=3000"}).out;
  const std::string text = attribute(dom, "data-overflow");
  EXPECT_FALSE(text.empty()) << dom.substr(0, 500);
  return text.empty() ? -1 : std::stoi(text);
}

TEST_F(ReportInBrowser, FitsAPhone) {
  EXPECT_EQ(overflow(*scratch, page(), 390), 0);
  EXPECT_EQ(overflow(*scratch, page(), 320), 0);
  write_whole(*scratch / "wide.html", "<body><div style='width:700px'>x</div></body>");
  EXPECT_GT(overflow(*scratch, *scratch / "wide.html", 390), 0);  // checks that it would be noticed
}

TEST_F(Report, ManyTestsAreALineWithoutMarkers) {
  const std::string run = *scratch / "many";
  ASSERT_EQ(run_ebb(tiny_run(run, {"--steps", "120", "--eval-every", "1"})).code, 0);
  const std::string curve = section(read_whole(run + "/report.html"), "loss");
  EXPECT_EQ(count(curve, "class=\"dot b\""), 0u);
  EXPECT_EQ(count(curve, "class=\"line b\""), 2u);
}

// Pictures on black paper, on white paper and photographs, rendered on a light and on a dark page.
TEST_F(ReportInBrowser, DrawingsFollowThePageAndPhotographsDoNot) {
  const auto page_with = [&](const std::string& name, int paper, int ink) {
    for (int i = 0; i < 20; ++i) {
      const std::string folder = *scratch / (name + (i % 2 ? "/a" : "/b"));
      std::filesystem::create_directories(folder);
      std::string pixels(64, static_cast<char>(paper));
      for (int k = 0; k < 12; ++k)
        pixels[static_cast<std::size_t>(i % 2 ? 20 + k : 8 + 4 * k)] = static_cast<char>(ink);
      write_whole(folder + "/" + std::to_string(i) + ".pgm", "P5 8 8 255\n" + pixels);
    }
    EXPECT_EQ(run_ebb({"train", "--data", *scratch / name, "--width", "2", "--steps", "2", "--threads", "1", "--out",
                       *scratch / (name + "-run")})
                  .code,
              0);
    return read_whole(*scratch / (name + "-run/report.html"));
  };
  EXPECT_NE(page_with("chalk", 0, 255).find("class=\"images black\""), std::string::npos);
  EXPECT_NE(page_with("pencil", 255, 0).find("class=\"images white\""), std::string::npos);
  EXPECT_NE(page_with("photo", 120, 200).find("class=\"images\""), std::string::npos);

  // The first picture of each page alone, with the style of its page.
  for (const char* name : {"chalk", "pencil", "photo"}) {
    const std::string html = read_whole(*scratch / (std::string(name) + "-run/report.html"));
    const std::size_t style = html.find("<style>"), images = html.find("<div class=\"images"),
                      img = html.find("<img", images);
    const std::string alone = html.substr(style, html.find("</style>", style) + 8 - style) +
                              html.substr(images, html.find('>', images) + 1 - images) +
                              html.substr(img, html.find('>', img) + 1 - img) +
                              "<style>body,.images{margin:0;padding:0}.images img{width:1280px;height:2400px}</style>";
    write_whole(*scratch / "alone.html", alone);
    const std::string light = *scratch / "alone-light.png", dark = *scratch / "alone-dark.png";
    browse(*scratch, *scratch / "alone.html", {"--screenshot=" + light});
    browse(*scratch, *scratch / "alone.html", {"--screenshot=" + dark, "--blink-settings=preferredColorScheme=0"});
    if (std::string(name) == "photo") {
      EXPECT_NEAR(brightness(light), brightness(dark), 1);
    } else {
      EXPECT_GT(brightness(light), 150) << name;
      EXPECT_LT(brightness(dark), 100) << name;
    }
  }
}

TEST_F(ReportInBrowser, AnErrorOnTheConsoleWouldBeNoticed) {
  const std::string bad = *scratch / "bad.html";
  write_whole(bad, "<script>console.error('wrong')</script>");
  EXPECT_NE(browse(*scratch, bad, {"--dump-dom"}).err.find("CONSOLE"), std::string::npos);
}

}  // namespace
}  // namespace ebb::program
