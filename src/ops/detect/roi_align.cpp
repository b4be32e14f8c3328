#include "kernels/detect/roi_align.h"

#include <array>
#include <cmath>

#include "dtn/ops/detection.h"
#include "dtn/ops/primitive.h"
#include "ops/host_constant.h"

namespace dtn::ops {
namespace {

static_assert(kRoiLevels == kMaxRoiLevels);

void check_rois(const Rois& rois, std::int64_t batch, std::int64_t levels) {
  DTN_CHECK(rois.boxes.defined() && rois.boxes.rank() == 2 && rois.boxes.dim(1) == 4 &&
                rois.boxes.dtype() == DType::kFloat32,
            "roi_align: the boxes must be float32 [R, 4]");
  const std::int64_t count = rois.boxes.dim(0);
  for (const Tensor* of : {&rois.image, &rois.level}) {
    DTN_CHECK(of->defined() && of->shape() == Shape{count} && of->dtype() == DType::kInt64,
              "roi_align: needs int64 images and levels of ", count, " boxes");
  }
  if (rois.image.device() != kCpu) return;  // the kernel gives NaN
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t image = rois.image.data<std::int64_t>()[r];
    const std::int64_t level = rois.level.data<std::int64_t>()[r];
    DTN_CHECK(0 <= image && image < batch, "roi_align: image ", image, " of box ", r,
              " is outside [0, ", batch, ")");
    DTN_CHECK(0 <= level && level < levels, "roi_align: level ", level, " of box ", r,
              " is outside [0, ", levels, ")");
  }
}

RoiAlignShape checked_shape(const std::vector<RoiLevel>& levels, const Rois& rois,
                            std::int64_t size) {
  DTN_CHECK(!levels.empty() && static_cast<int>(levels.size()) <= kMaxRoiLevels,
            "roi_align: ", levels.size(), " levels; 1 to ", kMaxRoiLevels, " are possible");
  DTN_CHECK(size > 0, "roi_align: ", size, " bins; at least 1 is needed");
  const Variable& first = levels[0].features;
  DTN_CHECK(first.value().rank() == 3, "roi_align: the features must be [B, H W, C], not ",
            to_string(first.shape()));
  RoiAlignShape shape{};
  shape.dtype = first.dtype();
  shape.levels = static_cast<int>(levels.size());
  shape.batch = first.dim(0), shape.channels = first.dim(2);
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const RoiLevel& level = levels[l];
    const Shape want{shape.batch, level.grid_h * level.grid_w, shape.channels};
    DTN_CHECK(level.features.shape() == want && level.features.dtype() == shape.dtype,
              "roi_align: the features of level ", l, " are ", name_of(level.features.dtype()), " ",
              to_string(level.features.shape()), ", not ", name_of(shape.dtype), " ",
              to_string(want));
    DTN_CHECK(level.scale > 0, "roi_align: level ", l, " has the scale ", level.scale);
    shape.grid_h[l] = level.grid_h, shape.grid_w[l] = level.grid_w;
    shape.scale[l] = level.scale;
  }
  check_rois(rois, shape.batch, shape.levels);
  shape.rois = rois.boxes.dim(0), shape.size = size;
  shape.image = static_cast<const std::int64_t*>(rois.image.raw());
  shape.level = static_cast<const std::int64_t*>(rois.level.raw());
  shape.boxes = static_cast<const float*>(rois.boxes.raw());
  return shape;
}

}  // namespace

