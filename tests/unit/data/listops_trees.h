// Trees of ListOps for the tests, with a second parser and evaluator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "data/listops/draw_trees.h"
#include "data/listops/expression.h"
#include "dtn/core/check.h"

namespace dtn::listops {

using Tokens = std::vector<Token>;

inline Tokens tokens_of(const std::string& words) {
  Tokens tokens;
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const auto found = std::ranges::find(kWords, word);
    if (found == kWords.end()) throw Error("no word " + word);
    tokens.push_back(static_cast<Token>(found - kWords.begin()));
  }
  return tokens;
}

// Reads pairs by their definition and evaluates sorted lists, without the code under test.
class PairReader {
 public:
  explicit PairReader(const std::string& text) : in_(text) {}

  int value() {
    const std::vector<std::string> node = read();
    EXPECT_EQ(node.size(), 1u);
    std::string rest;
    EXPECT_FALSE(in_ >> rest) << rest;
    return std::stoi(node.front());
  }

 private:
  // Returns a word, or the content of a pair so far: an operator and values.
  std::vector<std::string> read() {
    std::string word;
    in_ >> word;
    if (word != "(") return {word};
    std::vector<std::string> left = read();
    const std::vector<std::string> right = read();
    EXPECT_TRUE(in_ >> word && word == ")") << word;
    EXPECT_EQ(right.size(), 1u);
    if (right.front() == "]") return {std::to_string(compute(left))};
    left.push_back(right.front());
    return left;
  }
  static int compute(const std::vector<std::string>& list) {
    std::vector<int> values;
    for (std::size_t i = 1; i < list.size(); ++i) values.push_back(std::stoi(list[i]));
    std::ranges::sort(values);
    const std::size_t n = values.size();
    if (list[0] == "[MIN") return values.front();
    if (list[0] == "[MAX") return values.back();
    if (list[0] == "[MED") {
      return n % 2 ? values[n / 2]
                   : static_cast<int>(std::floor(0.5 * (values[n / 2 - 1] + values[n / 2])));
    }
    EXPECT_EQ(list[0], "[SM");
    int sum = 0;
    for (int v : values) sum += v;
    return sum % 10;
  }

  std::istringstream in_;
};

inline std::string spelled(const Tokens& tokens) {
  std::string text;
  Speller().append(tokens, text);
  return text;
}

struct Trees {
  std::vector<Tokens> tokens;
  std::vector<int> values;
  std::vector<std::string> lines;
  DrawReport report;
};

inline Trees draw(const DrawOptions& options) {
  Trees trees;
  trees.report = draw_trees(options, [&](const DrawnTree& tree) {
    trees.tokens.emplace_back(tree.tokens.begin(), tree.tokens.end());
    trees.values.push_back(tree.value);
    trees.lines.emplace_back(tree.line);
  });
  return trees;
}

inline DrawOptions drawing(std::int64_t trees, TreeLimits limits = {}, std::uint64_t seed = 1) {
  DrawOptions options;
  options.trees = trees;
  options.limits = limits;
  options.seed = seed;
  return options;
}

}  // namespace dtn::listops
