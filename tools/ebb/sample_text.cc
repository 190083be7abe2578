// SPDX-License-Identifier: MIT
#include "sample_text.h"

#include <initializer_list>
#include <random>

namespace ebb::program {
namespace {

class Teller {
 public:
  explicit Teller(std::uint64_t seed) : draw_(seed) {}

  std::string tale() {
    const std::string name = one({"Ada", "Bela", "Cora", "Dara", "Edda", "Finn", "Hugo", "Ines", "Jon", "Mira"});
    std::string s =
        say({"There was a ", one({"fisher", "sailor", "miller", "painter", "keeper of the light", "boat builder"}),
             " called ", name, ", who lived ", place(), ". "});
    const int sentences = 3 + number(4);
    for (int k = 0; k < sentences; ++k) s += sentence(name) + " ";
    return s + ending(name) + "\n\n";
  }

 private:
  int number(int below) { return static_cast<int>(draw_() % static_cast<std::uint64_t>(below)); }
  std::string one(std::initializer_list<const char*> words) {
    return words.begin()[number(static_cast<int>(words.size()))];
  }
  // The elements of a braced list are evaluated from left to right; the operands of + in any order.
  static std::string say(std::initializer_list<std::string> parts) {
    std::string all;
    for (const std::string& part : parts) all += part;
    return all;
  }

  std::string place() {
    return say({one({"near", "beside", "behind", "not far from"}), " the ",
                one({"old harbour", "long beach", "grey cliffs", "lighthouse", "mouth of the river", "salt meadows"})});
  }
  std::string beast() {
    return say({one({"small", "grey", "white", "clever", "hungry", "old", "quiet"}), " ",
                one({"gull", "seal", "crab", "heron", "dog", "cat", "fox"})});
  }
  std::string weather() {
    return one({"the wind came from the north", "the fog lay on the water", "the sun stood low over the sea",
                "rain fell on the roofs", "the waves were high", "the night was full of stars"});
  }
  std::string thing() {
    return one({"a bottle with a letter", "a piece of amber", "a broken oar", "a bell of bronze", "an empty shell",
                "a map of the coast"});
  }
  std::string sentence(const std::string& name) {
    switch (number(6)) {
      case 0:
        return say({"When the tide was ", one({"low", "out", "at its lowest"}), ", ", name,
                    " walked along the shore and found ", thing(), "."});
      case 1:
        return say({"In the ", one({"morning", "evening", "spring", "autumn", "winter"}), " ", weather(), ", and a ",
                    beast(), " came to the door."});
      case 2:
        return say({"\"The water ", one({"takes", "brings", "knows"}), " what it wants,\" said the ", beast(), ", and ",
                    name, " ", one({"laughed", "nodded", "said nothing", "listened"}), "."});
      case 3:
        return say({name, " gave the ", beast(), " ",
                    one({"some bread", "a fish", "a place by the fire", "a bowl of milk"}), "."});
      case 4:
        return say(
            {"Every day the sea came in, and every day the sea went out, but ", thing(), " stayed where it was."});
      default:
        return say({"Because ", weather(), ", ", name, " stayed at home and mended the ",
                    one({"nets", "sails", "roof", "boat", "lamp"}), "."});
    }
  }
  std::string ending(const std::string& name) {
    switch (number(4)) {
      case 0:
        return say({"And when the ebb came, ", name, " went with it."});
      case 1:
        return say({"That is how ", name, " learned to wait for the ebb."});
      case 2:
        return say({"And ", name, " was content."});
      default:
        return "And the tide told nobody about it.";
    }
  }

  std::mt19937_64 draw_;  // the same numbers on all systems; the standard's distributions differ
};

}  // namespace

std::string make_tales(std::int64_t length, std::uint64_t seed) {
  Teller teller(seed);
  std::string all;
  while (static_cast<std::int64_t>(all.size()) < length) all += teller.tale();
  return all;
}

}  // namespace ebb::program
