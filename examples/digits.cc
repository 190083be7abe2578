// Trains a network of two layers to read digits, with nothing but operations, autograd and four lines of SGD.
// Writes out/digits/report.html. Options: --quick (seconds instead of half a minute), --out DIR.
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "digits_report.h"
#include "ebb/ebb.h"

using namespace ebb;

namespace {

using Weights = std::array<Tensor, 4>;  // w1, b1, w2, b2

Weights make_parameters(std::int64_t pixels, std::int64_t hidden, std::int64_t classes) {
  // Deviations that keep the size of the signal the same from layer to layer (He).
  return {variable(randn({pixels, hidden}) * std::sqrt(2.0 / static_cast<double>(pixels))), variable(zeros({hidden})),
          variable(randn({hidden, classes}) * std::sqrt(2.0 / static_cast<double>(hidden))),
          variable(zeros({classes}))};
}

Tensor network(const Weights& p, const Tensor& images) {
  const auto& [w1, b1, w2, b2] = p;
  return matmul(relu(matmul(images, w1) + b1), w2) + b2;
}

struct Score {
  double loss, accuracy;
};
Score score(const Weights& p, const Digits& set) {
  Tensor logits = network(p, set.images);
  Tensor loss = cross_entropy(logits, set.labels);
  Tensor right = mean(cast(argmax(logits, 1) == set.labels, DType::f32));
  eval({loss, right});
  return {loss.item(), right.item()};
}

// One line that redraws itself on a terminal, and only the final line of every epoch elsewhere.
class Progress {
 public:
  void update(int epoch, int epochs, double part, double loss) const {
    if (!terminal_) return;
    constexpr int kWidth = 28;
    std::string bar;
    for (int k = 0; k < kWidth; ++k) bar += k < part * kWidth ? "█" : "░";
    std::printf("\r  epoch %2d/%d  %s  loss %.4f", epoch, epochs, bar.c_str(), loss);
    std::fflush(stdout);
  }
  void finish(int epoch, int epochs, double loss, const Score& test) const {
    std::printf("%s  epoch %2d/%d  training loss %.4f   test loss %.4f   test accuracy %5.2f %%\n",
                terminal_ ? "\r\033[K" : "", epoch, epochs, loss, test.loss, 100 * test.accuracy);
    std::fflush(stdout);
  }

 private:
  bool terminal_ = isatty(STDOUT_FILENO) != 0;
};

class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

int main(int argc, char** argv) try {
  bool quick = false;
  std::filesystem::path out = "out/digits";
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--quick")) {
      quick = true;
    } else if (!std::strcmp(argv[i], "--out") && i + 1 < argc) {
      out = argv[++i];
    } else {
      std::fprintf(stderr, "usage: %s [--quick] [--out DIR]\n", argv[0]);
      return 2;
    }
  }
  const std::int64_t training_images = quick ? 4000 : 30000, test_images = quick ? 1000 : 5000, batch = 100;
  const int hidden = quick ? 64 : 256, epochs = quick ? 4 : 12;
  manual_seed(1);

  Clock clock;
  std::printf("Drawing %ld digits for training and %ld for the test ...", static_cast<long>(training_images),
              static_cast<long>(test_images));
  std::fflush(stdout);
  const Digits train = make_digits(training_images, 1), test = make_digits(test_images, 2);
  std::printf(" %.1f s\n", clock.seconds());

  Weights p = make_parameters(784, hidden, 10);
  Weights velocity;
  for (std::size_t k = 0; k < p.size(); ++k) velocity[k] = zeros(p[k].shape());
  std::printf("Training 784 → %d → 10 with SGD, batches of %ld\n", hidden, static_cast<long>(batch));

  Clock training;
  report::History history;
  const Progress progress;
  const std::int64_t batches = training_images / batch;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const Tensor order = argsort(rand({training_images}));  // a new shuffle
    double sum_of_losses = 0;
    for (std::int64_t b = 0; b < batches; ++b) {
      const Tensor rows = order.slice(0, b * batch, (b + 1) * batch);
      const Tensor images = index_select(train.images, 0, rows), labels = index_select(train.labels, 0, rows);

      const double done = (epoch - 1 + static_cast<double>(b) / static_cast<double>(batches)) / epochs;
      const double rate = 0.1 * 0.5 * (1 + std::cos(3.14159265 * done));  // a cosine from 0.1 down to 0
      const Tensor loss = cross_entropy(network(p, images), labels);
      const Gradients gradients = backward(loss);
      std::vector<Tensor> wanted{loss};
      for (std::size_t k = 0; k < p.size(); ++k) {
        velocity[k] = 0.9 * velocity[k] + gradients[p[k]];
        p[k] = variable(p[k] - rate * velocity[k]);
        wanted.insert(wanted.end(), {velocity[k], p[k]});
      }
      eval(wanted);

      sum_of_losses += loss.item();
      history.step_loss.push_back(loss.item());
      if (b % 10 == 0) {
        progress.update(epoch, epochs, static_cast<double>(b) / static_cast<double>(batches),
                        sum_of_losses / static_cast<double>(b + 1));
      }
    }
    const Score s = score(p, test);
    const double mean_loss = sum_of_losses / static_cast<double>(batches);
    history.epochs.push_back({mean_loss, s.loss, s.accuracy});
    progress.finish(epoch, epochs, mean_loss, s);
  }
  history.training_seconds = training.seconds();
  history.steps_per_epoch = static_cast<int>(batches);

  const Tensor probabilities = softmax(network(p, test.images));
  const double accuracy = history.epochs.back().test_accuracy;
  const long wrong = std::lround((1 - accuracy) * static_cast<double>(test_images));
  std::printf("\nTest accuracy %.2f %%: %ld of %ld digits it had never seen are read wrongly. Training took %.1f s.\n",
              100 * accuracy, wrong, static_cast<long>(test_images), history.training_seconds);
  report::write(out, history, test, probabilities, hidden, training_images);
  std::printf("The report, with curves and pictures: %s\n", (out / "report.html").c_str());

  const double expected = quick ? 0.85 : 0.97;
  if (accuracy < expected) {
    std::fprintf(stderr, "That is less than the %.0f %% this example should reach.\n", 100 * expected);
    return 1;
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "\n%s\n", e.what());
  return 1;
}
