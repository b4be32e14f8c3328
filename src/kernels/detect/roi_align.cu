// RoIAlign; see roi_align.h for the formulas. A first kernel writes the taps of every RoI. The
// forward kernel gives a block one row of bins, and its threads the channels. The backward kernel
// gives a block a few neighbouring cells of a row; it gathers the RoIs that read them, in order.
// So it needs no atomics, and every cell is written once.
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/detect/roi_align.h"
#include "kernels/detect/roi_align_taps.h"

namespace dtn {
namespace {

constexpr int kTapThreads = 128, kChannelThreads = 128;
constexpr int kCells = 4;           // neighbouring cells of a block of the backward pass
constexpr int kListed = 1024;       // RoIs that are looked through at once
constexpr int kResidentBlocks = 8;  // on a multiprocessor, which leaves 64 registers to a thread

// Taps of all RoIs. Axis a is 0 for rows, 1 for columns.
struct TapTable {
  RoiRange* ranges;  // [R, 2, S]
  RoiRange* cells;   // [R, 2]: the cells that the bins together read
  int* offsets;      // [R, 2, S]: of the weights of a bin
  float* weights;    // [R, 2, most]
  std::int64_t bins, most;

  __device__ const float* of(std::int64_t axis, std::int64_t bin) const {
    return weights + axis * most + offsets[axis * bins + bin];
  }
};

// One thread for each axis of a RoI.
__global__ void __launch_bounds__(kTapThreads) roi_taps_kernel(RoiAlignShape shape, TapTable out) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kTapThreads + threadIdx.x;
  const std::int64_t r = index / 2, a = index % 2;
  if (r >= shape.rois) return;
  out.cells[index] = {0, 0};
  if (!shape.is_valid(r)) return;
  const std::int64_t level = shape.level[r];
  const float* box = shape.boxes + 4 * r;
  const RoiAxis axis = roi_axis(box[1 - a], box[3 - a], shape.scale[level], shape.size,
                                a == 0 ? shape.grid_h[level] : shape.grid_w[level]);
  int offset = 0, first = 0, end = 0;
  for (int p = 0; p < static_cast<int>(shape.size); ++p) {
    const RoiRange range = roi_range(axis, p);
    out.ranges[index * out.bins + p] = range;
    out.offsets[index * out.bins + p] = offset;
    roi_weights(axis, p, range, out.weights + index * out.most + offset);
    offset += range.count;
    if (range.count == 0) continue;
    if (end == 0) first = range.first;
    end = range.first + range.count;
  }
  out.cells[index] = {first, end - first};
}

// Memory of a table, on the device.
struct TapScratch {
  DeviceScratch<RoiRange> ranges, cells;
  DeviceScratch<int> offsets;
  DeviceScratch<float> weights;
  TapTable table;

  TapScratch(CudaQueue& queue, const RoiAlignShape& shape)
      : ranges(queue.scratch<RoiRange>(2 * shape.rois * shape.size + 1)),
        cells(queue.scratch<RoiRange>(2 * shape.rois + 1)),
        offsets(queue.scratch<int>(2 * shape.rois * shape.size + 1)),
        weights(queue.scratch<float>(2 * shape.rois * most_taps(shape) + 1)),
        table{ranges.get(),  cells.get(), offsets.get(),
              weights.get(), shape.size,  most_taps(shape)} {
    if (shape.rois == 0) return;
    launch(queue, {"roi_taps", {shape.rois, shape.size}}, roi_taps_kernel,
           {blocks_for(2 * shape.rois, kTapThreads), kTapThreads}, shape, table);
  }

