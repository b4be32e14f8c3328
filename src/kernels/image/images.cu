// Bytes to normalized planes, by table lookup: images[b, c, y, x] = table[c, pixels[b, y, x', c]].
//
// A thread takes 4 consecutive pixels, whose bytes are whole words in either direction, and writes
// 16 bytes to each plane. It does so 4 times, so that the table, which each block loads into shared
// memory, is a twentieth of the block's traffic. 256 images of 224 x 224 x 3 are 39 MB in and
// 154 MB out. Neighbouring pixels have similar values, so lookups conflict on banks less often than
// random ones would. Even random lookups need only a quarter of shared memory's rate.
//
// Erasing writes only the boxes: with DeiT's probabilities, 4 % of the writes of normalizing.
#include "core/normal_noise.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/image/images.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;
constexpr int kTurns = 4;
constexpr int kPixels = 4;              // per thread at a time
constexpr int kMaxStagedChannels = 48;  // 48 KiB of shared memory

__device__ __forceinline__ const float* stage_table(const float* table, int values, float* shared) {
  for (int i = static_cast<int>(threadIdx.x); i < values; i += kThreads) shared[i] = table[i];
  __syncthreads();
  return shared;
}

// Position of pixel p of the batch, counted along the rows of the results.
struct PixelPosition {
  std::int64_t image, in_plane, source;  // source: first of the `pixels` pixels to read
  bool flip;
};
template <class Index>
__device__ __forceinline__ PixelPosition position_of(const NormalizeImages& args, std::int64_t p,
                                                     int pixels) {
  const cuda::RowColumn row = cuda::row_and_column<Index>(p, args.width);
  const cuda::RowColumn image = cuda::row_and_column<Index>(row.row, args.height);
  const bool flip = args.flips && args.flips[image.row];
  const std::int64_t x = flip ? args.width - pixels - row.column : row.column;
  return {image.row, image.column * args.width + row.column, row.row * args.width + x, flip};
}

// For aligned rows of a multiple of 4 pixels.
template <int kChannels, class Index>
__global__ void normalize_images_kernel(NormalizeImages args, std::int64_t count) {
  DTN_SHARED(float, shared);
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * kThreads * kTurns + threadIdx.x) * kPixels;
  const std::int64_t plane = args.height * args.width;
  auto* words = reinterpret_cast<const unsigned*>(args.pixels);
  unsigned packed[kTurns][kChannels];
  PixelPosition at[kTurns];
#pragma unroll
  for (int j = 0; j < kTurns; ++j) {
    const std::int64_t p = first + j * kThreads * kPixels;
    if (p >= count) continue;
    at[j] = position_of<Index>(args, p, kPixels);
#pragma unroll
    for (int w = 0; w < kChannels; ++w) {
      packed[j][w] = words[at[j].source / kPixels * kChannels + w];
    }
  }
  const float* table = stage_table(args.table, kChannels * 256, shared);
#pragma unroll
  for (int j = 0; j < kTurns; ++j) {
    if (first + j * kThreads * kPixels >= count) continue;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      float v[kPixels];
#pragma unroll
      for (int k = 0; k < kPixels; ++k) {
        const int byte = k * kChannels + c;
        v[k] = table[c * 256 + (packed[j][byte / 4] >> (byte % 4 * 8) & 0xffu)];
      }
      const float4 line =
          at[j].flip ? make_float4(v[3], v[2], v[1], v[0]) : make_float4(v[0], v[1], v[2], v[3]);
      float* to = args.images + (at[j].image * kChannels + c) * plane + at[j].in_plane;
      *reinterpret_cast<float4*>(to) = line;
    }
  }
}

// For any width and number of channels, one pixel at a time.
template <class Index>
__global__ void normalize_pixels_kernel(NormalizeImages args, std::int64_t count, bool staged) {
  DTN_SHARED(float, shared);
  const std::int64_t plane = args.height * args.width;
  const float* table = args.table;
  if (staged) table = stage_table(table, static_cast<int>(args.channels) * 256, shared);
  for (int j = 0; j < kTurns; ++j) {
    const std::int64_t p =
        (static_cast<std::int64_t>(blockIdx.x) * kTurns + j) * kThreads + threadIdx.x;
    if (p >= count) return;
    const PixelPosition at = position_of<Index>(args, p, 1);
    const std::uint8_t* pixel = args.pixels + at.source * args.channels;
    float* to = args.images + at.image * args.channels * plane + at.in_plane;
    for (std::int64_t c = 0; c < args.channels; ++c) to[c * plane] = table[c * 256 + pixel[c]];
  }
}

