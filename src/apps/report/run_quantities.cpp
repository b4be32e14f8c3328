#include "apps/report/run_quantities.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

bool is_top(const std::string& key) { return key == "top1" || key == "top5"; }

// Makes the name of a figure from a key, which may hold any characters.
std::string figure_name(const std::string& prefix, const std::string& key) {
  std::string name = cat(prefix, "_", key);
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

// Returns the task of all runs; empty if they differ.
std::string common_task(std::span<const RunGroup> groups) {
  std::set<std::string> tasks;
  for (const RunGroup& group : groups) {
    for (const RunRecord& run : group.runs) tasks.insert(run.task);
  }
  return tasks.size() == 1 ? *tasks.begin() : "";
}

// Returns the figures of a task; none for an unknown task. The first is the most important.
std::vector<FigureSchema> figures_of(const std::string& task) {
  const auto* entry = standard_registries().tasks.find(task.empty() ? "classify" : task);
  return entry ? entry->schema.figures : std::vector<FigureSchema>();
}

FigureSchema figure_of(const std::string& task, const std::string& key) {
  if (is_top(key))
    return {.name = key, .title = key == "top1" ? "top-1" : "top-5", .percent = true};
  const std::vector<FigureSchema> known = figures_of(task);
  const auto found = std::ranges::find(known, key, &FigureSchema::name);
  return found == known.end() ? FigureSchema{.name = key, .title = key} : *found;
}

// Rank of a key among the figures of a page: the figure that chooses the best checkpoint, then the
// loss.
int rank_of(const std::string& task, const std::string& key) {
  const std::vector<FigureSchema> known = figures_of(task);
  if (!known.empty() && key == known.front().name) return 0;
  return key == "loss" ? 1 : key == "top1" || key == "top5" ? 2 : 3;
}

Quantity of_evaluation(const std::string& split, const std::string& key, const std::string& task) {
  Quantity q{.splits = {split}, .key = key, .name = figure_name(split, key), .label = key};
  const std::string what = split == "val"       ? "Evaluation"
                           : split == "val_ema" ? "Evaluation of averaged weights"
                                                : "Evaluation on " + split;
  const FigureSchema figure = figure_of(task, key);
  q.percent = figure.percent;
  q.label = figure.percent ? figure.title + " (%)" : figure.title;
  q.title = cat(what, ": ", is_top(key) ? accuracy_name(task, figure.title) : figure.title);
  return q;
}

// Returns the entropies of the teacher's outputs at which it has collapsed. Runs may differ in K.
std::vector<plot::RuledValue> collapsed_entropies(std::span<const RunGroup> groups) {
  std::set<double> outputs;
  for (const RunGroup& group : groups) {
    for (const RunRecord& run : group.runs) {
      if (run.training.contains("teacher_entropy") && run.outputs > 1) outputs.insert(run.outputs);
    }
  }
  std::vector<plot::RuledValue> rules = {{0, "0: one output takes all"}};
  for (const double k : outputs) {
    rules.push_back({std::log(k), format("ln %.0f = %.4g: all outputs are equal", k, std::log(k))});
  }
  return rules;
}

Quantity of_training(const std::string& key, const std::string& name, const std::string& title,
                     const std::string& label) {
  return {.splits = {kTraining}, .key = key, .name = name, .title = title, .label = label};
}

Quantity of_schedule(const std::string& key, const std::string& name, const std::string& title,
                     const std::string& label) {
  Quantity q = of_training(key, name, title, label);
  q.smooth = false;
  return q;
}

// Returns the terms of DINO's training.
std::vector<Quantity> terms_of(std::span<const RunGroup> groups) {
  Quantity entropy = of_training("teacher_entropy", "teacher_entropy",
                                 "Entropy of the teacher's outputs", "entropy (nats)");
  entropy.caption =
      "Mean over the images. Near either dotted line the teacher has collapsed: it says nothing "
      "about an image.";
  entropy.rules = collapsed_entropies(groups);
  Quantity center =
      of_training("center_norm", "center_norm", "Length of the teacher's center", "length");
  center.caption = "The center is the moving average of the teacher's outputs.";
  return {entropy, center,
          of_training("loss_global", "training_loss_global",
                      "Training: loss of the student's global views", "loss"),
          of_training("loss_local", "training_loss_local",
                      "Training: loss of the student's local views", "loss")};
}

// Returns the values that change on a schedule, the gradient norm and the speed.
std::vector<Quantity> settings() {
  Quantity gradient =
      of_training("grad_norm", "gradient_norm", "Gradient norm before clipping", "norm");
  gradient.log = true;
  return {
      of_schedule("lr", "learning_rate", "Learning rate", "learning rate"),
      of_schedule("weight_decay", "weight_decay", "Weight decay", "weight decay"),
      of_schedule("teacher_momentum", "teacher_momentum", "Momentum of the teacher", "momentum"),
      of_schedule("teacher_temp", "teacher_temp", "Temperature of the teacher", "temperature"),
      gradient,
      of_training("images_per_second", "speed", "Speed", "images/s")};
}

bool logs_in_training(std::span<const RunGroup> groups, const std::string& key) {
  return std::ranges::any_of(groups, [&](const RunGroup& group) {
    return std::ranges::any_of(group.runs,
                               [&](const RunRecord& run) { return run.training.contains(key); });
  });
}

// Adds a split to the figure of its key in training or in the split "val". Returns false if the
// split needs a figure of its own: colours tell splits apart in a single group, but else groups.
bool joins_figure(std::span<const RunGroup> groups, const std::string& split,
                  const std::string& key, std::vector<Quantity>& out) {
  if (groups.size() > 1 && split != "val") return false;
  const auto same = std::ranges::find_if(out, [&](const Quantity& q) {
    const std::string& first = q.splits.front();
    return q.key == key && (first == kTraining || first == "val");
  });
  if (same == out.end()) return false;
  if (std::ranges::find(same->splits, split) == same->splits.end()) same->splits.push_back(split);
  return true;
}

// Adds the evaluated figures.
void add_evaluations(std::span<const RunGroup> groups, std::vector<Quantity>& out) {
  const std::string task = common_task(groups);
  for (const RunGroup& group : groups) {
    for (const RunRecord& run : group.runs) {
      for (const auto& [split, curves] : run.evaluations) {
        for (const auto& [key, curve] : curves) {
          if (joins_figure(groups, split, key, out)) continue;
          Quantity q = of_evaluation(split, key, task);
          if (split == "val" && logs_in_training(groups, key)) {
            q.splits = {kTraining, "val"};
            q.name = figure_name("training_val", key);
          }
          if (std::ranges::find(out, q.name, &Quantity::name) == out.end()) out.push_back(q);
        }
      }
    }
  }
  for (Quantity& q : out) {
    if (q.splits.front() != kTraining || q.splits.size() == 1) continue;
    q.title = logs_in_training(groups, q.key)
                  ? cat(q.key == "loss" ? "Loss" : q.key, ": training and evaluation")
                  : cat("Evaluation: ", q.key);
  }
}

// Adds the logged training values that are in none of the lists.
void add_others(std::span<const RunGroup> groups, const std::vector<Quantity>& known,
                std::vector<Quantity>& out) {
  const auto has = [](const std::vector<Quantity>& list, const std::string& key) {
    return std::ranges::any_of(
        list, [&](const Quantity& q) { return q.splits.front() == kTraining && q.key == key; });
  };
  for (const RunGroup& group : groups) {
    for (const RunRecord& run : group.runs) {
      for (const auto& [key, curve] : run.training) {
        if (has(known, key) || has(out, key)) continue;
        out.push_back(of_training(key, figure_name("training", key), "Training: " + key, key));
      }
    }
  }
}

}  // namespace

