// Forward pass of DTN with full position matrices; see dtn_dense.h. As in dtn_norm.cpp, it
// processes one vector of channels of one head of one image at a time, with its plane in the
// first-level cache. The moments are one product with the whole matrix. At the usual sizes the
// matrix fits in the second-level cache. A thread uses it for several images, one after the other.
#include "kernels/dtn/dtn_dense.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/dtn/dtn_dense_parts.h"
#include "kernels/dtn/dtn_norm_forward.h"
#include "kernels/dtn/dtn_norm_prologue.h"

namespace dtn::DTN_ISA {
namespace {

template <class T, DtnVariant variant>
class Forward : DtnForwardParts<T, variant> {
  using Parts = DtnForwardParts<T, variant>;
  using Parts::args_, Parts::sizes_, Parts::lanes;
  using Parts::input, Parts::output, Parts::head_scale, Parts::make_pivot, Parts::write_row;
  using typename Parts::A;

 public:
  Forward(const DtnDenseForward& args, Scratch::Scope& scope)
      : Parts(args.norm, scope),
        positions_(args.positions, sizes_.cells, sizes_.heads, false, scope) {}

  void run(CpuQueue& queue) {
    this->token_statistics(0, sizes_.batch);
    const std::int64_t batch = sizes_.batch;
    positions_.for_each_wave([&](std::int64_t first, std::int64_t count) {
      const std::int64_t images = images_per_task(batch, count);
      const std::int64_t chunks = (batch + images - 1) / images;
      parallel_for(count * chunks, [&](std::int64_t i) {
        const std::int64_t begin = i % chunks * images;
        for (std::int64_t b = begin; b < begin + images && b < batch; ++b) {
          normalize_head(queue, b, first + i / chunks);
        }
      });
    });
  }

 private:
  void normalize_head(CpuQueue& queue, std::int64_t b, std::int64_t h) const {
    Scratch::Scope scope(queue.scratch());
    const std::int64_t plane = sizes_.cells * lanes, row_size = sizes_.grid_w * lanes;
    A* x = scope.take<A>(sizes_.tokens * lanes);
    A* averages = scope.take<A>(plane);
    A* m1 = scope.take<A>(plane);
    A* m2 = scope.take<A>(plane);
    A* row1 = scope.take<A>(row_size);
    A* row2 = scope.take<A>(row_size);
    A* mixed = scope.take<A>(sizes_.tokens);
    mix_variances(sizes_, static_cast<const A*>(args_.token_var) + b * sizes_.tokens,
                  static_cast<const A*>(args_.lambda_var)[h], args_.eps, mixed);
    const A base = mean_base<variant>(sizes_, input(b));
    for_each_group<A>(sizes_, [&](std::int64_t offset, auto count) {
      const std::int64_t channel = h * sizes_.head_dim + offset;
      const NextGroup next(sizes_, b, h, channel + lanes);
      const Vec<A> pivot = make_pivot(b, channel, count, base);
      gather(sizes_, input(b) + channel, count, head_scale(b, h), pivot, x);
      const A* seen = sum_pooled(sizes_, x, sizes_.template cell_share<A>(), averages);
      pass<A, Second::kSquare>(sizes_.one_line(), {positions_.apply(h)}, seen, nullptr, m1, m2);
      for (std::int64_t row = 0; row < sizes_.grid_h; ++row) {
        if (next.image < sizes_.batch) {
          const std::int64_t token = row * sizes_.grid_w;
          prefetch_group(sizes_, input(next.image) + next.channel, token, sizes_.grid_w);
          prefetch_group(sizes_, output(next.image) + next.channel, token, sizes_.grid_w);
        }
        write_row(b, h, channel, count, base - pivot, row, x + row * row_size,
                  spread_row(sizes_, row, m1, row1), spread_row(sizes_, row, m2, row2), mixed);
      }
    });
  }

  PackedPositions<A> positions_;
};

}  // namespace

void run(CpuQueue& queue, const DtnDenseForward& args) {
  make_lambdas(queue, args.norm);
  Scratch::Scope scope(queue.scratch());
  for_dtn_variant("DtnDenseForward", args.norm, [&]<class T, DtnVariant variant>() {
    Forward<T, variant>(args, scope).run(queue);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::DtnDenseForward)
