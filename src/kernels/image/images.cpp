// Bytes to normalized planes, by table lookup, and noise in boxes. See images.h.
#include "kernels/image/images.h"

#include "core/normal_noise.h"
#include "dtn/core/parallel.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {

void run(CpuQueue&, const NormalizeImages& args) {
  const std::int64_t channels = args.channels, height = args.height, width = args.width;
  parallel_for(args.batch * height, [=, &args](std::int64_t row) {
    const std::int64_t b = row / height, y = row % height;
    const bool flip = args.flips && args.flips[b];
    const std::int64_t step = flip ? -channels : channels;
    const std::uint8_t* pixel =
        args.pixels + row * width * channels + (flip ? (width - 1) * channels : 0);
    for (std::int64_t c = 0; c < channels; ++c) {
      const float* table = args.table + c * 256;
      float* line = args.images + ((b * channels + c) * height + y) * width;
      for (std::int64_t x = 0; x < width; ++x) line[x] = table[pixel[x * step + c]];
    }
  });
}

void run(CpuQueue&, const PadImages& args) {
  const std::int64_t channels = args.channels, height = args.height, width = args.width;
  parallel_for(args.batch * height, [=, &args](std::int64_t row) {
    const std::int64_t b = row / height, y = row % height;
    const std::int64_t own = y < args.sizes[2 * b] ? args.sizes[2 * b + 1] : 0;
    const std::uint8_t* pixel = args.pixels + b * args.capacity + y * own * channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const float* table = args.table + c * 256;
      float* line = args.images + ((b * channels + c) * height + y) * width;
      for (std::int64_t x = 0; x < own; ++x) line[x] = table[pixel[x * channels + c]];
      for (std::int64_t x = own; x < width; ++x) line[x] = 0;
    }
  });
}

void run(CpuQueue&, const EraseImages& args) {
  parallel_for(args.batch * args.channels, [&args](std::int64_t plane) {
    const std::int64_t image = args.channels * args.height * args.width;
    const std::int64_t b = plane / args.channels, c = plane % args.channels;
    const std::int64_t* box = args.boxes + b * 5;
    for (std::int64_t y = box[1]; y < box[1] + box[3]; ++y) {
      const std::int64_t at = (c * args.height + y) * args.width + box[0];
      write_noise(static_cast<std::uint64_t>(box[4]), static_cast<std::uint64_t>(at), box[2],
                  args.images + b * image + at);
    }
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(NormalizeImages)
DTN_DISPATCH(PadImages)
DTN_DISPATCH(EraseImages)
