#include "cuda/twin.h"
#include "kernels/norm/channel_moments.h"

namespace dtn::test {
namespace {

constexpr DType kFloat = DType::kFloat32;

template <class Arguments>
void run_at(Where w, const Arguments& args) {
  w == kOnDevice ? run(cuda_queue(), args) : run(cpu_queue(), args);
}

// Packs and combines the moments of three ranks. A mean is two numbers, or one in float64.
TEST(CudaCombineMoments, MatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kRows[] = {1, 300, (std::int64_t{1} << 33) + 1};
  for (std::int64_t channels : {1, 128, 301}) {
    for (bool two_numbers : {true, false}) {
      under_every_schedule([&] {
        const DType of_mean = two_numbers ? kFloat : DType::kFloat64;
        const std::int64_t width = 2 * channels + 1;
        Twin packed = Twin::output({3, width}, DType::kFloat64);
        Twin mean = Twin::output({channels}, of_mean), variance = Twin::output({channels}, kFloat);
        Twin rest = two_numbers ? Twin::output({channels}, kFloat) : Twin();
        for (std::uint32_t r = 0; r < 3; ++r) {
          Twin own_mean = random_twin({channels}, of_mean, 1 + r, 2, 1e3);
          Twin own_rest = two_numbers ? random_twin({channels}, kFloat, 4 + r, 3e-5) : Twin();
          Twin own_variance = random_twin({channels}, kFloat, 7 + r, 0.5, 0.6);
          for (Where w : {kOnHost, kOnDevice}) {
            run_at(w,
                   PackMoments{kFloat, channels, kRows[r], own_mean.at(w), own_rest.at(w),
                               own_variance.at(w), static_cast<double*>(packed.at(w)) + r * width});
          }
        }
        EXPECT_TRUE(same_bits(packed.device(), packed.host()));
        for (Where w : {kOnHost, kOnDevice}) {
          run_at(w, CombineMoments{kFloat, channels, 3, static_cast<double*>(packed.at(w)),
                                   mean.at(w), rest.at(w), variance.at(w)});
        }
        // All in float64 except the last rounding; `rest` is the error of that rounding.
        std::vector<Tensor> results = {mean.device(), variance.device()};
        const double last = unit_roundoff(of_mean), u = unit_roundoff(kFloat);
        expect_close("combine_moments", cat(channels, ", mean"), results[0], doubles(mean.host()),
                     two_numbers ? last : 8 * last);
        expect_close("combine_moments", cat(channels, ", variance"), results[1],
                     doubles(variance.host()), 2 * u);
        if (two_numbers) {
          results.push_back(rest.device());
          Doubles got = doubles(results[0]), want = doubles(mean.host());
          for (std::size_t c = 0; c < got.size(); ++c) {
            got[c] += element(results[2], static_cast<std::int64_t>(c));
            want[c] += element(rest.host(), static_cast<std::int64_t>(c));
          }
          EXPECT_LE(relative_error(got, want), 2 * u * u + 8 * unit_roundoff(DType::kFloat64));
        }
        return results;
      });
    }
  }
}

TEST(CudaCombineMoments, AcceptsEmptyInputAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto check = [](auto args) {
    args.dtype = kFloat;
    run(cuda_queue(), args);
    args.dtype = DType::kFloat64;
    EXPECT_THROW(run(cuda_queue(), args), Error);
  };
  check(PackMoments{});
  check(CombineMoments{});
}

}  // namespace
}  // namespace dtn::test
