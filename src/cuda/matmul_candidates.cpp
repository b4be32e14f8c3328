#include "cuda/matmul_candidates.h"

#include <cmath>

#include "dtn/core/check.h"

namespace dtn::cuda {
namespace {

// Returns an attribute of an algorithm; 0 if this version of the library does not know it.
template <class T>
T attribute(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which) {
  T value{};
  std::size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, which, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS && written == sizeof value ? value : T{};
}

// Number of times that a tile uses each element of the factors that it reads.
double reuse(const Tile& t) {
  return static_cast<double>(t.rows) * t.columns / (t.rows + t.columns);
}

}  // namespace

Candidate read_candidate(const cublasLtMatmulHeuristicResult_t& result) {
  const cublasLtMatmulAlgo_t& a = result.algo;
  const auto tile = attribute<std::uint32_t>(a, CUBLASLT_ALGO_CONFIG_TILE_ID);
  Candidate candidate{a, {}, tile_of(tile), result.wavesCount};
  candidate.recipe =
      cat("algorithm=", attribute<std::int32_t>(a, CUBLASLT_ALGO_CONFIG_ID), " tile=", tile,
          " stages=", attribute<std::uint32_t>(a, CUBLASLT_ALGO_CONFIG_STAGES_ID),
          " parts=", attribute<std::int32_t>(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
          " reduction=", attribute<std::uint32_t>(a, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
          " swizzle=", attribute<std::uint32_t>(a, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
          " custom=", attribute<std::uint32_t>(a, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
          " inner=", attribute<std::uint16_t>(a, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
          " cluster=", attribute<std::uint16_t>(a, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
  return candidate;
}

double work_over_need(const Candidate& candidate, const ProductSize& size) {
  const auto [rows, columns] = candidate.tile;
  if (rows == 0 || columns == 0) return 0;
  const auto rounded_up = [](std::int64_t n, int tile) {
    const std::int64_t covered = (n + tile - 1) / tile * tile;
    return static_cast<double>(covered) / static_cast<double>(n);
  };
  const double waiting = candidate.waves > 0 ? std::ceil(candidate.waves) / candidate.waves : 1;
  return rounded_up(size.rows, rows) * rounded_up(size.columns, columns) * waiting;
}

std::size_t least_padding(const std::vector<Candidate>& candidates, const ProductSize& size) {
  constexpr double kWorthwhile = 0.95, kMinReuse = 0.65;
  std::size_t best = 0;
  const auto fills_the_device = [](const Candidate& o) { return o.waves == 0 || o.waves >= 1; };
  if (candidates.empty() || !fills_the_device(candidates[0])) return 0;
  const double first = work_over_need(candidates[0], size);
  if (first == 0) return 0;
  double least = kWorthwhile * first;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const double work = work_over_need(candidates[i], size);
    if (work == 0 || work >= least || !fills_the_device(candidates[i])) continue;
    if (reuse(candidates[i].tile) < kMinReuse * reuse(candidates[0].tile)) continue;
    best = i;
    least = work;
  }
  return best;
}

}  // namespace dtn::cuda
