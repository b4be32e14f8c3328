#include "apps/eval/result_files.h"

#include <algorithm>
#include <limits>

#include "dtn/core/check.h"
#include "dtn/io/safetensors.h"
#include "dtn/models/classifier.h"

namespace dtn::app {

std::vector<CLI::Option*> ResultPaths::add_to(CLI::App& app) {
  auto* save_logits =
      app.add_option("--save-logits", logits,
                     "write 'logits' [N,K] float32 (features [N,C] with "
                     "model.num_classes 0; 'output' [N,C,H,W] of a diffusion model) "
                     "in data order to this safetensors file");
  auto* save_features = app.add_option("--save-features", features,
                                       "write 'features' [N,C] float32, the input of the head, and "
                                       "'labels' [N] int64 in data order to this safetensors file");
  auto* save_attention =
      app.add_option("--save-attention", attention,
                     "write 'attention.<layer>' [N,H,T,T] float32, the attention weights in the "
                     "blocks of --layers for at most 64 images, to this safetensors file");
  app.add_option("--layers", layers,
                 "blocks whose attention is saved, counted from 0, such as 0,11")
      ->delimiter(',')
      ->needs(save_attention);
  return {save_logits, save_features, save_attention};
}

// --- rows ---------------------------------------------------------------------------------------

namespace {

std::vector<safetensors::Item> items_of(const std::string& name, std::int64_t count,
                                        const Shape& row, const Tensor& labels) {
  std::vector<safetensors::Item> items;
  if (labels.defined()) items.push_back({"labels", labels.dtype(), labels.shape()});
  items.push_back({name, DType::kFloat32, shape_of({name, row}, count)});
  return items;
}

}  // namespace

RowFile::RowFile(const std::string& path, const std::string& name, std::int64_t count,
                 const Shape& row, const Tensor& labels)
    : count_(count),
      width_(row.numel()),
      nothing_(static_cast<std::size_t>(width_), std::numeric_limits<float>::quiet_NaN()),
      file_(path, items_of(name, count, row, labels)) {
  if (!labels.defined()) return;
  file_.append({static_cast<const std::byte*>(labels.raw()), labels.nbytes()});
}

void RowFile::skip_to(std::int64_t index) {
  for (; next_ < index; ++next_) file_.append(std::as_bytes(std::span(nothing_)));
}

void RowFile::add(std::int64_t index, const float* row) {
  DTN_CHECK(index >= next_ && index < count_, "row ", index, " after row ", next_ - 1);
  skip_to(index);
  file_.append(std::as_bytes(std::span(row, static_cast<std::size_t>(width_))));
  ++next_;
}

void RowFile::finish() {
  skip_to(count_);
  file_.commit();
}

// --- attention ----------------------------------------------------------------------------------

AttentionFile::AttentionFile(const std::string& path, const std::vector<int>& layers,
                             std::int64_t count, Classifier& model)
    : path_(path), count_(count) {
  if (model.family().name() != "vit") {
    throw ConfigError("--save-attention works only for models of the family vit");
  }
  if (layers.empty()) throw ConfigError("--save-attention needs --layers, such as --layers 0,11");
  if (count > kMaxImages) {
    throw ConfigError(cat("--save-attention: the data set has ", count,
                          " images, and attention weights are saved for at most ", kMaxImages,
                          "; give fewer with --inputs or --set data.val"));
  }
  for (int block : layers) {
    if (block < 0 || block >= model.config().blocks()) {
      throw ConfigError(
          cat("--layers ", block, ": the model has blocks 0 to ", model.config().blocks() - 1));
    }
    const bool known = std::ranges::any_of(layers_, [&](auto& l) { return l.block == block; });
    if (!known) layers_.push_back({block, {}, {}});
  }
}

void AttentionFile::begin_layer(const Tensor&, const TokenGrid&) { ++blocks_begun_; }

void AttentionFile::attention(const AttentionView& view) {
  for (Layer& layer : layers_) {
    if (layer.block == blocks_begun_ - 1) layer.seen = view.weights().to(kCpu);
  }
}

void AttentionFile::add(std::span<const std::int64_t> indices) {
  blocks_begun_ = 0;
  for (Layer& layer : layers_) {
    const Tensor& seen = layer.seen;
    if (!layer.all.defined()) {
      layer.all = Tensor::full({count_, seen.dim(1), seen.dim(2), seen.dim(3)}, seen.dtype(),
                               std::numeric_limits<double>::quiet_NaN());
    }
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      Tensor target = layer.all.slice(indices[i], indices[i] + 1);
      target.copy_from(seen.slice(row, row + 1));
    }
  }
}

void AttentionFile::finish() {
  NamedTensors tensors;
  for (const Layer& layer : layers_) {
    if (layer.all.defined()) tensors.emplace_back(cat("attention.", layer.block), layer.all);
  }
  write_safetensors(path_, tensors);
}

// --- all files ----------------------------------------------------------------------------------

ResultFiles::ResultFiles(const ResultPaths& paths, Classify& task, std::int64_t count,
                         const Tensor& labels) {
  Classifier& model = task.model();
  if (!paths.attention.empty()) attention_.emplace(paths.attention, paths.layers, count, model);
  if (!paths.logits.empty()) {
    logits_.emplace(paths.logits, "logits", count, Shape{model.outputs()}, Tensor());
  }
  if (!paths.features.empty()) {
    const std::int64_t width = model.backbone().stages().back().channels;
    features_.emplace(paths.features, "features", count, Shape{width}, labels);
    task.keep_features();
  }
}

void ResultFiles::add(std::span<const std::int64_t> indices, const Fields& outputs) {
  const auto add_rows = [&](std::optional<RowFile>& file, const char* name) {
    if (!file) return;
    const Tensor& rows = outputs.at(name);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      file->add(indices[i], rows.data<float>() + static_cast<std::int64_t>(i) * rows.dim(1));
    }
  };
  add_rows(logits_, "logits");
  add_rows(features_, "features");
  if (attention_) attention_->add(indices);
}

void ResultFiles::finish() {
  if (logits_) logits_->finish();
  if (features_) features_->finish();
  if (attention_) attention_->finish();
}

}  // namespace dtn::app
