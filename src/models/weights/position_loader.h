// Resamples the position tables of a file to the grids of a model. The config in the file gives the
// file's grids, or else model.init_image_size does. Without both, a square number of positions is a
// square grid, and any other number is an error.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dtn/config/grid_keys.h"
#include "dtn/io/safetensors.h"
#include "dtn/models/classifier.h"
#include "models/weights/position_table.h"

namespace dtn {

class PositionLoader {
 public:
  // `origin` holds the keys of the file's config; `tensors` have the names of the parameters.
  // Throws ConfigError if model.init_image_size gives an invalid model.
  PositionLoader(const Classifier& model, const GridKeys& origin, const NamedTensors& tensors,
                 const std::string& source);

  // Returns the float32 table of a file in the shape of the parameter, which has a PositionLayout.
  // Undefined if the table needs no change, or is not a table of the parameter's kind and width.
  // Throws DataError if the grid of the file is not known, or does not have that many positions.
  Tensor fitted(const Parameter&, const Tensor& table);

  // Returns true if the first of the file's `rows` rows of `pos_embed` is the class token's. For a
  // model with positions for the patches only.
  bool has_class_row(std::int64_t rows) const;

  // Returns one note for each kind of change.
  std::vector<std::string> notes() const;

 private:
  struct FileTable {
    PositionGrid grid;
    std::int64_t prefix;  // rows before the grid's
  };

  void read_grids(const Classifier& model, const GridKeys& origin, const NamedTensors& tensors);
  bool fits(const Classifier& model, const NamedTensors& tensors) const;
  // `rows` is the number of positions in the file's table, prefix included.
  bool has_rows(const Parameter&, std::int64_t rows, std::int64_t prefix) const;
  FileTable table_of(const Parameter&, std::int64_t rows) const;
  bool takes_class_row(const Parameter&) const;
  [[noreturn]] void fail_unknown(const Parameter&, std::int64_t rows) const;
  [[noreturn]] void fail_count(const Parameter&, std::int64_t rows) const;

  Tensor fitted_tokens(const Parameter&, const Tensor& table, const FileTable& from) const;
  Tensor fitted_sines(const Parameter&, const Tensor& table);
  Tensor fitted_offsets(const Parameter&, const Tensor& table);
  void note(const Parameter&, const std::string& change);

  const ModelConfig& config_;
  const std::string& source_;
  bool has_class_token_;                         // in the file
  std::map<std::string, PositionLayout> grids_;  // of the file, by parameter; empty: unknown
  std::string told_by_;                          // the source of grids_, for messages
  std::vector<std::string> first_notes_;
  // Each change and its parameters, in order.
  std::vector<std::pair<std::string, std::vector<std::string>>> changes_;
};

}  // namespace dtn
