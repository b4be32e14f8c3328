// Depthwise convolutions of 3 x 3 taps on a device, for windows that move by one column at a time.
// The sources of a row are loaded once and serve three places. See depthwise_tokens.h.
//
// For the outputs, or the gradient of the input, a thread computes two rows of four places in four
// channels: 24 loads, 18 of the kernel and 288 multiply-adds. For the gradient of the kernel, a
// thread walks along rows with the window in registers: four loads and 36 multiply-adds for a place
// in four channels. It sums all nine taps and the bias. The warps take the rows of a chunk in turn.
// Memory moves x and y, or x and dy, once, if the caches hold three rows of the sources.
#include "kernels/conv/depthwise_tokens_cuda.cuh"
#include "kernels/cuda/reduce.cuh"

namespace dtn::depthwise {
namespace {

constexpr int kSide = 3, kTaps = kSide * kSide;
constexpr int kSums = kTaps + 1;  // with the bias
constexpr int n = kVector;
constexpr int kRows = 2;  // rows of places per thread
using Places = ThreadPlaces<n, kRows>;

// One row of sources by column; zeros outside.
template <class T>
struct SourceRow {
  const T* begin;  // at column 0; null: the row is outside
  int columns;
  std::int64_t channels;

  __device__ __forceinline__ SourceRow(const Map& map, const T* from, std::int64_t image,
                                       std::int64_t y, std::int64_t channel)
      : begin(nullptr), columns(static_cast<int>(map.w.sources)), channels(map.channels) {
    if (y < 0 || y >= map.h.sources) return;
    begin = from + (image * map.h.sources + y) * map.w.sources * channels + channel;
  }
  __device__ __forceinline__ void load(int column, float (&to)[n]) const {
    if (begin && static_cast<unsigned>(column) < static_cast<unsigned>(columns)) {
      return cuda::load_values(begin + column * channels, to);
    }
#pragma unroll
    for (int k = 0; k < n; ++k) to[k] = 0;
  }
};

// The four rows of sources are loaded one after the other, because all of them do not fit the
// registers.
template <class T, class Index>
__global__ void __launch_bounds__(kThreads, kBlocks)
    depthwise_3x3_kernel(Map map, const T* from, const float* weight, const float* bias, T* to,
                         std::int64_t count) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (thread >= count) return;
  const auto at = Places::of<Index>(map, thread);
  const int left = static_cast<int>(map.w.first_source(at.first));
  float sum[kRows][kBeside][n];
#pragma unroll
  for (int r = 0; r < kRows; ++r) begin_sums(bias, at.channel, sum[r]);
#pragma unroll 1
  for (int y = 0; y < kRows + kSide - 1; ++y) {
    const SourceRow<T> row(map, from, at.image, map.h.first_source(at.row) + y, at.channel);
    float value[kBeside + kSide - 1][n];
#pragma unroll
    for (int j = 0; j < kBeside + kSide - 1; ++j) row.load(left + j, value[j]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (y < r || y >= r + kSide) continue;
#pragma unroll
      for (int v = 0; v < kSide; ++v) {
        float factor[n];
        cuda::load_values(weight + map.tap(y - r, v) * map.channels + at.channel, factor);
#pragma unroll
        for (int q = 0; q < kBeside; ++q) {
#pragma unroll
          for (int k = 0; k < n; ++k) sum[r][q][k] += factor[k] * value[q + v][k];
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (at.row + r < map.h.count) store_sums(map, at, at.row + r, sum[r], to);
  }
}

// A walk along a row of places. Column j of the window is kept at index j % 3.
template <class T>
struct Walk {
  SourceRow<T> rows[kSide];
  const T* dy;  // of place 0
  std::int64_t channels;
  int left;  // column of the first source of place 0
  float x[kSide][kSide][n];

  __device__ __forceinline__ Walk(const Map& map, const T* from, const T* of_dy, std::int64_t row,
                                  std::int64_t channel)
      : Walk(map, from, of_dy, row, row / map.h.count, row % map.h.count, channel) {}

  // Loads the last column that place m sees to index (k + 2) % 3, where k = m modulo 3.
  __device__ __forceinline__ void see(int m, int k) {
#pragma unroll
    for (int u = 0; u < kSide; ++u) rows[u].load(left + m + kSide - 1, x[u][(k + 2) % kSide]);
  }
  // Adds the terms of place m to the sums; k = m % 3.
  __device__ __forceinline__ void add(int m, int k, float (&sums)[kSums][n]) {
    float gradient[n];
    cuda::load_values(dy + m * channels, gradient);
    see(m, k);
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      const int u = tap / kSide, column = (k + tap % kSide) % kSide;
#pragma unroll
      for (int i = 0; i < n; ++i) sums[tap][i] += gradient[i] * x[u][column][i];
    }
#pragma unroll
    for (int i = 0; i < n; ++i) sums[kTaps][i] += gradient[i];
  }

 private:
  __device__ __forceinline__ Walk(const Map& map, const T* from, const T* of_dy, std::int64_t row,
                                  std::int64_t image, std::int64_t place, std::int64_t channel)
      : rows{{map, from, image, map.h.first_source(place), channel},
             {map, from, image, map.h.first_source(place) + 1, channel},
             {map, from, image, map.h.first_source(place) + 2, channel}},
        dy(of_dy + row * map.w.count * map.channels + channel),
        channels(map.channels),
        left(static_cast<int>(map.w.first_source(0))) {
    see(-2, -2 + kSide);
    see(-1, -1 + kSide);
  }
};

// Blocks: [chunk of rows, 128 channels]; threads: [warp, vector of channels].
template <class T>
__global__ void __launch_bounds__(kWarps* cuda::kWarpSize, kBlocks)
    depthwise_3x3_weight_kernel(Map map, const T* x, const T* dy, std::int64_t rows,
                                std::int64_t rows_per_chunk, float* partials) {
  constexpr int kWidth = cuda::kWarpSize * n;
  DTN_SHARED(float, shared);  // [kWarps, kSums, kWidth]
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const std::int64_t first_channel = std::int64_t{blockIdx.y} * kWidth;
  const std::int64_t channel = first_channel + lane * n;
  const std::int64_t begin = blockIdx.x * rows_per_chunk;
  const std::int64_t end = begin + rows_per_chunk < rows ? begin + rows_per_chunk : rows;
  const int places = static_cast<int>(map.w.count);

  float sums[kSums][n] = {};
  for (std::int64_t row = begin + warp; row < end && channel < map.channels; row += kWarps) {
    Walk<T> walk(map, x, dy, row, channel);
    int m = 0;
#pragma unroll 1
    for (; m + kSide <= places; m += kSide) {
#pragma unroll
      for (int k = 0; k < kSide; ++k) walk.add(m + k, k, sums);
    }
#pragma unroll
    for (int k = 0; k < kSide - 1; ++k) {
      if (m + k < places) walk.add(m + k, k, sums);
    }
  }
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    cuda::store_values(shared + (warp * kSums + i) * kWidth + lane * n, sums[i]);
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kSums * kWidth; i += kWarps * cuda::kWarpSize) {
    if (first_channel + i % kWidth >= map.channels) continue;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shared[w * kSums * kWidth + i];
    const std::int64_t output = blockIdx.x * std::int64_t{kSums} + i / kWidth;
    partials[output * map.channels + first_channel + i % kWidth] = sum;
  }
}

}  // namespace

template <class T>
void correlate_3x3(CudaQueue& queue, const char* name, const Map& map, const T* from,
                   const float* weight, const float* bias, T* to) {
  const std::int64_t count = Places::threads(map);
  if (count == 0) return;
  cuda::for_index(count, [&](auto index) {
    launch(queue, {name, {map.batch, map.h.count, map.w.count, map.channels}},
           depthwise_3x3_kernel<T, decltype(index)>, {blocks_for(count, kThreads), kThreads}, map,
           from, weight, bias, to, count);
  });
}

template <class T>
void weight_sums_3x3(CudaQueue& queue, const Map& map, const T* x, const T* dy, std::int64_t rows,
                     std::int64_t rows_per_chunk, float* partials) {
  constexpr int kWidth = cuda::kWarpSize * n;
  const std::int64_t chunks = (rows + rows_per_chunk - 1) / rows_per_chunk;
  const dim3 grid(static_cast<unsigned>(chunks), blocks_for(map.channels, kWidth).x);
  launch(queue, {"depthwise_tokens_backward_weight", {rows, map.w.count, map.channels}},
         depthwise_3x3_weight_kernel<T>,
         {grid, kWarps * cuda::kWarpSize, kWarps * kSums * kWidth * sizeof(float)}, map, x, dy,
         rows, rows_per_chunk, partials);
}

template void correlate_3x3<float>(CudaQueue&, const char*, const Map&, const float*, const float*,
                                   const float*, float*);
template void correlate_3x3<bfloat16>(CudaQueue&, const char*, const Map&, const bfloat16*,
                                      const float*, const float*, bfloat16*);
template void weight_sums_3x3<float>(CudaQueue&, const Map&, const float*, const float*,
                                     std::int64_t, std::int64_t, float*);
template void weight_sums_3x3<bfloat16>(CudaQueue&, const Map&, const bfloat16*, const bfloat16*,
                                        std::int64_t, std::int64_t, float*);

}  // namespace dtn::depthwise
