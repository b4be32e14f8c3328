#include "train/run_log.h"

#include "core/format.h"
#include "dtn/core/log.h"

namespace dtn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

JsonLinesWriter open_metrics(const std::filesystem::path& output,
                             std::optional<std::int64_t> resumed_at, std::int64_t evaluated_step) {
  // A run that starts in a folder without checkpoints drops the lines of an earlier attempt.
  return JsonLinesWriter::open_for_resume(output / "metrics.jsonl", resumed_at.value_or(-1),
                                          evaluated_step);
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& output, bool silent,
               std::optional<std::int64_t> resumed_at, std::int64_t evaluated_step,
               std::int64_t total_steps, std::int64_t steps_per_epoch, std::string noun)
    : step_(resumed_at.value_or(0)),
      total_steps_(total_steps),
      steps_per_epoch_(steps_per_epoch),
      mark_(Clock::now()),
      noun_(std::move(noun)) {
  if (silent) return;
  out_.reset(new Outputs{open_metrics(output, resumed_at, evaluated_step),
                         EventWriter(output / "tensorboard", resumed_at),
                         {"training", total_steps, resumed_at.value_or(0)}});
}

void RunLog::pause() {
  auto now = Clock::now();
  training_.seconds += seconds_between(mark_, now);
  window_seconds_ += seconds_between(mark_, now);
  mark_ = now;
}

void RunLog::resume() { mark_ = Clock::now(); }

void RunLog::train_step(std::int64_t step, const StepReport& report, double lr,
                        std::int64_t samples, double data_wait_seconds, bool write) {
  pause();
  step_ = step;
  training_.samples += samples;
  window_samples_ += samples;
  window_wait_ += data_wait_seconds - last_wait_;
  last_wait_ = data_wait_seconds;
  window_idle_ += report.idle_seconds.value_or(0);
  double rate = window_seconds_ > 0 ? static_cast<double>(window_samples_) / window_seconds_ : 0;
  std::string detail = format("loss %.4f  %.1f %s/s", report.loss, rate, noun_.c_str());
  if (write) {
    report_step(step, report, lr, detail, rate);
    window_seconds_ = window_wait_ = window_idle_ = 0;
    window_samples_ = 0;
  }
  if (out_) out_->bar.update(step, detail);
}

void RunLog::report_step(std::int64_t step, const StepReport& report, double lr,
                         const std::string& detail, double rate) {
  if (!out_) return;
  JsonFields line = {{"step", step}, {"epoch", epoch_at(step)},       {"loss", report.loss},
                     {"lr", lr},     {"grad_norm", report.grad_norm}, {"images_per_second", rate}};
  EventWriter& events = out_->events;
  events.add_scalar("train/loss", report.loss, step);
  events.add_scalar("train/lr", lr, step);
  events.add_scalar("train/grad_norm", report.grad_norm, step);
  events.add_scalar("train/images_per_second", rate, step);
  for (const auto& [name, value] : report.terms) {
    line.emplace_back(name, value);
    events.add_scalar("train/" + name, value, step);
  }
  out_->metrics.write(line);
  events.flush();
  // A CUDA device computes while the host waits for data, so only its idle time counts.
  bool device = report.idle_seconds.has_value();
  double waited = device ? window_idle_ : window_wait_;
  double share = window_seconds_ > 0 ? 100 * waited / window_seconds_ : 0;
  info(format("step %lld/%lld  epoch %.2f  %s  lr %.2e  grad %.2f  %s %.0f %%  left ",
              static_cast<long long>(step), static_cast<long long>(total_steps_), epoch_at(step),
              detail.c_str(), lr, report.grad_norm, device ? "GPU waited" : "waited for data",
              share) +
       out_->bar.time_left(step));
}

void RunLog::evaluation(std::int64_t step, const std::string& split, const Evaluation& result) {
  if (!out_) return;
  JsonFields line = {{"step", step}, {"epoch", epoch_at(step)}, {"split", split}};
  EventWriter& events = out_->events;
  for (const auto& [name, value] : result.metrics.values) {
    line.emplace_back(name, value);
    events.add_scalar(cat(split, "/", name), value, step);
  }
  line.emplace_back("count", result.count);
  out_->metrics.write(line);
  events.flush();
  info(cat("evaluation at step ", step, " (", split, "): ", result.metrics.text, "  ",
           counted(result.count, noun_), " in ", name_of(result.compute), "  ",
           format_duration(result.seconds)));
}

void RunLog::evaluation_progress(std::int64_t done, std::int64_t total) {
  if (out_) out_->bar.update(step_, cat("evaluating ", done, "/", total));
}

void RunLog::info(const std::string& message) {
  if (!out_) return;
  out_->bar.clear();
  log_info(message);
}

void RunLog::warn(const std::string& message) {
  if (!out_) return;
  out_->bar.clear();
  log_warn(message);
}

void RunLog::sync() {
  if (out_) out_->metrics.sync();
}

}  // namespace dtn
