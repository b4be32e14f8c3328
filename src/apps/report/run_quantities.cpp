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

Quantity of_evaluation(const std::string& split, const std::string& key, const std::string& task) {
  const bool top = is_top(key);
  Quantity q{.split = split, .key = key, .name = figure_name(split, key), .label = key};
  q.percent = q.higher_is_better = top;
  const std::string what = split == "val"       ? "Evaluation"
                           : split == "val_ema" ? "Evaluation of averaged weights"
                                                : "Evaluation on " + split;
  if (!top) {
    q.title = cat(what, ": ", key);
    return q;
  }
  const std::string figure = key == "top1" ? "top-1" : "top-5";
  q.label = figure + " (%)";
  q.title = cat(what, ": ", accuracy_name(task, figure));
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
  return {.key = key, .name = name, .title = title, .label = label};
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
      of_training("lr", "learning_rate", "Learning rate", "learning rate"),
      of_training("weight_decay", "weight_decay", "Weight decay", "weight decay"),
      of_training("teacher_momentum", "teacher_momentum", "Momentum of the teacher", "momentum"),
      of_training("teacher_temp", "teacher_temp", "Temperature of the teacher", "temperature"),
      gradient,
      of_training("images_per_second", "speed", "Speed", "images/s")};
}

// Adds the evaluated figures that are not in `out` yet.
void add_evaluations(std::span<const RunGroup> groups, std::vector<Quantity>& out) {
  const std::string task = common_task(groups);
  for (const RunGroup& group : groups) {
    for (const RunRecord& run : group.runs) {
      for (const auto& [split, curves] : run.evaluations) {
        for (const auto& [key, curve] : curves) {
          const Quantity q = of_evaluation(split, key, task);
          if (std::ranges::find(out, q.name, &Quantity::name) == out.end()) out.push_back(q);
        }
      }
    }
  }
}

// Adds the logged training values that are in none of the lists.
void add_others(std::span<const RunGroup> groups, const std::vector<Quantity>& known,
                std::vector<Quantity>& out) {
  const auto has = [](const std::vector<Quantity>& list, const std::string& key) {
    return std::ranges::any_of(list,
                               [&](const Quantity& q) { return q.split.empty() && q.key == key; });
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
  std::vector<Quantity> out = {of_training("loss", "training_loss", "Training: loss", "loss")};
  add_evaluations(groups, out);
  std::ranges::stable_sort(out, {}, [](const Quantity& q) {
    return q.key == "top1" ? 0 : q.key == "loss" ? 1 : q.key == "top5" ? 2 : 3;
  });
  std::ranges::move(terms_of(groups), std::back_inserter(out));
  const std::vector<Quantity> last = settings();
  add_others(groups, last, out);
  out.insert(out.end(), last.begin(), last.end());
  return out;
}

const plot::Series* curve_in(const RunRecord& run, const Quantity& q) {
  const Curves* curves = &run.training;
  if (!q.split.empty()) {
    const auto split = run.evaluations.find(q.split);
    if (split == run.evaluations.end()) return nullptr;
    curves = &split->second;
  }
  const auto found = curves->find(q.key);
  return found == curves->end() ? nullptr : &found->second;
}

}  // namespace dtn
