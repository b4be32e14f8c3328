#include "data/listops/expression.h"

#include <array>
#include <cstddef>

namespace dtn::listops {
namespace {

// An operator that is not closed yet, and the number of its arguments so far that are 0, 1, ..., 9.
struct OpenList {
  Token op;
  std::array<std::size_t, kDigits> counts{};
};

// Returns the argument of a rank in ascending order.
int argument_at(const OpenList& list, std::size_t rank) {
  int digit = 0;
  for (std::size_t below = list.counts[0]; below <= rank;) {
    below += list.counts[static_cast<std::size_t>(++digit)];
  }
  return digit;
}

int value_of(const OpenList& list) {
  std::size_t count = 0, sum = 0;
  for (std::size_t digit = 0; digit < kDigits; ++digit) {
    count += list.counts[digit];
    sum += digit * list.counts[digit];
  }
  switch (list.op) {
    case kMin: return argument_at(list, 0);
    case kMax: return argument_at(list, count - 1);
    case kMed: return (argument_at(list, (count - 1) / 2) + argument_at(list, count / 2)) / 2;
    default: return static_cast<int>(sum % kDigits);
  }
}

}  // namespace

const char* fault_of(std::span<const Token> tokens) {
  if (tokens.empty()) return "is empty";
  std::size_t depth = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (depth == 0 && i > 0) return "continues after the end of its expression";
    if (is_operator(tokens[i])) {
      ++depth;
    } else if (tokens[i] == kClose) {
      if (depth == 0) return "has a ] without an operator";
      if (is_operator(tokens[i - 1])) return "has an operator without arguments";
      --depth;
    } else if (!is_digit(tokens[i])) {
      return "has a token that is not a word";
    }
  }
  return depth > 0 ? "has an operator without its ]" : nullptr;
}

int value_of(std::span<const Token> expression) {
  std::vector<OpenList> open;
  int value = 0;
  for (const Token token : expression) {
    if (is_operator(token)) {
      open.push_back({token});
      continue;
    }
    if (token == kClose) {
      value = value_of(open.back());
      open.pop_back();
    } else {
      value = digit_of(token);
    }
    if (!open.empty()) ++open.back().counts[static_cast<std::size_t>(value)];
  }
  return value;
}

void Speller::count_arguments(std::span<const Token> expression) {
  arguments_.assign(expression.size(), 0);
  open_.clear();
  for (std::size_t i = 0; i < expression.size(); ++i) {
    if (is_operator(expression[i])) {
      open_.push_back(i);
      continue;
    }
    if (expression[i] == kClose) open_.pop_back();
    if (!open_.empty()) ++arguments_[open_.back()];
  }
}

void Speller::append(std::span<const Token> expression, std::string& text) {
  count_arguments(expression);
  std::size_t depth = 0;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const Token token = expression[i];
    if (depth > 0) text += ' ';
    if (is_operator(token)) {
      // One pair for each argument, and one for the `]`.
      for (std::size_t pair = 0; pair <= arguments_[i]; ++pair) text += "( ";
      text += kWords[token];
      ++depth;
      continue;
    }
    text += kWords[token];
    if (token == kClose) {
      text += " )";
      --depth;
    }
    if (depth > 0) text += " )";
  }
}

}  // namespace dtn::listops
