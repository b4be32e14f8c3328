#include "apps/eval/grid_file.h"

#include "apps/common/program.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"
#include "io/image/image_encode.h"
#include "tasks/translate/picture_grid.h"

namespace dtn::app {
namespace {

// [1, C, H, W] each -> [N, C, H, W]
Tensor stacked(const std::vector<Tensor>& rows) {
  Shape shape = rows.front().shape();
  const auto count = static_cast<std::int64_t>(rows.size());
  Tensor all = Tensor::empty({count, shape[1], shape[2], shape[3]}, DType::kFloat32);
  for (std::int64_t i = 0; i < count; ++i) {
    all.slice(i, i + 1).copy_from(rows[static_cast<std::size_t>(i)]);
  }
  return all;
}

}  // namespace

CLI::Option* GridOptions::add_to(CLI::App& app) {
  auto* grid = app.add_option("--grid", file,
                              "image-to-image models: write a picture (PNG) with a row for each of "
                              "the first images: input, "
                              "output, target");
  add_count(app, "--grid-images", images, "with --grid: number of rows")->needs(grid);
  return grid;
}

void GridFile::add(const std::vector<std::int64_t>& indices, const Fields& batch,
                   const Tensor& output) {
  for (std::int64_t i = 0; i < output.dim(0); ++i) {
    if (indices[static_cast<std::size_t>(i)] >= options_.images) continue;
    const auto row = [&](const Tensor& of) { return of.slice(i, i + 1).clone(); };
    rows_.push_back({row(batch.at("input")), row(output), row(batch.at("target"))});
  }
}

void GridFile::finish() const {
  if (rows_.empty()) {
    log_warn("--grid: none of the first images could be read; no picture is written");
    return;
  }
  std::vector<Tensor> inputs, outputs, targets;
  for (const Row& row : rows_) {
    inputs.push_back(row.input);
    outputs.push_back(row.output);
    targets.push_back(row.target);
  }
  std::vector<std::byte> png;
  encode_png(picture_grid({stacked(inputs), stacked(outputs), stacked(targets)}, options_.images),
             png);
  write_file_atomic(options_.file, {reinterpret_cast<const char*>(png.data()), png.size()});
}

}  // namespace dtn::app