std::string accuracy_name(const std::string& task, const std::string& figure) {
  if (task == "dino") return cat("k-NN ", figure, " of the teacher");
  return compares_neighbors(task) ? "k-NN " + figure : figure;
}

bool compares_neighbors(const std::string& task) { return task == "dino" || task == "supcon"; }

std::vector<Quantity> quantities_of(std::span<const RunGroup> groups) {
  std::vector<Quantity> out = {of_training("loss", "loss", "Training: loss", "loss")};
  add_evaluations(groups, out);
  const std::string task = common_task(groups);
  std::ranges::stable_sort(out, {}, [&](const Quantity& q) { return rank_of(task, q.key); });
  std::ranges::move(terms_of(groups), std::back_inserter(out));
  const std::vector<Quantity> last = settings();
  add_others(groups, last, out);
  out.insert(out.end(), last.begin(), last.end());
  return out;
}

std::string split_name(const std::string& split) {
  if (split == kTraining) return "training";
  if (split == "val") return "evaluation";
  return split == "val_ema" ? "averaged weights" : split;
}

const plot::Series* curve_in(const RunRecord& run, const std::string& split,
                             const std::string& key) {
  const Curves* curves = &run.training;
  if (split != kTraining) {
    const auto found = run.evaluations.find(split);
    if (found == run.evaluations.end()) return nullptr;
    curves = &found->second;
  }
  const auto found = curves->find(key);
  return found == curves->end() ? nullptr : &found->second;
}

GroupCurves curves_in(const RunGroup& group, const std::string& split, const std::string& key) {
  std::vector<plot::Series> logged;
  for (const RunRecord& run : group.runs) {
    if (const plot::Series* curve = curve_in(run, split, key)) logged.push_back(*curve);
  }
  GroupCurves out{.runs = plot::at_common_x(logged)};
  for (const plot::Series& run : logged) {
    for (std::size_t i = 0; i < run.x.size(); ++i) {
      const std::vector<double>& common = out.runs.front().x;
      const bool after = common.empty() || run.x[i] > common.back();
      out.shortened = out.shortened || (after && std::isfinite(run.y[i]));
    }
  }
  return out;
}

}  // namespace dtn
