// Inner loops of resampling. All instruction sets give the same bits, because the arithmetic is in
// integers. Private to dtn_data.
#pragma once

#include <cstdint>

namespace dtn::resample {

inline constexpr int kWeightBits = 22;
inline constexpr int kLanes = 16;  // rows that are resized side by side

// The source samples that one output sample depends on.
struct Span {
  int begin = 0, count = 0;
};

// columns[i, r] = from[r, i] for r < rows (at most kLanes) and i < samples. Further lanes have any
// values. `columns` has room for samples rounded up to a multiple of kLanes.
void transpose_in(const std::uint8_t* from, std::int64_t stride, int rows, int samples,
                  std::uint8_t* columns);

// to[r, i] = columns[i, r] for r < rows.
void transpose_out(const std::uint8_t* columns, int rows, int samples, std::uint8_t* to,
                   std::int64_t stride);

// For i < count; columns [., channels, kLanes], weights [count, taps]:
//     out[i, c, r] = round8(sum over k of weights[i, k] columns[spans[i].begin - first + k, c, r])
void weigh_columns(const std::uint8_t* columns, int first, int channels, const Span* spans,
                   const std::int32_t* weights, int taps, int count, std::uint8_t* out);

// For i < count and b < bytes; rows are `stride` apart, output rows `bytes`:
//     out[i, b] = round8(sum over k of weights[i, k] rows[spans[i].begin - first + k, b])
void weigh_rows(const std::uint8_t* rows, std::int64_t stride, int first, std::int64_t bytes,
                const Span* spans, const std::int32_t* weights, int taps, int count,
                std::uint8_t* out);

}  // namespace dtn::resample
