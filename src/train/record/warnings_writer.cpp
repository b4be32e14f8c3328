#include "train/record/warnings_writer.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace dtn {
namespace {

std::set<std::string> names_in(const std::filesystem::path& file) {
  std::set<std::string> names;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object()) names.insert(json.value("name", ""));
  }
  return names;
}

}  // namespace

WarningsWriter::WarningsWriter(const std::filesystem::path& run,
                               std::optional<std::int64_t> resumed_at)
    : path_(run / "warnings.jsonl") {
  if (!std::filesystem::exists(path_)) return;
  lines_ = JsonLinesWriter::open_for_resume(path_, resumed_at.value_or(-1));
  reported_ = names_in(path_);
}

void WarningsWriter::add(const StepReport& report) {
  if (!report.finite) return;
  if (shares_.empty()) {
    shares_.assign(std::max<std::size_t>(report.terms.size(), 1), 0);
    for (const auto& [name, value] : report.terms) sums_.push_back({name, 0});
  }
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const double share = report.shares.empty() ? 1 : report.shares[i];
    if (share == 0) continue;  // the term has no value
    sums_[i].value += share * report.terms[i].second;
    shares_[i] += share;
  }
}

std::optional<std::string> WarningsWriter::check(const Task& task, std::int64_t step,
                                                 const RunLength& run) {
  if (shares_.empty()) return std::nullopt;
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].value /= shares_[i];
  const std::optional<TaskWarning> found = task.warning(sums_, step, run);
  sums_.clear();
  shares_.clear();
  return report(found, step, run);
}

std::optional<std::string> WarningsWriter::report(const std::optional<TaskWarning>& found,
                                                  std::int64_t step, const RunLength& run) {
  if (!found || !reported_.insert(found->name).second) return std::nullopt;
  if (!lines_) lines_.emplace(path_);
  lines_->write({{"step", step},
                 {"epoch", static_cast<double>(step) / static_cast<double>(run.steps_per_epoch)},
                 {"name", found->name},
                 {"text", found->text}});
  return found->text;
}

void WarningsWriter::sync() {
  if (lines_) lines_->sync();
}

}  // namespace dtn