  static std::int64_t most_taps(const RoiAlignShape& shape) {
    std::int64_t most = 0;
    for (int l = 0; l < shape.levels; ++l) {
      for (const std::int64_t cells : {shape.grid_h[l], shape.grid_w[l]}) {
        most = most < cells ? cells : most;
      }
    }
    return max_roi_taps(shape.size, most);
  }
};

// Blocks: RoIs in x, rows of bins in y.
template <class T>
__global__ void __launch_bounds__(kChannelThreads)
    roi_align_forward_kernel(RoiAlignForward args, TapTable taps) {
  const std::int64_t r = blockIdx.x, p = blockIdx.y, bins = args.size, channels = args.channels;
  T* y = static_cast<T*>(args.y) + (r * bins + p) * bins * channels;
  if (!args.is_valid(r)) {
    for (std::int64_t k = threadIdx.x; k < bins * channels; k += kChannelThreads) {
      y[k] = cuda::from_float<T>(NAN);
    }
    return;
  }
  const std::int64_t level = args.level[r], w = args.grid_w[level];
  const T* image = static_cast<const T*>(args.features[level]) +
                   args.image[r] * args.grid_h[level] * w * channels;
  const RoiRange rows = taps.ranges[2 * r * bins + p];
  const float* row_weights = taps.of(2 * r, p);
  for (std::int64_t q = 0; q < bins; ++q) {
    const RoiRange columns = taps.ranges[(2 * r + 1) * bins + q];
    const float* column_weights = taps.of(2 * r + 1, q);
    for (std::int64_t c = threadIdx.x; c < channels; c += kChannelThreads) {
      float sum = 0;
      for (int i = 0; i < rows.count; ++i) {
        const T* x = image + ((rows.first + i) * w + columns.first) * channels + c;
        float of_row = 0;
        for (int j = 0; j < columns.count; ++j) {
          of_row += column_weights[j] * cuda::to_float(x[j * channels]);
        }
        sum += row_weights[i] * of_row;
      }
      y[q * channels + c] = cuda::from_float<T>(sum);
    }
  }
}

// Writes the RoIs from `begin` to `end` - 1 that read row `row` of an image and a level, in order,
// to `list`; returns their number. The list is written after a barrier, so all threads have left
// the last one. `warps` is shared memory for one number per warp.
template <class Arguments>
__device__ __forceinline__ int list_rois(const Arguments& args, const TapTable& taps, int level,
                                         std::int64_t image, int row, int column,
                                         std::int64_t begin, std::int64_t end, int* list,
                                         int* warps) {
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  int listed = 0;
  for (std::int64_t first = begin; first < end; first += kChannelThreads) {
    const std::int64_t r = first + threadIdx.x;
    bool reads = false;
    if (r < end && args.level[r] == level && args.image[r] == image) {
      const RoiRange rows = taps.cells[2 * r], columns = taps.cells[2 * r + 1];
      reads = rows.first <= row && row < rows.first + rows.count &&
              columns.first < column + kCells && column < columns.first + columns.count;
    }
    const unsigned votes = __ballot_sync(cuda::kWholeWarp, reads);
    if (lane == 0) warps[warp] = __popc(votes);
    __syncthreads();
    int place = listed;
    for (int k = 0; k < kChannelThreads / cuda::kWarpSize; ++k) {
      if (k < warp) place += warps[k];
      listed += warps[k];
    }
    if (reads) list[place + __popc(votes & ((1u << lane) - 1u))] = static_cast<int>(r);
    __syncthreads();  // `warps` is written again
  }
  return listed;
}

// Adds what RoI r gives to channel c of the cell (row, column).
template <class T>
__device__ __forceinline__ float roi_gradient(const RoiAlignBackward& args, const TapTable& taps,
                                              std::int64_t r, int row, int column, std::int64_t c) {
  const std::int64_t bins = args.size;
  const RoiRange *rows = taps.ranges + 2 * r * bins, *columns = rows + bins;
  const T* dy = static_cast<const T*>(args.dy) + r * bins * bins * args.channels + c;
  float sum = 0;
  for (std::int64_t p = 0; p < bins; ++p) {
    const int i = row - rows[p].first;
    if (i < 0 || i >= rows[p].count) continue;
    float of_row = 0;
    for (std::int64_t q = 0; q < bins; ++q) {
      const int j = column - columns[q].first;
      if (j < 0 || j >= columns[q].count) continue;
      of_row += taps.of(2 * r + 1, q)[j] * cuda::to_float(dy[(p * bins + q) * args.channels]);
    }
    sum += taps.of(2 * r, p)[i] * of_row;
  }
  return sum;
}

// Blocks: groups of kCells cells in x, rows of the level in y, images in z.
template <class T>
__global__ void __launch_bounds__(kChannelThreads, kResidentBlocks)
    roi_align_backward_kernel(RoiAlignBackward args, TapTable taps, int level) {
  DTN_SHARED(int, list);
  int* warps = list + kListed;
  const int w = static_cast<int>(args.grid_w[level]), row = static_cast<int>(blockIdx.y);
  const int column = static_cast<int>(blockIdx.x) * kCells;
  const std::int64_t image = blockIdx.z;
  T* to = static_cast<T*>(args.dfeatures[level]) +
          ((image * args.grid_h[level] + row) * w + column) * args.channels;
  for (std::int64_t base = 0; base < args.channels; base += kChannelThreads) {
    const std::int64_t c = base + threadIdx.x;
    float sum[kCells] = {};
    for (std::int64_t begin = 0; begin < args.rois; begin += kListed) {
      const std::int64_t end = begin + kListed < args.rois ? begin + kListed : args.rois;
      const int listed = list_rois(args, taps, level, image, row, column, begin, end, list, warps);
      if (c < args.channels) {
        for (int k = 0; k < listed; ++k) {
#pragma unroll
          for (int e = 0; e < kCells; ++e) {
            sum[e] += roi_gradient<T>(args, taps, list[k], row, column + e, c);
          }
        }
      }
    }
    if (c >= args.channels) continue;
#pragma unroll
    for (int e = 0; e < kCells; ++e) {
      if (column + e < w) to[e * args.channels + c] = cuda::from_float<T>(sum[e]);
    }
  }
}

}  // namespace

void run(CudaQueue& queue, const RoiAlignForward& args) {
  for_cuda_dtype("roi_align_forward", args.dtype, [&](auto zero) {
    if (args.rois == 0 || args.size == 0 || args.channels == 0) return;
    const TapScratch taps(queue, args);
    dim3 blocks = blocks_for(args.rois, 1);
    blocks.y = static_cast<unsigned>(args.size);
    launch(queue, {"roi_align_forward", {args.rois, args.size, args.channels}},
           roi_align_forward_kernel<decltype(zero)>, {blocks, kChannelThreads}, args, taps.table);
  });
}

void run(CudaQueue& queue, const RoiAlignBackward& args) {
  for_cuda_dtype("roi_align_backward", args.dtype, [&](auto zero) {
    if (args.batch == 0 || args.channels == 0) return;
    const TapScratch taps(queue, args);
    for (int level = 0; level < args.levels; ++level) {
      const std::int64_t h = args.grid_h[level], w = args.grid_w[level];
      if (!args.dfeatures[level] || h == 0 || w == 0) continue;
      dim3 blocks = blocks_for(w, kCells);
      blocks.y = static_cast<unsigned>(h), blocks.z = static_cast<unsigned>(args.batch);
      launch(queue, {"roi_align_backward", {args.batch, h, w, args.channels}},
             roi_align_backward_kernel<decltype(zero)>,
             {blocks, kChannelThreads, (kListed + kChannelThreads / cuda::kWarpSize) * sizeof(int)},
             args, taps.table, level);
    }
  });
}

}  // namespace dtn
