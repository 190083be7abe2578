// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ebb::program {

// Everything that decides what a training run computes, and how it is shown. A number that is 0 (or −1) where that
// makes no sense is chosen by resolve(), those that depend on the number of examples by resolve_length() (on other
// facts of the data: by resolve_with(), trainer.h).
struct RunConfig {
  std::string model = "auto";
  std::string init = "";

  std::string data = "";  // digits, tales, or a path
  std::string format = "auto";
  std::string test_data = "";
  std::string task = "auto";
  std::string target = "";
  std::vector<std::string> ignore = {};
  std::vector<std::string> missing = {};
  std::vector<std::int64_t> resize = {};
  std::int64_t train_count = 20000;
  std::int64_t test_count = 4000;
  double test_fraction = 0.1;
  double validation_fraction = -1;

  std::vector<std::int64_t> hidden = {};
  std::string activation = "auto";
  std::int64_t width = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;
  std::int64_t feed_forward = 0;
  std::string head = "tied";
  double rope_theta = 10000;
  std::int64_t context = 0;
  std::int64_t tokens = 512;
  std::string tokenizer = "";
  std::string documents = "";
  double dropout = 0;

  double epochs = 0;
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t accumulate = 1;
  std::int64_t shards = 0;
  std::int64_t tensor_parallel = 0;
  std::string optimizer_state = "sharded";
  std::string optimizer = "adamw";
  double lr = 0;
  double momentum = 0.9;
  std::string schedule = "cosine";
  double warmup = 0.05;
  double weight_decay = 0.01;
  double clip = 0;
  double label_smoothing = -1;
  double ema = 0;
  std::int64_t patience = -1;
  std::string dtype = "f32";
  std::string products = "dtype";
  std::uint64_t seed = 1;

  std::int64_t workers = 1;
  std::int64_t threads = 0;
  std::string memory = "";
  std::int64_t eval_every = 0;
  std::int64_t checkpoint_every = 0;
  std::int64_t log_every = 0;
};

inline constexpr double kUsualValidation = 0.1;  // share of the training data, if held back by default

std::vector<std::string> optimizer_names();  // of the library's registry

