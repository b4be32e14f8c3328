#include "kernels/detect/roi_align.h"

#include "cuda/twin.h"
#include "unit/kernels/roi_align_problem.h"

namespace dtn::test {
namespace {

// A case in both memories.
struct Problem {
  DType dtype;
  RoiCase rois;
  Twin image, level, boxes, dy, y;
  std::vector<Twin> features, dfeatures;

  Problem(DType d, const RoiCase& c) : dtype(d), rois(c) {
    image = Twin(Tensor::from(c.image, {c.rois()}));
    level = Twin(Tensor::from(c.level, {c.rois()}));
    boxes = Twin(Tensor::from(c.boxes, {c.rois(), 4}));
    dy = random_twin({c.outputs()}, d, 1);
    y = Twin::output({c.outputs()}, d);
    for (std::size_t l = 0; l < c.grid_h.size(); ++l) {
      features.push_back(random_twin({c.cells(l)}, d, static_cast<std::uint32_t>(l + 2)));
      dfeatures.push_back(Twin::output({c.cells(l)}, d));
    }
  }
  RoiAlignShape shape(Where w) const {
    RoiAlignShape s = rois.shape(dtype);
    s.image = static_cast<const std::int64_t*>(image.at(w));
    s.level = static_cast<const std::int64_t*>(level.at(w));
    s.boxes = static_cast<const float*>(boxes.at(w));
    return s;
  }
  void run_both(Where w) const {
    RoiAlignForward forward{shape(w), {}, y.at(w)};
    RoiAlignBackward backward{shape(w), dy.at(w), {}};
    for (std::size_t l = 0; l < features.size(); ++l) {
      forward.features[l] = features[l].at(w), backward.dfeatures[l] = dfeatures[l].at(w);
    }
    w == kOnDevice ? run(cuda_queue(), forward) : run(cpu_queue(), forward);
    w == kOnDevice ? run(cuda_queue(), backward) : run(cpu_queue(), backward);
  }
  std::vector<Tensor> results() const {
    std::vector<Tensor> all{y.device()};
    for (const Twin& t : dfeatures) all.push_back(t.device());
    return all;
  }
};

// Both add in float32, in different orders.
TEST(CudaRoiAlign, MatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (std::int64_t channels : {1, 83, 130}) {
      RoiCase c;
      c.size = channels == 83 ? 7 : 3, c.channels = channels;
      c.add_all_kinds();
      const Problem p(dtype, c);
      p.run_both(kOnHost);
      p.run_both(kOnDevice);
      const double bound = rounding_bound(dtype, 200);
      expect_close("roi_align_forward", cat(channels, " channels"), p.y.device(),
                   doubles(p.y.host()), bound);
      for (const Twin& t : p.dfeatures) {
        expect_close("roi_align_backward", cat(channels, " channels"), t.device(),
                     doubles(t.host()), bound);
      }
    }
  }
}

// More boxes than a block looks through at once, all on the same few cells.
TEST(CudaRoiAlign, ManyBoxesUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  RoiCase c;
  c.grid_h = {3}, c.grid_w = {5}, c.size = 2, c.channels = 3;
  for (int r = 0; r < 1100; ++r) {
    const auto x = static_cast<float>(r % 7), y = static_cast<float>(r % 5);
    c.add(r % 2, 0, x, y, x + 9.5f, y + 8.25f);
  }
  under_every_schedule([&] {
    const Problem p(DType::kFloat32, c);
    p.run_both(kOnHost);
    p.run_both(kOnDevice);
    expect_close("roi_align_backward", "many boxes", p.dfeatures[0].device(),
                 doubles(p.dfeatures[0].host()), rounding_bound(DType::kFloat32, 4400));
    return p.results();
  });
}

}  // namespace
}  // namespace dtn::test
