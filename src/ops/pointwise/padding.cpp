#include "dtn/ops/padding.h"

#include <numeric>

#include "dtn/core/check.h"
#include "ops/pointwise/rows.h"

namespace dtn::ops {
namespace {

std::int64_t sum_of(std::span<const std::int64_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

// x [B, T, C] -> [N, C]
Tensor pack(const Tensor& x, std::span<const std::int64_t> lengths) {
  Tensor y = Tensor::empty({sum_of(lengths), x.dim(2)}, x.dtype(), x.device());
  const std::int64_t width = x.dim(2);
  std::int64_t place = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    copy_rows(x, static_cast<std::int64_t>(b) * x.dim(1) * width, width, y, place * width, width,
              lengths[b], width);
    place += lengths[b];
  }
  return y;
}

// x [N, C] -> [B, T, C]
Tensor unpack(const Tensor& x, std::span<const std::int64_t> lengths, std::int64_t tokens) {
  Tensor y = Tensor::zeros({static_cast<std::int64_t>(lengths.size()), tokens, x.dim(1)}, x.dtype(),
                           x.device());
  const std::int64_t width = x.dim(1);
  std::int64_t first = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    copy_rows(x, first * width, width, y, static_cast<std::int64_t>(b) * tokens * width, width,
              lengths[b], width);
    first += lengths[b];
  }
  return y;
}

}  // namespace

std::vector<std::int64_t> host_lengths(const Tensor& lengths, std::int64_t batch,
                                       std::int64_t tokens) {
  if (!lengths.defined()) return std::vector<std::int64_t>(static_cast<std::size_t>(batch), tokens);
  DTN_CHECK(lengths.dtype() == DType::kInt64 && lengths.shape() == Shape{batch},
            "lengths of sequences must be int64 [", batch, "], not ", name_of(lengths.dtype()), " ",
            to_string(lengths.shape()));
  if (lengths.device() == kMeta) {  // values are unknown: assumes the maximum
    return std::vector<std::int64_t>(static_cast<std::size_t>(batch), tokens);
  }
  const Tensor here = lengths.to(kCpu);
  const std::span<const std::int64_t> all = here.values<std::int64_t>();
  for (std::size_t b = 0; b < all.size(); ++b) {
    DTN_CHECK(1 <= all[b] && all[b] <= tokens, "length ", all[b], " of sequence ", b,
              " is outside [1, ", tokens, "]");
  }
  return {all.begin(), all.end()};
}

Variable pack_tokens(Context& ctx, const Variable& x, std::span<const std::int64_t> lengths) {
  DTN_CHECK(x.value().rank() == 3 && x.dim(0) == static_cast<std::int64_t>(lengths.size()),
            "pack_tokens: input ", to_string(x.shape()), " is not [", lengths.size(), ", T, C]");
  const std::vector<std::int64_t> kept(lengths.begin(), lengths.end());
  return ctx.record("pack_tokens", pack(x.value(), lengths), {&x},
                    [kept, tokens = x.dim(1), sink = x.sink()](const Tensor& dy) {
                      sink->accumulate(unpack(dy, kept, tokens));
                    });
}

Variable unpack_tokens(Context& ctx, const Variable& x, std::span<const std::int64_t> lengths,
                       std::int64_t tokens) {
  DTN_CHECK(x.value().rank() == 2 && x.dim(0) == sum_of(lengths), "unpack_tokens: input ",
            to_string(x.shape()), " does not have the ", sum_of(lengths), " rows of the lengths");
  const std::vector<std::int64_t> kept(lengths.begin(), lengths.end());
  return ctx.record(
      "unpack_tokens", unpack(x.value(), lengths, tokens), {&x},
      [kept, sink = x.sink()](const Tensor& dy) { sink->accumulate(pack(dy, kept)); });
}

}  // namespace dtn::ops