// Calls v(name, member, help, choices) for every setting: the one list behind options, files and checks.
template <class Config, class V>
void each_setting(Config& c, V&& v) {
  using Choices = std::vector<std::string>;
  const Choices any;
  v("model", c.model, "What is trained; auto: mlp for a table, cnn for pictures, gpt for text",
    Choices{"auto", "mlp", "cnn", "resnet", "gpt", "llama"});
  v("init", c.init,
    "llama: begin with the weights, sizes and tokenizer of this folder, as Hugging Face's transformers writes it", any);
  v("data", c.data,
    "digits and tales are generated; otherwise a folder (MNIST's IDX files, CIFAR's binary files, pictures in a folder "
    "for each class) or a file (.csv, .tsv, text). Unless given: digits, and tales for gpt and llama",
    any);
  v("format", c.format, "What the path given as --data holds; auto looks at it",
    Choices{"auto", "idx", "cifar", "images", "csv", "text"});
  v("test-data", c.test_data, "A path of the same format to test on; unless given a part of the data is kept for it",
    any);
  v("task", c.task, "CSV: what the target is; auto: numbers of many values are for regression, all else are classes",
    Choices{"auto", "classification", "regression"});
  v("target", c.target, "CSV: the column to predict, by its name or its number from 1; unless given the last", any);
  v("ignore", c.ignore, "CSV: columns that are left out, by name or number, e.g. id,name", any);
  v("missing", c.missing, "CSV: what stands for a missing value besides NA, NULL, ? and the like, e.g. None,-", any);
  v("resize", c.resize,
    "Pictures: their size, e.g. 64, or 48,64 for height and width; unless given the one they have, or 64 where they "
    "differ in size or are larger than 128",
    any);
  v("train-count", c.train_count, "Generated digits to train on", any);
  v("test-count", c.test_count, "Generated digits to test on", any);
  v("test-fraction", c.test_fraction, "Share of the data kept for the test where it has none of its own", any);
  v("validation-fraction", c.validation_fraction,
    "Share of the training data that is held back to choose the best weights and to stop early (0: none; -1: 0.1 with "
    "--patience, and for tables of at least 100 rows of numbers or 1,000 of classes to predict)",
    any);
  v("hidden", c.hidden, "mlp: sizes of the hidden layers, e.g. 256,128", any);
  v("activation", c.activation, "mlp: what is between its layers; auto: gelu", Choices{"auto", "gelu", "relu"});
  v("width", c.width,
    "cnn, resnet: channels of the first layer; gpt, llama: size of the residual stream (0: by the model)", any);
  v("layers", c.layers, "resnet: blocks of each of three stages; gpt, llama: transformer blocks (0: by the model)",
    any);
  v("heads", c.heads, "gpt, llama: attention heads", any);
  v("kv-heads", c.kv_heads, "llama: heads of keys and values, which groups of heads share (0: as many as --heads)",
    any);
  v("feed-forward", c.feed_forward, "llama: width of the feed-forward network (0: 8/3 of --width)", any);
  v("head", c.head, "llama: whether the embedding's weights are those of the output, too", Choices{"tied", "untied"});
  v("rope-theta", c.rope_theta, "llama: base of the rotary embedding's frequencies", any);
  v("context", c.context, "gpt, llama: tokens seen at once (0: 64, with --init 512)", any);
  v("tokens", c.tokens, "gpt, llama: size of the byte-pair vocabulary; 256: bytes", any);
  v("tokenizer", c.tokenizer, "gpt, llama: a tokenizer.json instead, or its folder (unless given that of --init)", any);
  v("documents", c.documents,
    "llama: what separates documents of the text, such as \"\\n\\n\"; they are packed into rows and do not see each "
    "other",
    any);
  v("dropout", c.dropout, "Share of activations dropped while training", any);
  v("epochs", c.epochs, "Passes over the training data; unless given by the model, more for little data", any);
  v("steps", c.steps, "Steps of the optimiser, instead of --epochs", any);
  v("batch", c.batch, "Examples in a batch (0: by the model and the data)", any);
  v("accumulate", c.accumulate, "Batches whose gradients make one step", any);
  v("shards", c.shards,
    "Parts of a batch that ranks compute: results depend on it, not on the number of ranks (0: 1, under mpirun 4 or as "
    "many as there are ranks)",
    any);
  v("tensor-parallel", c.tensor_parallel,
    "gpt: parts into which heads, feed-forward networks and vocabulary are divided; the ranks share them instead of "
    "the "
    "batch (0: none)",
    any);
  v("optimizer", c.optimizer, "How parameters are moved", optimizer_names());
  v("optimizer-state", c.optimizer_state, "Under mpirun: each part of it on one rank only, or all of it on every rank",
    Choices{"sharded", "replicated"});
  v("lr", c.lr, "Highest learning rate (0: by the model and the optimiser)", any);
  v("momentum", c.momentum, "Of optimisers that have one", any);
  v("schedule", c.schedule, "How the rate goes from its highest value to the end",
    Choices{"cosine", "linear", "constant"});
  v("warmup", c.warmup, "The rate rises from 0 first: a share of all steps (below 1), or a number of steps", any);
  v("weight-decay", c.weight_decay, "Of matrices and kernels; biases and gains are left alone", any);
  v("clip", c.clip, "Largest norm of all gradients together (0: any)", any);
  v("label-smoothing", c.label_smoothing,
    "Share of a target that is spread over all classes (-1: 0.1 for tables, otherwise 0)", any);
  v("ema", c.ema, "Test an average of the weights that keeps this share at each step, e.g. 0.999 (0: the weights)",
    any);
  v("patience", c.patience,
    "Stop after this many tests on the validation data without a lower loss, and keep the best weights (0: never; -1: "
    "15 for tables)",
    any);
  v("dtype", c.dtype, "What is computed in; weights stay f32", Choices{"f32", "bf16", "f16"});
  v("products", c.products,
    "llama: factors of the products of feed-forward networks and head, as --dtype says or rounded to FP8",
    Choices{"dtype", "fp8"});
  v("seed", c.seed, "Of first weights, order of the data and dropout", any);
  v("workers", c.workers, "Threads that prepare batches (0: the training thread)", any);
  v("threads", c.threads, "Threads that compute (0: all); results do not depend on it", any);
  v("memory", c.memory,
    "Memory that a step should take, weights included, such as \"6 GiB\" (none: as much as is fast)", any);
  v("eval-every", c.eval_every, "Steps between tests (0: an epoch, or several where they are short)", any);
  v("checkpoint-every", c.checkpoint_every, "Steps between checkpoints (0: as for tests)", any);
  v("log-every", c.log_every, "Steps between lines of metrics (0: about 400 lines in all)", any);
}

// "6 GiB", "500 MB" or a number of bytes; an empty text is 0.
std::size_t bytes_of(const std::string& size);

// One option --NAME for every setting.
void add_settings(CLI::App& app, RunConfig& config);

// Reads a JSON or TOML file with options of the command by name; the command line takes precedence. Unknown names are
// rejected, with the closest one suggested.
void read_settings_file(CLI::App& app, const std::string& path);

nlohmann::json to_json(const RunConfig& config);
RunConfig config_from_json(const nlohmann::json& json, const std::string& where);

// Chooses what was left open and rejects what makes no sense, naming the options.
void resolve(RunConfig& config);
// Chooses batch and epochs for this many training examples: little data needs many passes, and rows of a table more
// than pictures, which are larger.
void resolve_length(RunConfig& config, std::int64_t examples, bool rows = false);

}  // namespace ebb::program
