#include "train/log/gradient_log.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace dtn {
namespace {

bool is_number(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == '.') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

}  // namespace

std::string part_of(const std::string& parameter) {
  const std::vector<std::string> words = words_of(parameter);
  // Ends with the number after the last "blocks", else with the first number.
  std::size_t end = 1;
  for (std::size_t i = words.size() - 1; i > 0; --i) {
    if (!is_number(words[i])) continue;
    end = i + 1;
    if (words[i - 1] == "blocks") break;
  }
  std::string part = words[0];
  for (std::size_t i = 1; i < end; ++i) part += "." + words[i];
  return part;
}

std::vector<std::pair<std::string, double>> gradient_norms(ParameterStore& parameters,
                                                           double whole) {
  const Tensor flat = parameters.gradients().to(kCpu);
  std::vector<std::pair<std::string, double>> squares;
  double all = 0;
  for (const Parameter& p : parameters.parameters()) {
    if (p.frozen) continue;
    double sum = 0;
    for (const float g : ParameterStore::view(flat, p).values<float>()) {
      sum += static_cast<double>(g) * g;
    }
    all += sum;
    const std::string part = part_of(p.name);
    auto at = std::ranges::find(squares, part, [](const auto& pair) { return pair.first; });
    if (at == squares.end()) at = squares.insert(squares.end(), {part, 0});
    at->second += sum;
  }
  for (auto& [part, square] : squares) square = all > 0 ? whole * std::sqrt(square / all) : 0;
  return squares;
}

GradientLog::GradientLog(const std::filesystem::path& run, ParameterStore& parameters,
                         std::optional<std::int64_t> resumed_at)
    : parameters_(parameters),
      lines_(JsonLinesWriter::open_for_resume(run / "gradients.jsonl", resumed_at.value_or(-1))) {}

void GradientLog::write(std::int64_t step, double epoch, double whole) {
  nlohmann::ordered_json line = {{"step", step}, {"epoch", epoch}};
  for (const auto& [part, norm] : gradient_norms(parameters_, whole)) {
    line["gradient_norm"][part] = norm;  // null if it is not finite
  }
  lines_.write(line.dump());
}

}  // namespace dtn
