#include "train/record/gradient_norms_writer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

namespace dtn {
namespace {

bool is_number(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string part_of(const std::string& parameter) {
  // Ends with the number after the last "blocks", else with the first number, else after a word.
  std::size_t end = parameter.find('.'), begin = 0;
  bool numbered = false;
  std::istringstream words(parameter);
  for (std::string word, before; std::getline(words, word, '.'); before = word) {
    if (begin > 0 && is_number(word) && (!numbered || before == "blocks")) {
      end = begin + word.size();
      numbered = true;
    }
    begin += word.size() + 1;
  }
  return parameter.substr(0, end);
}

std::vector<std::pair<std::string, double>> gradient_norms(ParameterStore& parameters,
                                                           double scale) {
  const Tensor flat = parameters.gradients().to(kCpu);
  std::vector<std::pair<std::string, double>> squares;
  for (const Parameter& p : parameters.parameters()) {
    if (p.frozen) continue;
    double sum = 0;
    for (const float g : ParameterStore::view(flat, p).values<float>()) {
      sum += static_cast<double>(g) * g;
    }
    const std::string part = part_of(p.name);
    auto at = std::ranges::find(squares, part, [](const auto& pair) { return pair.first; });
    if (at == squares.end()) at = squares.insert(squares.end(), {part, 0});
    at->second += sum;
  }
  for (auto& [part, square] : squares) square = scale * std::sqrt(square);
  return squares;
}

GradientNormsWriter::GradientNormsWriter(const std::filesystem::path& run,
                                         ParameterStore& parameters,
                                         std::optional<std::int64_t> resumed_at)
    : parameters_(parameters),
      lines_(JsonLinesWriter::open_for_resume(run / "gradients.jsonl", resumed_at.value_or(-1))) {}

void GradientNormsWriter::write(std::int64_t step, double epoch, double scale) {
  nlohmann::ordered_json line = {{"step", step}, {"epoch", epoch}};
  for (const auto& [part, norm] : gradient_norms(parameters_, scale)) {
    line["gradient_norm"][part] = norm;  // null if it is not finite
  }
  lines_.write(line.dump());
}

}  // namespace dtn
