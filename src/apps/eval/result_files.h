// Results of dtn-eval for each image: safetensors files of logits, features and attention, in the
// order of the data set.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtn/nn/observer.h"
#include "dtn/tasks/classify.h"
#include "io/safetensors_stream.h"

namespace dtn::app {

// Output paths; an empty path means that the result is not saved.
struct ResultPaths {
  std::string logits, features, attention;
  std::vector<int> layers;  // blocks whose attention is saved

  // --save-logits, --save-features, --save-attention, --layers.
  std::vector<CLI::Option*> add_to(CLI::App& app);
  bool any() const { return !logits.empty() || !features.empty() || !attention.empty(); }
};

// Table [count, ...] of float32 with rows of the shape `row`, and labels if they are known: [count]
// int64, or [count, K] float32. Rows are written as they arrive, so the table need not fit into
// memory.
class RowFile {
 public:
  RowFile(const std::string& path, const std::string& name, std::int64_t count, const Shape& row,
          const Tensor& labels);

  // Writes row `index`. Calls come in ascending order of `index`; skipped rows become NaN.
  void add(std::int64_t index, const float* row);
  void finish();

 private:
  void skip_to(std::int64_t index);

  std::int64_t count_, width_, next_ = 0;
  std::vector<float> nothing_;  // NaN
  SafetensorsStream file_;
};

// Attention weights of some blocks of a vision transformer, attention.<block> [count, H, T, T]. The
// tokens are the prefix, if it has joined, and the patches in raster order. The weights are held in
// memory, so only few images are allowed.
class AttentionFile : public Observer {
 public:
  static constexpr std::int64_t kMaxImages = 64;

  // Throws ConfigError for too many images, for layers that do not exist and for models without
  // these blocks.
  AttentionFile(const std::string& path, const std::vector<int>& layers, std::int64_t count,
                Classifier& model);

  void begin_layer(const Tensor& x, const TokenGrid& grid) override;
  void attention(const AttentionView& view) override;
  // Stores the attention of the last forward pass, which ran on the images with these indices.
  void add(std::span<const std::int64_t> indices);
  void finish();

 private:
  struct Layer {
    int block;
    Tensor seen;  // of the last batch, [n, H, T, T]
    Tensor all;   // [count, H, T, T]; NaN where an image was damaged
  };

  std::string path_;
  std::int64_t count_;
  int blocks_begun_ = 0;  // in the current forward pass
  std::vector<Layer> layers_;
};

class ResultFiles {
 public:
  // `labels` as for RowFile, or undefined. The task must outlive this object.
  ResultFiles(const ResultPaths& paths, Classify& task, std::int64_t count, const Tensor& labels);

  // Must see the model's passes for add(); null: none is needed.
  Observer* observer() { return attention_ ? &*attention_ : nullptr; }
  // Adds the result of the task's outputs() for the images with these indices, in ascending order.
  void add(std::span<const std::int64_t> indices, const Fields& outputs);
  // Moves the files to their final names. Without this call there are no files.
  void finish();

 private:
  std::optional<RowFile> logits_, features_;
  std::optional<AttentionFile> attention_;
};

}  // namespace dtn::app
