#include "kernels/pointwise/gather.h"

#include "cuda/twin.h"
#include "kernels/primitive/select.h"

namespace dtn::test {
namespace {

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

TEST(CudaNeighbours, MatchHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t sizes[][4] = {{2, 5, 7, 16}, {1, 1, 9, 3}, {3, 4, 1, 8}, {1, 14, 14, 24}};
  for (DType dtype : kTypes) {
    for (auto [batch, h, w, channels] : sizes) {
      for (std::int64_t shift : {0, 1}) {
        SCOPED_TRACE(cat(name_of(dtype), " ", h, " x ", w, " x ", channels, " at ", shift));
        const std::int64_t tokens = batch * h * w;
        Twin x = random_twin({tokens * channels + shift}, dtype, 1);
        Twin dy = random_twin({tokens * channels * 9 + shift}, dtype, 2);
        Twin y = Twin::output({tokens * channels * 9 + shift}, dtype);
        Twin dx = Twin::output({tokens * channels + shift}, dtype);
        auto at = [&, moved = shift](const Twin& t, Where where) {
          return static_cast<void*>(static_cast<std::byte*>(t.at(where)) +
                                    static_cast<std::size_t>(moved) * size_of(dtype));
        };
        for (Where where : {kOnHost, kOnDevice}) {
          const NeighboursForward forward{dtype, batch, h, w, channels, at(x, where), at(y, where)};
          const NeighboursBackward backward{dtype,         batch,        h, w, channels,
                                            at(dy, where), at(dx, where)};
          where == kOnDevice ? run(cuda_queue(), forward) : run(cpu_queue(), forward);
          where == kOnDevice ? run(cuda_queue(), backward) : run(cpu_queue(), backward);
        }
        EXPECT_TRUE(same_bits(y.device(), y.host())) << "a copy";
        EXPECT_TRUE(same_bits(dx.device(), dx.host())) << "nine terms in the same order";
        record_error("gather", "neighbours", dtype, 0, 0);
      }
    }
  }
}

TEST(CudaSelect, RowsOfTableMatchHostAndGiveNaNForInvalidIndex) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::vector<std::int64_t> places = {3, 0, 3, -1, 5, 6, 3};  // -1 and 6 are bad
  for (std::int64_t columns : {1, 77, 300}) {
    Twin index(Tensor::from(places, {7}));
    Twin table = random_twin({6, columns}, DType::kFloat32, 1);
    Twin dy = random_twin({7, columns}, DType::kFloat32, 2);
    Twin y = Twin::output({7, columns}, DType::kFloat32);
    Twin dtable = Twin::accumulated({6, columns}, DType::kFloat32, 3);
    for (Where where : {kOnHost, kOnDevice}) {
      const auto* i = static_cast<const std::int64_t*>(index.at(where));
      const SelectForward forward{DType::kFloat32, 1, 6,          columns, 7,
                                  table.at(where), i, y.at(where)};
      const SelectBackward backward{DType::kFloat32, 1, 6, columns, 7, i, dy.at(where),
                                    dtable.at(where)};
      where == kOnDevice ? run(cuda_queue(), forward) : run(cpu_queue(), forward);
      where == kOnDevice ? run(cuda_queue(), backward) : run(cpu_queue(), backward);
    }
    EXPECT_EQ(relative_error(doubles(y.device()), doubles(y.host())), 0);
    const Doubles got = doubles(y.device());
    for (std::int64_t r : {3, 5}) {
      EXPECT_TRUE(std::isnan(got[static_cast<std::size_t>(r * columns)])) << "row " << r;
    }
    // The device sums the rows before it adds them to the table.
    expect_close("gather", "select", dtable.device(), doubles(dtable.host()),
                 rounding_bound(DType::kFloat32, 4));
  }
  // More rows than are summed at once.
  constexpr std::int64_t kRows = 2500;
  std::vector<std::int64_t> many(kRows);
  for (std::int64_t r = 0; r < kRows; ++r) many[static_cast<std::size_t>(r)] = r * r % 7 - 1;
  const Twin index(Tensor::from(many, {kRows}));
  const Twin dy = random_twin({kRows, 40}, DType::kFloat32, 4);
  under_every_schedule([&] {
    const Twin dtable = Twin::accumulated({6, 40}, DType::kFloat32, 5);
    auto backward = [&](Where where) {
      const auto* i = static_cast<const std::int64_t*>(index.at(where));
      return SelectBackward{DType::kFloat32, 1, 6, 40, kRows, i, dy.at(where), dtable.at(where)};
    };
    run(cpu_queue(), backward(kOnHost));
    run(cuda_queue(), backward(kOnDevice));
    expect_close("gather", "select of many", dtable.device(), doubles(dtable.host()),
                 rounding_bound(DType::kFloat32, kRows));
    return std::vector<Tensor>{dtable.device()};
  });
  run(cuda_queue(), SelectForward{DType::kFloat32, 1, 0, 0, 0, nullptr, nullptr, nullptr});
  run(cuda_queue(), NeighboursForward{DType::kFloat32, 0, 3, 3, 4, nullptr, nullptr});
}

}  // namespace
}  // namespace dtn::test
