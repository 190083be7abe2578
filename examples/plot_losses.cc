// Draws losses and their gradients as SVG: Ebb computes both, and the pictures of the documentation come from here.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ebb/ebb.h"
#include "plot.h"

using namespace ebb;

namespace {

struct Picture {
  const char* file;
  const char* title;
  const char* x_label;
  Function terms;  // the loss of every element by itself
  double from, to;
};

bool draw(const std::filesystem::path& folder, const Picture& p) {
  const Tensor x = variable(linspace(p.from, p.to, 401, DType::f64));
  const Tensor y = p.terms(x);
  const Tensor g = backward(sum(y))[x];
  eval({y, g});
  std::ofstream out(folder / (std::string(p.file) + ".svg"));
  out << plot::lines({.title = p.title, .x_label = p.x_label},
                     {{"loss", x.to_vector(), y.to_vector(), "a"}, {"gradient", x.to_vector(), g.to_vector(), "b"}});
  std::printf("%-14s loss %.4f to %.4f, gradient %.4f to %.4f\n", p.file, min(y).item(), max(y).item(), min(g).item(),
              max(g).item());
  return static_cast<bool>(out) && std::isfinite(sum(y).item() + sum(g).item());
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "out/losses";
  std::filesystem::create_directories(folder);
  const std::vector<Picture> pictures = {
      {"huber", "huber_loss, delta = 1", "input − target",
       [](const Tensor& x) { return huber_loss(x, zeros_like(x), {.reduction = Reduction::none}); }, -3, 3},
      {"focal", "sigmoid_focal_loss of a positive", "logit",
       [](const Tensor& x) { return sigmoid_focal_loss(x, ones_like(x), {.alpha = -1, .reduction = Reduction::none}); },
       -4, 4},
  };
  for (const Picture& p : pictures) {
    if (!draw(folder, p)) return 1;
  }
  std::printf("written to %s\n", folder.c_str());
}
