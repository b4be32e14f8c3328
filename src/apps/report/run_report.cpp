#include "apps/report/run_report.h"

#include <algorithm>
#include <cmath>

#include "core/format.h"
#include "core/progress.h"
#include "dtn/core/check.h"
#include "io/atomic_file.h"
#include "plot/text.h"

namespace dtn {

using namespace drawing;

namespace {

// Last and best value of an evaluation metric; missing if there are none.
struct Reached {
  double last = plot::kMissing, best = plot::kMissing, best_epoch = plot::kMissing;
};

Reached reached_in(const RunRecord& run, const std::string& split, const std::string& key,
                   bool higher_is_better) {
  Reached out;
  const auto curves = run.evaluations.find(split);
  if (curves == run.evaluations.end()) return out;
  const auto found = curves->second.find(key);
  if (found == curves->second.end()) return out;
  const plot::Series& s = found->second;
  out.last = s.y.back();
  for (std::size_t i = 0; i < s.y.size(); ++i) {
    const bool better = higher_is_better ? s.y[i] > out.best : s.y[i] < out.best;
    if (!std::isfinite(out.best) || better) {
      out.best = s.y[i];
      out.best_epoch = s.x[i];
    }
  }
  return out;
}

std::vector<std::string> lead_of(const RunRecord& run) {
  std::vector<std::string> lead;
  const bool over = run.summary.is_object();
  if (const auto diverged = run.diverged_at()) {
    const std::string last = text_of(member(run.summary, "last_checkpoint"));
    lead.push_back(cat("Diverged at step ", *diverged, ". ",
                       last.empty() ? "No checkpoint has a finite loss."
                                    : "The newest checkpoint with a finite loss is " + last + "."));
  } else {
    lead.push_back(cat(over ? "Finished" : "In progress", " at step ", run.step, ", epoch ",
                       plot::readable(run.epoch, 4), "."));
  }
  const Reached top1 = reached_in(run, "val", "top1", true);
  if (std::isfinite(top1.last)) {
    lead.push_back(format("Top-1 %.2f %% at the last evaluation; best %.2f %% after epoch %.4g.",
                          top1.last, top1.best, top1.best_epoch));
  }
  const Reached loss = reached_in(run, "val", "loss", false);
  if (std::isfinite(loss.last)) {
    lead.push_back(format("Loss %.4f at the last evaluation; best %.4f.", loss.last, loss.best));
  }
  if (over) {
    lead.push_back(cat("It took ", format_duration(number_of(member(run.summary, "wall_seconds"))),
                       " on ", text_of(member(run.summary, "device")), "."));
  }
  return lead;
}

}  // namespace

void write_run_report(const std::filesystem::path& folder) {
  const RunGroup group{{}, {read_run_record(folder)}};
  const RunRecord& run = group.runs.front();
  plot::Page page{.title = run.name, .lead = lead_of(run)};
  page.sections.push_back({"Curves", {}, curve_figures({&group, 1})});
  if (auto inner = inner_figures(run); !inner.empty()) {
    page.sections.push_back({"Inside the model", {}, std::move(inner)});
  }
  page.sections.push_back({.title = "Config", .preformatted = run.config});
  write_file_atomic(folder / "report.html", plot::html(page));
}

std::string comparison_page(const std::string& title, std::span<const RunGroup> groups,
                            const std::vector<plot::Figure>& figures) {
  plot::Page page{.title = title};
  page.overview.columns = {"run", "seeds", "epoch", "top-1 (%), last", "best", "loss, last"};
  for (const RunGroup& group : groups) {
    double last = 0, best = 0, loss = 0, epoch = 0;
    std::string diverged;
    const auto n = static_cast<double>(group.runs.size());
    for (const RunRecord& run : group.runs) {
      const Reached top1 = reached_in(run, "val", "top1", true);
      last += top1.last / n;
      best += top1.best / n;
      loss += reached_in(run, "val", "loss", false).last / n;
      epoch = std::max(epoch, run.epoch);
      if (const auto step = run.diverged_at()) {
        diverged += cat(diverged.empty() ? ", diverged at step " : ", ", *step);
      }
    }
    const auto number = [](const char* pattern, double v) {
      return std::isfinite(v) ? format(pattern, v) : std::string("-");
    };
    page.overview.rows.push_back({group.label, cat(group.runs.size()),
                                  plot::readable(epoch) + diverged, number("%.2f", last),
                                  number("%.2f", best), number("%.4f", loss)});
  }
  page.sections.push_back({"Curves", {}, figures});
  return plot::html(page);
}

}  // namespace dtn
