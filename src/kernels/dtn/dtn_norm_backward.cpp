// Backward pass of Dynamic Token Normalization; see dtn_norm.h for the formulas. The first step
// goes head by head. It computes everything except the two terms of dx that sum over all channels
// of a token, and accumulates these sums. The second step adds the two terms to whole images.
#include "kernels/dtn/dtn_norm_backward.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/dtn/dtn_norm_pooled_backward.h"
#include "kernels/dtn/dtn_norm_prologue.h"

namespace dtn::DTN_ISA {
namespace {

template <class T, DtnVariant variant>
class Backward : DtnBackwardParts<T, variant> {
  using Parts = DtnBackwardParts<T, variant>;
  using Parts::args_, Parts::sizes_, Parts::image_;
  using Parts::finish, Parts::head_scale, Parts::input, Parts::input_gradient, Parts::keep,
      Parts::make_planes, Parts::pivots, Parts::prefetch_row, Parts::row_gradients,
      Parts::sums_of_tokens, Parts::unfinished;
  using Parts::lanes, Parts::kInPlace;
  using typename Parts::A;
  using typename Parts::ChannelSums, typename Parts::LambdaSums, typename Parts::Planes,
      typename Parts::TokenSums;

 public:
  Backward(const DtnNormBackward& args, Scratch::Scope& scope)
      : Parts(args, scope), position_sums_(scope.take<A>(sizes_.batch * sizes_.heads * 3)) {}

  void run(CpuQueue& queue) {
    Scratch::Scope scope(queue.scratch());
    HeadPositions<A> positions(sizes_, variant, args_.pos_weight, args_.dpos_weight, scope);
    for_image_ranges(sizes_, positions, [&](std::int64_t first, std::int64_t images) {
      run_images(queue, positions, first, images);
    });
    this->add_parameter_gradients();
    if (!args_.dpos_weight) return;
    const std::int64_t weights = sizes_.heads * 3;
    for (std::int64_t i = 0; i < sizes_.batch * weights; ++i) {  // image by image
      static_cast<A*>(args_.dpos_weight)[i % weights] += position_sums_[i];
    }
  }

 private:
  void run_images(CpuQueue& queue, HeadPositions<A>& positions, std::int64_t first,
                  std::int64_t images) const {
    Scratch::Scope scope(queue.scratch());
    A* dx = unfinished(scope, images, first);
    A* sums = scope.take<A>(images * this->token_sums());
    positions.for_each_wave([&](std::int64_t begin, std::int64_t heads) {
      parallel_for(images * heads, [&](std::int64_t i) {
        const std::int64_t b = i / heads;
        head(queue, positions, first + b, begin + i % heads, dx ? dx + b * image_ : nullptr,
             sums + b * this->token_sums());
      });
    });
    if (dx) finish(queue, first, images, dx, sums);
  }

  // Computes the unfinished dx ([T, C]), the token sums and the parameter gradients of one head.
  void head(CpuQueue& queue, const HeadPositions<A>& positions, std::int64_t b, std::int64_t h,
            A* dx, A* token_sums) const {
    Scratch::Scope scope(queue.scratch());
    const Planes p = make_planes(scope, b, h);
    A* z1 = scope.take<A>(sizes_.tokens * lanes);
    A* z2 = scope.take<A>(sizes_.tokens * lanes);
    const RowMoments<A> moments(sizes_, scope);
    TokenSums token = sums_of_tokens(h, p, token_sums);
    const PositionMatrices<A> rows = positions.along_rows(h), columns = positions.down_columns(h);
    const A base = mean_base<variant>(sizes_, input(b));
    LambdaSums sums;
    PositionSums<A> along, down;
    for_each_group<A>(sizes_, [&](std::int64_t offset, auto count) {
      const std::int64_t channel = h * sizes_.head_dim + offset;
      const Vec<A> pivot = load_n(pivots(b) + channel, count);
      gather(sizes_, input(b) + channel, count, head_scale(b, h), pivot, p.x);
      column_moments(sizes_, columns, p.x, z1, z2);
      ChannelSums channels;
      for (std::int64_t row = 0; row < sizes_.grid_h; ++row) {
        prefetch_row(b, channel + lanes, row, dx);
        moments.make(rows, row, z1, z2);
        row_gradients(b, h, channel, count, base - pivot, row, moments.m1(), moments.m2(), p,
                      channels, sums, token);
      }
      keep(b, channel, count, channels);
      if (args_.dpos_weight) {
        position_sums<A, Second::kPlane>(sizes_.rows(), p.dm1, p.dm2, z1, z2, rows.weights(),
                                         along);
      }
      pass<A, Second::kPlane>(sizes_.rows(), rows.transposed(), p.dm1, p.dm2, z1, z2);
      if (args_.dpos_weight) {
        position_sums<A, Second::kSquare>(sizes_.columns(), z1, z2, p.x, nullptr, columns.weights(),
                                          down);
      }
      if (!dx) return;
      // z1, z2 hold the gradients of z. dm1, dm2 get the gradients of x and x^2.
      pass<A, Second::kPlane>(sizes_.columns(), columns.transposed(), z1, z2, p.dm1, p.dm2);
      input_gradient(b, channel, count, 0, sizes_.tokens, dx + channel, [&](std::int64_t at) {
        return load(p.direct + at) + load(p.dm1 + at) + 2 * load(p.x + at) * load(p.dm2 + at);
      });
    });
    keep(b, h, sums);
    A* of_positions = position_sums_ + (b * sizes_.heads + h) * 3;
    of_positions[0] = reduce_add(along.offset);
    of_positions[1] = reduce_add(down.offset);
    of_positions[2] = reduce_add(along.square + down.square);
  }

  A* position_sums_;  // [B, H, 3]: columns a_x, a_y, a_d
};

}  // namespace

void run(CpuQueue& queue, const DtnNormBackward& args) {
  for_dtn_variant("DtnNormBackward", args, [&]<class T, DtnVariant variant>() {
    Scratch::Scope scope(queue.scratch());
    if (args.pool > 1) {
      PooledBackward<T, variant>(args, scope).run(queue);
    } else {
      Backward<T, variant>(args, scope).run(queue);
    }
  });
  give_to_branch(queue, args);
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::DtnNormBackward)
