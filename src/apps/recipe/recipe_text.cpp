#include "apps/recipe/recipe_text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn::app {
namespace {

// Returns a text as YAML; JSON strings are YAML.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string list_of(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += format("%s%.6g", text.empty() ? "" : ", ", value);
  return cat("[", text, "]");
}

// Appends a key, its value and a comment, in columns.
void add(std::string& text, const std::string& key, const std::string& value,
         const std::string& comment = "") {
  constexpr std::size_t kColumn = 29;
  std::string line = cat("  ", key, ": ", value);
  if (!comment.empty()) {
    line.resize(std::max(line.size() + 1, kColumn), ' ');
    line += "# " + comment;
  }
  text += line + "\n";
}

std::string model_section(const Recipe& r) {
  std::string text = "model:\n";
  if (r.start) {
    text += r.start->section;
    add(text, "init_weights", quoted(r.start->file));
    add(text, "init_head", "reset", "the classes are yours");
  } else {
    const ScratchModel& m = r.scratch;
    add(text, "preset", "vit_t", "its form; the sizes below replace its own");
    add(text, "norm", "dtn", "Dynamic Token Normalization; ln: LayerNorm");
    add(text, "image_size", cat(m.image_size), r.size_reason);
    add(text, "patch_size", cat(m.patch_size));
    add(text, "channels", cat(r.channels), r.channels == 1 ? "no image has colours" : "");
    add(text, "embed_dim", cat(m.embed_dim));
    add(text, "depth", cat(m.depth));
    add(text, "num_heads", cat(m.num_heads));
  }
  add(text, "num_classes", cat(r.classes));
  return text;
}

std::string data_section(const Recipe& r) {
  const DataConfig& d = r.layout.data;
  std::string text = "data:\n";
  add(text, "dataset", d.dataset);
  add(text, "root", quoted(d.root));
  if (d.train) add(text, "train", quoted(*d.train));
  if (d.labels) add(text, "labels", quoted(*d.labels));
  if (d.split) add(text, "split", format("%g", *d.split), "held out as the validation split");
  add(text, "resample", "pillow13", "resizes images as Pillow 13 does");
  add(text, "exif", "true", "turns images as their EXIF orientation says");
  if (r.balanced) {
    add(text, "sampling", "balanced", "the largest class has ten times the images of the smallest");
  }
  if (r.start) {
    add(text, "mean", list_of(r.start->mean), "as the weights expect");
    add(text, "std", list_of(r.start->std));
    add(text, "crop_pct", format("%g", r.start->crop_pct));
    add(text, "interpolation", r.start->interpolation);
  } else {
    add(text, "crop_pct", "1.0", "evaluations see the whole shorter side");
  }
  return text;
}

std::string training_sections(const Recipe& r) {
  // The rate of a batch of 128 from scratch, of 64 with weights. Adam's fits the square root of the
  // size of the batch.
  const double rate =
      r.start ? 3e-4 * std::sqrt(r.batch_size / 64.0) : 1e-3 * std::sqrt(r.batch_size / 128.0);
  std::string text = "augment:\n";
  add(text, "preset", "light", "random crops and mirror images");
  add(text, "scale", "[0.4, 1.0]", "smallest and largest share of the image in a crop");
  text += "optim:\n";
  add(text, "name", "adamw");
  add(text, "lr", format("%.3g", rate));
  add(text, "weight_decay", "0.05");
  if (r.start) add(text, "layer_decay", "0.7", "layers near the image change less");
  text += "schedule:\n";
  add(text, "epochs", cat(r.epochs), r.epochs_reason);
  add(text, "per", "step");
  add(text, "warmup_epochs", format("%.3g", std::min(5.0, 0.1 * r.epochs)));
  add(text, "warmup_lr", "1.0e-6");
  add(text, "min_lr", "1.0e-6");
  text += "train:\n";
  add(text, "batch_size", cat(r.batch_size));
  if (r.micro_batch) add(text, "micro_batch", cat(*r.micro_batch), "to fit into the memory");
  add(text, "precision", r.precision, "the faster one here");
  if (r.layout.task == "classify") add(text, "label_smoothing", "0.1");
  const int every = std::max(1, (r.epochs + 29) / 30);
  add(text, "eval_every", cat(every, "epoch"), "at most 30 evaluations");
  add(text, "checkpoint_every", cat(every, "epoch"));
  add(text, "log_every", cat(std::max<std::int64_t>(1, r.steps_per_epoch * every)));
  return text;
}

}  // namespace

std::string recipe_text(const Recipe& r) {
  return cat(r.heading, "name: ", quoted(r.name), "\ntask: ", r.layout.task, "\nseed: 0\n\n",
             model_section(r), "\n", data_section(r), "\n", training_sections(r));
}

}  // namespace dtn::app