Variable roi_align(Context& ctx, const std::vector<RoiLevel>& levels, const Rois& rois,
                   std::int64_t size) {
  const RoiAlignShape shape = checked_shape(levels, rois, size);
  const Device device = levels[0].features.device();
  RoiAlignForward forward{shape, {}, nullptr};
  std::array<const Variable*, kMaxRoiLevels> in{};
  std::array<GradSink, kMaxRoiLevels> sinks;
  std::array<Shape, kMaxRoiLevels> shapes;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    in[l] = &levels[l].features;
    sinks[l] = in[l]->sink();
    shapes[l] = in[l]->shape();
    forward.features[l] = in[l]->value().raw();
  }
  Tensor y = Tensor::empty({shape.rois, size * size, shape.channels}, shape.dtype, device);
  forward.y = y.raw();
  run_on(device, forward);
  // Keeps the boxes alive, because `shape` points to them.
  return ctx.record("roi_align", y, {in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]},
                    [shape, device, sinks, shapes, kept = rois](const Tensor& dy) {
                      RoiAlignBackward backward{shape, dy.raw(), {}};
                      std::array<Tensor, kMaxRoiLevels> gradients;
                      for (std::size_t l = 0; l < sinks.size(); ++l) {
                        if (!sinks[l]) continue;
                        gradients[l] = Tensor::empty(shapes[l], shape.dtype, device);
                        backward.dfeatures[l] = gradients[l].raw();
                      }
                      run_on(device, backward);
                      for (std::size_t l = 0; l < sinks.size(); ++l) {
                        if (sinks[l]) sinks[l]->accumulate(std::move(gradients[l]));
                      }
                    });
}

namespace reference {
using namespace primitive;

namespace {

// The rule of roi_align.h as a dense matrix [S, cells], written out sample by sample.
std::vector<double> axis_matrix(double begin, double end, double scale, std::int64_t bins,
                                std::int64_t cells) {
  std::vector<double> matrix(static_cast<std::size_t>(bins * cells));
  const double low = begin * scale - 0.5,
               bin = (end * scale - 0.5 - low) / static_cast<double>(bins);
  if (!(bin > 0)) return matrix;
  const double samples = std::ceil(bin);
  for (std::int64_t p = 0; p < bins; ++p) {
    for (double k = 0.5; k < samples; ++k) {
      double at = low + (static_cast<double>(p) + k / samples) * bin;
      if (at < -1 || at > static_cast<double>(cells)) continue;
      at = std::min(std::max(at, 0.0), static_cast<double>(cells - 1));
      for (std::int64_t i = 0; i < cells; ++i) {
        const double weight = std::max(1 - std::abs(at - static_cast<double>(i)), 0.0);
        matrix[static_cast<std::size_t>(p * cells + i)] += weight / samples;
      }
    }
  }
  return matrix;
}

}  // namespace

Variable roi_align(Context& ctx, const std::vector<RoiLevel>& levels, const Rois& rois,
                   std::int64_t size) {
  const RoiAlignShape shape = checked_shape(levels, rois, size);
  const Tensor image = rois.image.to(kCpu), level = rois.level.to(kCpu),
               boxes = rois.boxes.to(kCpu);
  Variable all;
  for (std::int64_t r = 0; r < shape.rois; ++r) {
    const auto l = static_cast<std::size_t>(level.data<std::int64_t>()[r]);
    const std::int64_t b = image.data<std::int64_t>()[r], h = levels[l].grid_h,
                       w = levels[l].grid_w;
    const float* box = boxes.data<float>() + 4 * r;
    const Variable x = upcast(ctx, levels[l].features);
    const auto matrix = [&](int lower, std::int64_t cells) {
      const std::vector<double> of =
          axis_matrix(box[lower], box[lower + 2], levels[l].scale, size, cells);
      return Variable(host_constant({size, cells}, x.dtype(), x.device(), [&](std::int64_t i) {
        return of[static_cast<std::size_t>(i)];
      }));
    };
    const Variable cells = reshape(ctx, narrow(ctx, x, 0, b, b + 1), {h, w, shape.channels});
    const Variable columns = matmul(ctx, matrix(0, w), cells);  // [H, S, C]
    const Variable flat = reshape(ctx, columns, {h, size * shape.channels});
    const Variable y =
        reshape(ctx, matmul(ctx, matrix(1, h), flat), {1, size * size, shape.channels});
    all = all.defined() ? concat(ctx, all, y, 0) : y;
  }
  DTN_CHECK(all.defined(), "roi_align: the reference needs a box");
  return cast(ctx, all, shape.dtype);
}

}  // namespace reference
}  // namespace dtn::ops
