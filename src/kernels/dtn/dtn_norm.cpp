// Forward pass of Dynamic Token Normalization; see dtn_norm.h for the formulas. It first computes
// token statistics and pivots in one pass over an image. Then it processes head by head, one vector
// of channels at a time, whose planes fit in the first- and second-level caches.
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/dtn/dtn_norm_forward.h"
#include "kernels/dtn/dtn_norm_pooled_forward.h"
#include "kernels/dtn/dtn_norm_prologue.h"

namespace dtn::DTN_ISA {
namespace {

template <class T, DtnVariant variant>
class Forward : DtnForwardParts<T, variant> {
  using Parts = DtnForwardParts<T, variant>;
  using Parts::args_, Parts::sizes_, Parts::lanes;
  using Parts::input, Parts::output, Parts::head_scale;
  using Parts::make_pivot, Parts::token_statistics, Parts::write_row;
  using typename Parts::A;

 public:
  Forward(const DtnNormForward& args, Scratch::Scope& scope) : Parts(args, scope) {}

  void run(CpuQueue& queue) {
    Scratch::Scope scope(queue.scratch());
    HeadPositions<A> positions(sizes_, variant, args_.pos_weight, false, scope);
    for_image_ranges(sizes_, positions, [&](std::int64_t first, std::int64_t images) {
      token_statistics(first, images);
      positions.for_each_wave([&](std::int64_t begin, std::int64_t heads) {
        parallel_for(images * heads, [&](std::int64_t i) {
          normalize_head(queue, positions, first + i / heads, begin + i % heads);
        });
      });
    });
  }

 private:
  void normalize_head(CpuQueue& queue, const HeadPositions<A>& positions, std::int64_t b,
                      std::int64_t h) const {
    Scratch::Scope scope(queue.scratch());
    const std::int64_t plane = sizes_.tokens * lanes, row_size = sizes_.grid_w * lanes;
    A* x = scope.take<A>(plane);
    A* z1 = scope.take<A>(plane);
    A* z2 = scope.take<A>(plane);
    const RowMoments<A> moments(sizes_, scope);
    A* mixed = scope.take<A>(sizes_.tokens);
    mix_variances(sizes_, static_cast<const A*>(args_.token_var) + b * sizes_.tokens,
                  static_cast<const A*>(args_.lambda_var)[h], args_.eps, mixed);
    const PositionMatrices<A> rows = positions.along_rows(h), columns = positions.down_columns(h);
    const A base = mean_base<variant>(sizes_, input(b));
    for_each_group<A>(sizes_, [&](std::int64_t offset, auto count) {
      const std::int64_t channel = h * sizes_.head_dim + offset;
      const Vec<A> pivot = make_pivot(b, channel, count, base);
      gather(sizes_, input(b) + channel, count, head_scale(b, h), pivot, x);
      column_moments(sizes_, columns, x, z1, z2);
      for (std::int64_t row = 0; row < sizes_.grid_h; ++row) {
        prefetch_group(sizes_, output(b) + channel + lanes, row * sizes_.grid_w, sizes_.grid_w);
        moments.make(rows, row, z1, z2);
        write_row(b, h, channel, count, base - pivot, row, x + row * row_size, moments.m1(),
                  moments.m2(), mixed);
      }
    });
  }
};

}  // namespace

void run(CpuQueue& queue, const DtnNormForward& args) {
  make_lambdas(queue, args);
  make_sum(queue, args);
  for_dtn_variant("DtnNormForward", args, [&]<class T, DtnVariant variant>() {
    Scratch::Scope scope(queue.scratch());
    if (args.pool > 1) {
      PooledForward<T, variant>(args, scope).run(queue);
    } else {
      Forward<T, variant>(args, scope).run(queue);
    }
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::DtnNormForward)
