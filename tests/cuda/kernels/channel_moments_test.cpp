#include "kernels/norm/channel_moments.h"

#include "cuda/twin.h"
#include "kernels/norm/channel_norm.h"

namespace dtn::test {
namespace {

constexpr DType kFloat = DType::kFloat32;

template <class Arguments>
void run_at(Where w, const Arguments& args) {
  w == kOnDevice ? run(cuda_queue(), args) : run(cpu_queue(), args);
}

TEST(CudaChannelMoments, MatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kSets = 3, kChannels = 301, kCount = kSets * kChannels;
  Twin mean = random_twin({kCount}, kFloat, 1), rest = random_twin({kCount}, kFloat, 2, 1e-6);
  Twin variance = random_twin({kCount}, kFloat, 3, 0.5, 0.5),
       std = random_twin({kCount}, kFloat, 4);
  Twin dmean = random_twin({kCount}, kFloat, 5), dstd = random_twin({kCount}, kFloat, 6);
  Twin weight = random_twin({kSets * 2 * kChannels}, kFloat, 7);
  Twin moments = Twin::output({2 * kCount}, kFloat), sums = Twin::output({2 * kCount}, kFloat);
  Twin of_one = Twin::output({2 * kCount}, kFloat), shared = Twin::output({2 * kCount}, kFloat);
  for (Where w : {kOnHost, kOnDevice}) {
    run_at(w, ChannelMomentsForward{kFloat, kCount, 1e-5, mean.at(w), rest.at(w), variance.at(w),
                                    moments.at(w)});
    run_at(w, ChannelMomentsBackward{kFloat, kSets, kChannels, std.at(w), dmean.at(w), dstd.at(w),
                                     sums.at(w)});
    run_at(w, ChannelMomentsBackward{kFloat, kSets, kChannels, std.at(w), nullptr, dstd.at(w),
                                     of_one.at(w)});
    run_at(w, ShareSums{kFloat, kSets, kChannels, weight.at(w), 2 * kChannels, sums.at(w),
                        shared.at(w)});
  }
  const double bound = rounding_bound(kFloat, kSets);
  expect_close("channel_moments", "moments", moments.device(), doubles(moments.host()), bound);
  expect_close("channel_moments", "sums", sums.device(), doubles(sums.host()), bound);
  expect_close("channel_moments", "sums of one", of_one.device(), doubles(of_one.host()), bound);
  expect_close("channel_moments", "shared", shared.device(), doubles(shared.host()), bound);
  auto refuses_float64 = [](auto args) {
    args.dtype = DType::kFloat32;
    run(cuda_queue(), args);  // nothing to do
    args.dtype = DType::kFloat64;
    EXPECT_THROW(run(cuda_queue(), args), Error);
  };
  refuses_float64(ChannelMomentsForward{});
  refuses_float64(ChannelMomentsBackward{});
  refuses_float64(ShareSums{});
}

// Conditional BatchNorm: the samples share their statistics, and each sample has separate gains.
// The parameters of consecutive samples are 2 C elements apart.
TEST(CudaChannelMoments, SamplesSharingStatisticsMatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  struct Sizes {
    std::int64_t sets, rows, channels;
  };
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (Sizes s : {Sizes{3, 50, 77}, Sizes{2, 196, 64}}) {
      const std::int64_t count = s.sets * s.rows * s.channels, of_sets = s.sets * s.channels;
      Twin x = random_twin({count}, dtype, 1, 2, 0.5), dy = random_twin({count}, dtype, 2);
      Twin gains = random_twin({2 * of_sets}, kFloat, 3);
      auto run_pass = [&](Where w, DType d, const Twin& in, const Twin& din, const Twin& g) {
        const DType acc = accumulator_of(d);
        Twin mean = Twin::output({of_sets}, acc), rest = Twin::output({of_sets}, acc);
        Twin variance = Twin::output({of_sets}, acc), sums = Twin::output({2 * of_sets}, acc);
        Twin shared = Twin::output({2 * of_sets}, acc);
        Twin y = Twin::output({count}, d), dx = Twin::output({count}, d);
        auto gain = [&] {
          return static_cast<const void*>(static_cast<std::byte*>(g.at(w)) +
                                          static_cast<std::size_t>(s.channels) * size_of(acc));
        };
        ChannelNormForward forward{};
        forward.dtype = d;
        forward.part = ChannelNormPart::kStatistics;
        forward.sets = 1;
        forward.rows = s.sets * s.rows;
        forward.channels = forward.groups = s.channels;
        forward.eps = 1e-3;
        forward.x = in.at(w);
        forward.mean = mean.at(w);
        forward.mean_rest = rest.at(w);
        forward.variance = variance.at(w);
        run_at(w, forward);
        for (const Twin* t : {&mean, &rest, &variance}) {
          const auto bytes = static_cast<std::size_t>(s.channels) * size_of(acc);
          for (std::int64_t k = 1; k < s.sets; ++k) {
            auto* first = static_cast<std::byte*>(t->at(w));
            auto* to = first + static_cast<std::size_t>(k) * bytes;
            w == kOnDevice ? cuda::copy_on_device(to, first, bytes)
                           : static_cast<void>(std::memcpy(to, first, bytes));
          }
        }
        forward.part = ChannelNormPart::kApplication;
        forward.sets = s.sets;
        forward.rows = s.rows;
        forward.weight = gain();
        forward.bias = g.at(w);
        forward.parameter_stride = 2 * s.channels;
        forward.y = y.at(w);
        run_at(w, forward);

        ChannelNormBackward backward{};
        backward.dtype = d;
        backward.part = ChannelNormPart::kStatistics;
        backward.sets = s.sets;
        backward.rows = s.rows;
        backward.channels = backward.groups = s.channels;
        backward.eps = 1e-3;
        backward.total_rows = s.sets * s.rows;
        backward.x = in.at(w);
        backward.mean = mean.at(w);
        backward.mean_rest = rest.at(w);
        backward.variance = variance.at(w);
        backward.dy = din.at(w);
        backward.sums = sums.at(w);
        run_at(w, backward);
        run_at(w, ShareSums{acc, s.sets, s.channels, gain(), 2 * s.channels, sums.at(w),
                            shared.at(w)});
        backward.part = ChannelNormPart::kApplication;
        backward.weight = gain();
        backward.parameter_stride = 2 * s.channels;
        backward.sums = shared.at(w);
        backward.weighted_sums = true;
        backward.dx = dx.at(w);
        run_at(w, backward);
        return w == kOnDevice ? std::vector<Tensor>{y.device(), sums.device(), dx.device()}
                              : std::vector<Tensor>{y.host(), sums.host(), dx.host()};
      };
      auto wide = [](const Twin& t) { return Twin(as(t.host(), DType::kFloat64)); };
      const auto exact = run_pass(kOnHost, DType::kFloat64, wide(x), wide(dy), wide(gains));
      const auto got = run_pass(kOnDevice, dtype, x, dy, gains);
      const auto host = run_pass(kOnHost, dtype, x, dy, gains);
      const double stored = rounding_bound(dtype, s.sets * s.rows);
      const double bounds[] = {stored, rounding_bound(kFloat, s.sets * s.rows), stored};
      for (std::size_t i = 0; i < 3; ++i) {
        expect_close("channel_norm", cat("shared statistics, result ", i), got[i],
                     doubles(exact[i]), bounds[i], 1);
        EXPECT_LE(relative_error(doubles(host[i]), doubles(exact[i]), 1), bounds[i]);
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
