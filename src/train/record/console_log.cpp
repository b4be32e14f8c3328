#include "train/record/console_log.h"

#include <cstdio>
#include <utility>

#include "core/format.h"
#include "dtn/core/log.h"

namespace dtn {

ConsoleLog::ConsoleLog(const RunPeriods& periods, std::int64_t done, std::string noun)
    : periods_(periods),
      noun_(std::move(noun)),
      bar_("training", periods.total_steps(), done),
      table_(periods, noun_) {}

void ConsoleLog::step(std::int64_t step, const StepReport& report, double lr,
                      const TrainingClock& clock) {
  const std::string figures =
      format("loss %.4f  %.1f %s/s", report.loss, clock.samples_per_second(), noun_.c_str());
  if (periods_.log_due(step)) {
    log_detail(format("step %lld/%lld  epoch %.2f  %s  lr %.2e  grad %.2f  %s %.0f %%  left ",
                      static_cast<long long>(step), static_cast<long long>(periods_.total_steps()),
                      periods_.epoch_at(step), figures.c_str(), lr, report.grad_norm,
                      report.idle_seconds ? "GPU waited" : "waited for data",
                      clock.percent_waited()) +
               bar_.time_left(step));
  }
  lr_ = lr;
  table_.add(report.loss, clock);
  if (step % periods_.steps_per_epoch() == 0 && !periods_.evaluation_due(step)) {
    row(step, nullptr, false);
  }
  bar_.update(step, figures);
}

void ConsoleLog::evaluation(std::int64_t step, const std::string& split, const Evaluation& result) {
  log_detail(cat("evaluation at step ", step, " (", split, "): ", result.metrics.text, "  ",
                 counted(result.count, noun_), " in ", name_of(result.compute), "  ",
                 format_duration(result.seconds)));
}

void ConsoleLog::judged(std::int64_t step, const Metrics& metrics, bool best) {
  row(step, &metrics, best);
}

void ConsoleLog::row(std::int64_t step, const Metrics* metrics, bool best) {
  if (!errors_on_terminal()) return;
  const std::string text =
      table_.row(step, lr_, metrics, best, bar_.time_left(step), errors_have_color());
  if (text.empty()) return;
  bar_.clear();
  std::fputs(text.c_str(), stderr);
}

void ConsoleLog::evaluation_progress(std::int64_t step, std::int64_t done, std::int64_t total) {
  bar_.update(step, cat("evaluating ", done, "/", total));
}

void ConsoleLog::info(const std::string& message) {
  bar_.clear();
  log_info(message);
}

void ConsoleLog::warn(const std::string& message) {
  bar_.clear();
  log_warn(message);
}

}  // namespace dtn