template <class Index>
void normalize_images(CudaQueue& queue, const NormalizeImages& args, std::int64_t count) {
  const bool wide = args.width % kPixels == 0 && cuda::all_aligned(args.pixels, args.images);
  const bool staged = args.channels <= kMaxStagedChannels;
  const KernelName name{"normalize_images", {args.batch, args.channels, args.height, args.width}};
  const std::size_t shared = staged ? static_cast<std::size_t>(args.channels) * 1024 : 0;
  const dim3 wide_grid = blocks_for(count, kThreads * kTurns * kPixels);
  if (wide && args.channels == 3) {
    launch(queue, name, normalize_images_kernel<3, Index>, {wide_grid, kThreads, shared}, args,
           count);
  } else if (wide && args.channels == 1) {
    launch(queue, name, normalize_images_kernel<1, Index>, {wide_grid, kThreads, shared}, args,
           count);
  } else {
    launch(queue, name, normalize_pixels_kernel<Index>,
           {blocks_for(count, kThreads * kTurns), kThreads, shared}, args, count, staged);
  }
}

// A thread takes one pixel of the padded image. The table stays in the cache: a batch of detection
// has two images.
template <class Index>
__global__ void pad_images_kernel(PadImages args, std::int64_t count) {
  const std::int64_t p = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (p >= count) return;
  const std::int64_t plane = args.height * args.width;
  const cuda::RowColumn row = cuda::row_and_column<Index>(p, args.width);
  const cuda::RowColumn image = cuda::row_and_column<Index>(row.row, args.height);
  const std::int64_t own_height = args.sizes[2 * image.row];
  const std::int64_t own_width = args.sizes[2 * image.row + 1];
  const bool inside = image.column < own_height && row.column < own_width;
  const std::uint8_t* pixel = args.pixels + image.row * args.capacity +
                              (image.column * own_width + row.column) * args.channels;
  float* to =
      args.images + image.row * args.channels * plane + image.column * args.width + row.column;
  for (std::int64_t c = 0; c < args.channels; ++c) {
    to[c * plane] = inside ? args.table[c * 256 + pixel[c]] : 0;
  }
}

constexpr int kEraseParts = 8;

// Blocks: kEraseParts per image, most of which exit at once. A thread draws a group of random words
// and writes those of its 8 values that lie in the box.
template <class Index>
__global__ void erase_images_kernel(EraseImages args) {
  const std::int64_t b = blockIdx.x / kEraseParts, part = blockIdx.x % kEraseParts;
  const std::int64_t* box = args.boxes + b * 5;
  const std::int64_t left = box[0], top = box[1], width = box[2], height = box[3];
  const auto seed = static_cast<std::uint64_t>(box[4]);
  float* image = args.images + b * args.channels * args.height * args.width;
  const std::int64_t per_row = width / kNoisePerGroup + 2;  // groups that a row may touch
  const std::int64_t groups = args.channels * height * per_row;
  for (std::int64_t i = part * kThreads + threadIdx.x; i < groups; i += kEraseParts * kThreads) {
    const cuda::RowColumn at = cuda::row_and_column<Index>(i, per_row);
    const cuda::RowColumn plane = cuda::row_and_column<Index>(at.row, height);
    const std::int64_t begin = (plane.row * args.height + top + plane.column) * args.width + left;
    const std::int64_t group = begin / kNoisePerGroup + at.column;
    if (group * kNoisePerGroup >= begin + width) continue;
    const Philox4 words = noise_words(seed, static_cast<std::uint64_t>(group));
#pragma unroll
    for (int k = 0; k < kNoisePerGroup; ++k) {
      const std::int64_t element = group * kNoisePerGroup + k;
      if (element >= begin && element < begin + width) {
        image[element] = noise_of(args.table, words, k);
      }
    }
  }
}

}  // namespace

void run(CudaQueue& queue, const EraseImages& args) {
  if (args.batch == 0) return;
  // Upper bound of the groups of any box.
  const std::int64_t groups = args.channels * args.height * (args.width / kNoisePerGroup + 2);
  cuda::for_index(groups, [&](auto index) {
    launch(queue, {"erase_images", {args.batch, args.channels, args.height, args.width}},
           erase_images_kernel<decltype(index)>,
           {blocks_for(args.batch * kEraseParts, 1), kThreads}, args);
  });
}

void run(CudaQueue& queue, const PadImages& args) {
  const std::int64_t count = args.batch * args.height * args.width;
  if (count == 0 || args.channels == 0) return;
  cuda::for_index(count, [&](auto index) {
    launch(queue, {"pad_images", {args.batch, args.channels, args.height, args.width}},
           pad_images_kernel<decltype(index)>, {blocks_for(count, kThreads), kThreads}, args,
           count);
  });
}

void run(CudaQueue& queue, const NormalizeImages& args) {
  const std::int64_t count = args.batch * args.height * args.width;
  if (count == 0 || args.channels == 0) return;
  cuda::for_index(count,
                  [&](auto index) { normalize_images<decltype(index)>(queue, args, count); });
}

}  // namespace dtn
