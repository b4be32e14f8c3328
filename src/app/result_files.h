// What dtn-eval saves of each image: safetensors files of logits, features and attention, in the
// order of the data set.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtn/tasks/classify.h"
#include "io/safetensors_stream.h"

namespace dtn::app {

// Where to save what; empty: not at all.
struct ResultPaths {
  std::string logits, features, attention;
  std::vector<int> layers;  // blocks whose attention is saved

  // --save-logits, --save-features, --save-attention, --layers.
  std::vector<CLI::Option*> add_to(CLI::App& app);
  bool any() const { return !logits.empty() || !features.empty() || !attention.empty(); }
};

// A table [count, width] of float32, and labels [count] int64 where they are known, written while
// it comes: it need not fit into memory.
class RowFile {
 public:
  RowFile(const std::string& path, const std::string& name, std::int64_t count, std::int64_t width,
          const Tensor& labels);

  // Row `index`, in ascending order; rows left out become NaN.
  void add(std::int64_t index, const float* row);
  void finish();

 private:
  void skip_to(std::int64_t index);

  std::int64_t count_, width_, next_ = 0;
  std::vector<float> nothing_;  // NaN
  SafetensorsStream file_;
};

// The attention weights of some blocks, attention.<block> [count, H, T, T], held in memory, hence
// for few images.
class AttentionFile {
 public:
  static constexpr std::int64_t kMostImages = 64;

  // Watches the model, which must outlive it. Throws ConfigError for too many images, layers that
  // are not there and models that have no such blocks.
  AttentionFile(const std::string& path, const std::vector<int>& layers, std::int64_t count,
                Classifier& model);

  // What was watched last was of these images.
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
  std::vector<std::unique_ptr<Layer>> layers_;
};

class ResultFiles {
 public:
  // `labels` [count] int64, or undefined. The task must outlive it.
  ResultFiles(const ResultPaths& paths, Classify& task, std::int64_t count, const Tensor& labels);

  // Whether the model may leave out what the head does not need.
  bool skip_unread() const { return !attention_; }
  // What outputs() of the task gave for the images of these indices, which ascend.
  void add(std::span<const std::int64_t> indices, const Fields& outputs);
  // Gives the files their names; without it there are none.
  void finish();

 private:
  std::optional<RowFile> logits_, features_;
  std::optional<AttentionFile> attention_;
};

}  // namespace dtn::app
