#include "train/record/epoch_table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "core/format.h"
#include "core/seconds_since.h"

namespace dtn {
namespace {

constexpr double kSecondsBetweenEvaluations = 1, kSecondsWithoutRow = 10;
constexpr const char* kFormat = "%10s%10s%10s%11s%12s %12s%14s";

// Returns the loss of an evaluation with 4 decimals; empty if it has none.
std::string loss_of(const Metrics* metrics) {
  if (!metrics) return "";
  const auto& values = metrics->values;
  const auto found = std::ranges::find(values, "loss", &std::pair<std::string, double>::first);
  return found == values.end() ? "" : format("%.4f", found->second);
}

// Returns a number of epochs in at most five characters, as far as it has no more than 9999.
std::string epoch_text(double epochs) {
  const bool is_whole = epochs == std::floor(epochs);
  return format(is_whole || epochs >= 1000 ? "%.0f" : epochs >= 100 ? "%.1f" : "%.2f", epochs);
}

}  // namespace

ShownFigure first_figure(const std::string& metrics_text) {
  const std::string first = metrics_text.substr(0, metrics_text.find("  "));
  for (std::size_t at = first.find(' '); at != first.npos; at = first.find(' ', at + 1)) {
    const char next = at + 1 < first.size() ? first[at + 1] : ' ';
    if (std::isdigit(static_cast<unsigned char>(next)) == 0 && next != '-') continue;
    if (first.substr(0, at) == "loss") return {};
    return {first.substr(0, at), first.substr(at + 1)};
  }
  return {};
}

EpochTable::EpochTable(const RunPeriods& periods, std::string noun)
    : periods_(periods), noun_(std::move(noun)) {}

void EpochTable::add(double loss, const TrainingClock& clock) {
  now_ = clock.total();
  if (!std::isfinite(loss)) return;
  loss_sum_ += loss;
  ++losses_;
}

std::string EpochTable::header() const {
  return format(kFormat, "epoch", "loss", "val loss", "lr", figure_.c_str(),
                cat(noun_, "/s").c_str(), "left") +
         "\n";
}

bool EpochTable::comes_too_soon(bool evaluated) const {
  if (!evaluated) return seconds_since(last_row_) < kSecondsWithoutRow;
  return last_evaluation_ && seconds_since(*last_evaluation_) < kSecondsBetweenEvaluations;
}

std::string EpochTable::row(std::int64_t step, double lr, const Metrics* metrics, bool best,
                            const std::string& time_left, bool in_color) {
  if (!periods_.is_last(step) && comes_too_soon(metrics != nullptr)) return "";
  const ShownFigure figure = metrics ? first_figure(metrics->text) : ShownFigure();
  std::string text;
  if (!begun_ || (metrics && figure.name != figure_)) {
    figure_ = figure.name;
    text = header();
  }
  const double epoch = periods_.epoch_at(step);
  const double epochs = periods_.epoch_at(periods_.total_steps());
  const TrainingTime window{.seconds = now_.seconds - at_last_row_.seconds,
                            .samples = now_.samples - at_last_row_.samples};
  const std::string loss =
      losses_ > 0 ? format("%.4f", loss_sum_ / static_cast<double>(losses_)) : "-";
  // The star takes the place of the space behind the figure.
  std::string value = format("%12s%s", figure.value.c_str(), best ? "*" : " ");
  if (best && in_color) value = cat("\033[32m", value, "\033[0m");
  text += format("%10s%10s%10s%11s", cat(epoch_text(epoch), "/", epoch_text(epochs)).c_str(),
                 loss.c_str(), loss_of(metrics).c_str(), format("%.2e", lr).c_str());
  text += value + format("%12.1f%14s\n", window.samples_per_second(), time_left.c_str());
  begun_ = true;
  last_row_ = Clock::now();
  if (metrics) last_evaluation_ = last_row_;
  at_last_row_ = now_;
  loss_sum_ = 0;
  losses_ = 0;
  return text;
}

}  // namespace dtn
