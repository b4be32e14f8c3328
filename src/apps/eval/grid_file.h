// dtn-eval --grid: a picture of inputs, outputs and targets.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "dtn/core/fields.h"

namespace dtn::app {

// --grid and the option that belongs to it.
struct GridOptions {
  std::string file;  // PNG; empty: none
  std::int64_t images = 8;

  // Adds the options, and returns --grid.
  CLI::Option* add_to(CLI::App& app);
};

// Collects the first samples of an evaluation, and writes them as picture_grid(): a row for each
// image with its input, output and target.
class GridFile {
 public:
  explicit GridFile(const GridOptions& options) : options_(options) {}

  // Takes a batch and its outputs, on the host. `indices` are the positions of its samples.
  void add(const std::vector<std::int64_t>& indices, const Fields& batch, const Tensor& output);
  void finish() const;

 private:
  struct Row {
    Tensor input, output, target;  // [1, C, H, W]
  };

  GridOptions options_;
  std::vector<Row> rows_;
};

}  // namespace dtn::app
